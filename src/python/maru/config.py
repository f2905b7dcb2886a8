"""MaruConfig: what a handler is told, checked where it is written."""

import dataclasses
import os
import re
import uuid

from . import location

BACKENDS = ("cxl", "cpu", "mixed", "remote_cxl")
DEFAULT_SERVER_URL = "tcp://localhost:5555"
SIZE_MAX = 1 << 56
TIMEOUT_MAX_MS = 3_600_000

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


def _in_range(field: str, count: int) -> int:
    if count > SIZE_MAX:
        raise ValueError(f"{field} is {count}: at most {SIZE_MAX} bytes are possible")
    return count


def parse_size(field: str, value: int | str) -> int:
    """Bytes from a number or a text such as "4G", "500M" or "1.5GiB" (units are powers of 1024)."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"{field} is {value!r}: bytes as int, or a text such as '4GiB', was expected")
    if isinstance(value, int):
        return _in_range(field, value)
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtp]?)(?:i?b)?\s*", value, re.IGNORECASE)
    if not found:
        raise ValueError(f"{field} is {value!r}: a size such as '4GiB', '500M' or '1.5G' was expected")
    unit = _UNITS[found[2].lower()]
    return _in_range(field, int(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit)


def environment_bool(variable: str) -> bool | None:
    """A boolean environment variable; None when it is unset or empty."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(f"the environment variable {variable} is {os.environ[variable]!r}: "
                     "1, true, yes, on, 0, false, no or off was expected")


@dataclasses.dataclass
class MaruConfig:
    """Configuration of one MaruHandler. Sizes are bytes, or texts such as "4GiB".

    server_url        where the daemon is: unix:///path, or tcp://host:port and maru://host:port; such an address of this
                      host finds the local socket. MARU_SERVER_URL replaces the default
    instance_id       name of this client for people; a UUID is made up when it is None
    pool_size         bytes claimed at connect, rounded up to whole regions; less when less is free
    chunk_size_bytes  page size: one object fits one page
    auto_connect      connect in the constructor
    timeout_ms        bound of every call that needs the daemon
    use_async_rpc, max_inflight   TCP only
    eager_map         map all pools at connect (a local daemon's always are: it costs address space only);
                      MARU_EAGER_MAP overrides
    storage_backend   "cxl", "cpu", "mixed" or "remote_cxl"
    engine_id, cache_namespace    required for cpu, mixed, remote_cxl; cxl honours cache_namespace too
    rdma_*, remote_cxl_agent_key_file   remote_cxl only
    auto_expand       claim another expand_size bytes when the held regions are full, before evicting
    expand_size       None means pool_size
    enable_stats      latency histograms for each operation; MARU_STAT overrides
    rm_address        accepted and ignored: the daemon is its own resource manager

    Raises ValueError, naming field and value, for what cannot be.
    """

    server_url: str = DEFAULT_SERVER_URL
    instance_id: str | None = None
    pool_size: int = 104_857_600
    chunk_size_bytes: int = 1_048_576
    auto_connect: bool = True
    timeout_ms: int = 2000
    use_async_rpc: bool = True
    max_inflight: int = 64
    eager_map: bool = True
    storage_backend: str = "cxl"
    engine_id: str | None = None
    cache_namespace: str | None = None
    rdma_device: str = ""
    rdma_staging_size: int | None = None
    rdma_timeout_s: float = 30.0
    rdma_load_reserve: float = 0.0
    remote_cxl_agent_key_file: str = "~/.maru/remote-cxl-agent.key"
    auto_expand: bool = True
    expand_size: int | None = None
    enable_stats: bool = False
    rm_address: str = ""

    def __post_init__(self) -> None:
        if self.server_url == DEFAULT_SERVER_URL:
            self.server_url = os.environ.get("MARU_SERVER_URL", "").strip() or self.server_url
        if self.instance_id is None:
            self.instance_id = str(uuid.uuid4())
        for field in ("pool_size", "chunk_size_bytes", "expand_size", "rdma_staging_size"):
            value = getattr(self, field)
            if value is not None:
                setattr(self, field, parse_size(field, value))
        for field, variable in (("eager_map", "MARU_EAGER_MAP"), ("enable_stats", "MARU_STAT")):
            override = environment_bool(variable)
            if override is not None:
                setattr(self, field, override)
        self._check_names()
        self._check_sizes()
        self._check_limits()
        location.check(self.server_url, self.storage_backend)

    def _check_names(self) -> None:
        if not isinstance(self.instance_id, str) or not 1 <= len(self.instance_id.encode()) <= 127:
            raise ValueError(f"instance_id is {self.instance_id!r}: 1 to 127 bytes of text are possible")
        if self.storage_backend not in BACKENDS:
            raise ValueError(f"storage_backend is {self.storage_backend!r}: there are {', '.join(BACKENDS)}")
        if self.storage_backend == "cxl":
            return
        for field in ("engine_id", "cache_namespace"):
            value = getattr(self, field)
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{field} is {value!r}: storage_backend {self.storage_backend!r} requires it")

    def _check_sizes(self) -> None:
        if self.chunk_size_bytes <= 0:
            raise ValueError(f"chunk_size_bytes is {self.chunk_size_bytes}: it must be positive")
        if self.pool_size < self.chunk_size_bytes:
            raise ValueError(f"pool_size is {self.pool_size}: it must hold at least one chunk, "
                             f"chunk_size_bytes is {self.chunk_size_bytes}")
        if self.rdma_staging_size is not None and self.rdma_staging_size <= 0:
            raise ValueError(f"rdma_staging_size is {self.rdma_staging_size}: it must be positive")
        if self.expand_size is None:
            return
        if not self.auto_expand:
            raise ValueError(f"expand_size is {self.expand_size}, but auto_expand is False: leave it out")
        if self.expand_size < self.chunk_size_bytes:
            raise ValueError(f"expand_size is {self.expand_size}: it must hold at least one chunk, "
                             f"chunk_size_bytes is {self.chunk_size_bytes}")

    def _check_limits(self) -> None:
        for field in ("timeout_ms", "max_inflight", "rdma_timeout_s"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
                raise ValueError(f"{field} is {value!r}: it must be a positive number")
        if self.timeout_ms > TIMEOUT_MAX_MS:
            raise ValueError(f"timeout_ms is {self.timeout_ms}: at most {TIMEOUT_MAX_MS}, an hour, is possible")
        if not 0 <= self.rdma_load_reserve < 1:
            raise ValueError(f"rdma_load_reserve is {self.rdma_load_reserve!r}: it must be in [0, 1)")
