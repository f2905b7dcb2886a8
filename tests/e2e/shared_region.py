"""A control region as it lies in its pool file, read while nobody serves it."""

import dataclasses
import mmap
import struct

DEAD = 4
CLIENTS, CLIENTS_AT = 80, 120  # offsets in the superblock


@dataclasses.dataclass(frozen=True)
class Superblock:
    """The few places that are needed here, as src/table/layout.hpp has them."""

    clients: int
    clients_at: int


def superblock(memory):
    return Superblock(clients=struct.unpack_from("<I", memory, CLIENTS)[0],
                      clients_at=struct.unpack_from("<Q", memory, CLIENTS_AT)[0])


def dead_clients(path):
    """Client slots whose sweep has begun and not ended."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        block = superblock(memory)
        states = [struct.unpack_from("<Q", memory, block.clients_at + slot * 256)[0] for slot in range(block.clients)]
    return [slot for slot, state in enumerate(states) if state & 15 == DEAD]
