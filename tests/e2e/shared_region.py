"""A control region as it lies in its pool file, read from outside, whoever is at work on it."""

import collections
import contextlib
import mmap
import struct

FREE, CONNECTING, ACTIVE, QUARANTINED, DEAD = range(5)  # phases of a client slot
PHASES = ["FREE", "CONNECTING", "ACTIVE", "QUARANTINED", "DEAD"]
FORMATTING = 1  # phase of a region

# Offsets in the superblock and sizes of entries, as src/table/layout.hpp has them.
CLIENTS, REGIONS, HOSTS_AT, CLIENTS_AT, REGIONS_AT = 80, 96, 112, 120, 144
CLIENT_BYTES, REGION_BYTES = 256, 192
CLIENT = struct.Struct("<QII")  # state, host, pid
IS_DAEMON = 60

Slot = collections.namedtuple("Slot", "number phase generation pid is_daemon at")


class Region:
    """A read-only view of the tables that tell who is in which state."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self.clients = struct.unpack_from("<I", self.memory, CLIENTS)[0]
        self.clients_at = struct.unpack_from("<Q", self.memory, CLIENTS_AT)[0]
        self.regions = struct.unpack_from("<I", self.memory, REGIONS)[0]
        self.regions_at = struct.unpack_from("<Q", self.memory, REGIONS_AT)[0]

    def slots(self):
        """Client slots in use."""
        found = []
        for number in range(1, self.clients):
            at = self.clients_at + number * CLIENT_BYTES
            state, _, pid = CLIENT.unpack_from(self.memory, at)
            if state & 15 != FREE:
                is_daemon = struct.unpack_from("<I", self.memory, at + IS_DAEMON)[0]
                found.append(Slot(number, state & 15, state >> 32, pid, bool(is_daemon), at))
        return found

    def slot_of(self, pid):
        """The slot of a process; one that it has given up and that is not swept yet only when it has no other."""
        return min((slot for slot in self.slots() if slot.pid == pid), key=lambda slot: slot.phase == DEAD, default=None)

    def dead_clients(self):
        """Client slots whose sweep has begun and not ended."""
        return [slot.number for slot in self.slots() if slot.phase == DEAD]

    def is_forming(self):
        """A region is between two phases: its pages are being named."""
        return any(self.memory[self.regions_at + number * REGION_BYTES] & 15 == FORMATTING
                   for number in range(self.regions))

    def close(self):
        self.memory.close()


def host_at(path):
    """Where the entry of this host lies in the pool file."""
    with open(path, "rb") as file:
        file.seek(HOSTS_AT)
        return struct.unpack("<Q", file.read(8))[0]


def dead_clients(path):
    with contextlib.closing(Region(path)) as region:
        return region.dead_clients()
