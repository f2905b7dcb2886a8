"""maru: KV-cache storage in shared memory for LLM inference.

    from maru import MaruConfig, MaruHandler

    with MaruHandler(MaruConfig(server_url="unix:///run/maru/maru.sock")) as handler:
        handle = handler.alloc(1 << 20)
        handle.buf[:] = b"A" * (1 << 20)
        handler.store(key=42, handle=handle)
        info = handler.retrieve(42)
        assert info.view[:1] == b"A"

Needs a maru daemon on this host; `python -m maru doctor` says what is wrong when it does not work.
"""

from .errors import (
    MaruDamagedError,
    MaruDeniedError,
    MaruError,
    MaruFencedError,
    MaruForkedError,
    MaruFullError,
    MaruTimeoutError,
    MaruUnavailableError,
    MaruVersionError,
)

try:
    from . import _maru
except ImportError as problem:
    raise ImportError(
        f"maru is installed without its compiled module ({problem}): install the distribution 'maru-kvcache', and "
        "remove one named 'maru', which is another project that uses the same import name"
    ) from problem

from .config import MaruConfig
from .handler import MaruHandler
from .memory import AllocHandle, MemoryInfo

__version__ = _maru.version

__all__ = [
    "AllocHandle",
    "MaruConfig",
    "MaruDamagedError",
    "MaruDeniedError",
    "MaruError",
    "MaruFencedError",
    "MaruForkedError",
    "MaruFullError",
    "MaruHandler",
    "MaruTimeoutError",
    "MaruUnavailableError",
    "MaruVersionError",
    "MemoryInfo",
    "__version__",
]
