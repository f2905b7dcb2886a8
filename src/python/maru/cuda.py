"""Registers mapped pools with CUDA, when CUDA is there, so that copies to and from a GPU need no bounce buffer.

The runtime library is looked for when a handler connects; nothing of it is needed to build or install maru.
"""

import ctypes
import dataclasses
import os
import sys
from typing import Any

from .log import logger_of

PIECE_BYTES_MAX = 64 << 30
PORTABLE = 1
_log = logger_of(__name__)


@dataclasses.dataclass
class Registration:
    """Pieces that were registered, and the library that did it."""

    runtime: Any
    pieces: list[int]


def _loaded_path() -> str | None:
    """The runtime that this process has loaded already, most often through torch."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if "libcudart" in os.path.basename(path):
                    return "/" + path
    except OSError:
        pass
    return None


def _driver_is_there() -> bool:
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def find_runtime() -> Any:
    """The CUDA runtime library with at least one device, or None."""
    if not sys.platform.startswith("linux") or not _driver_is_there():
        return None
    for name in filter(None, (_loaded_path(), "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so")):
        try:
            runtime = ctypes.CDLL(name)
            count = ctypes.c_int(0)
            if runtime.cudaGetDeviceCount(ctypes.byref(count)) == 0 and count.value > 0:
                return runtime
            runtime.cudaGetLastError()
        except (OSError, AttributeError):
            continue
    return None


def _pools(handler: Any) -> list[dict[str, Any]]:
    pools = []
    while (pool := handler._pool(len(pools))) is not None:
        pools.append(pool)
    return pools


def register(handler: Any, runtime: Any = None, piece_bytes: int = PIECE_BYTES_MAX) -> Registration | None:
    """Registers every mapped pool. A failure is one warning: copies are pageable then. None without CUDA."""
    runtime = runtime if runtime is not None else find_runtime()
    if runtime is None:
        return None
    done = Registration(runtime, [])
    for pool in _pools(handler):
        for begin in range(0, pool["bytes"], piece_bytes):
            address, length = pool["address"] + begin, min(piece_bytes, pool["bytes"] - begin)
            status = runtime.cudaHostRegister(ctypes.c_void_p(address), ctypes.c_size_t(length), ctypes.c_uint(PORTABLE))
            if status == 0:
                done.pieces.append(address)
                continue
            runtime.cudaGetLastError()  # or the program's next CUDA call would report it
            _log.warning("pool %s: cudaHostRegister of %d bytes failed with error %d: copies to and from the GPU are "
                         "pageable; raise RLIMIT_MEMLOCK if it is low", pool["name"], length, status)
            return done
    return done


def unregister(registration: Registration | None) -> None:
    """Takes back what register() did."""
    if registration is None:
        return
    for address in registration.pieces:
        if registration.runtime.cudaHostUnregister(ctypes.c_void_p(address)) != 0:
            registration.runtime.cudaGetLastError()
    registration.pieces.clear()
