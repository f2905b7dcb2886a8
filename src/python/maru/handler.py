"""MaruHandler: one client of the maru daemon of this host."""

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from . import cuda, location, plugin, stats
from ._maru import Handler
from .config import MaruConfig, environment_bool
from .errors import MaruError, MaruForkedError, MaruUnavailableError
from .log import logger_of
from .memory import Allocator, Mapper, RegionHandle

_log = logger_of(__name__)
_living: "weakref.WeakSet[MaruHandler]" = weakref.WeakSet()

BUILT_BACKENDS = ("cxl",)


class MaruHandler(Handler):
    """Stores and retrieves values in memory that several processes map.

    Keys are str (UTF-8), bytes or int, of 1 to 4096 bytes; 42 and "42" are different keys. Values are bytes, at most
    chunk_size_bytes each. Whatever memoryview, array or tensor came from the handler stays valid after close() and after
    the handler is gone.

    Threads: every method may be called from any thread. The GIL is released while bytes are copied, while a call waits
    for the daemon, and in batches of 32 keys and more.
    Fork: in a forked child every operation raises MaruForkedError until the child makes a handler of its own.
    Errors: MaruUnavailableError (a ConnectionError and a RuntimeError) from every operation of an unconnected handler.
    """

    def __init__(self, config: MaruConfig | None = None) -> None:
        if config is not None and not isinstance(config, MaruConfig):
            raise TypeError(f"config is a MaruConfig, not {type(config).__name__}")
        self._config = config if config is not None else MaruConfig()
        self._life = threading.RLock()
        self._process = os.getpid()
        self._last_error = ""
        self._noted: set[tuple[str, int]] = set()
        self._region_callback: Callable[[int, int], None] | None = None
        self._announced: set[int] = set()
        self._try_once_more = False
        self._closing = False
        self._registered_memory: Any = None
        self._plugins = plugin.load_handler_plugins()
        self._time_operations(self._config.enable_stats)
        if any(getattr(one, "on_batch_retrieve", None) is not None for one in self._plugins):
            self._set_retrieve_hook(_run_retrieve_hooks)
        if self._config.rm_address:
            _log.info("rm_address %r is ignored: the daemon is its own resource manager", self._config.rm_address)
        for one in self._plugins:
            plugin.call_hook(one, "on_init", self)
        _living.add(self)
        if self._config.auto_connect:
            self._try_once_more = not self.connect()

    # -- life

    def connect(self) -> bool:
        """Connects to the daemon; True if connected already. False, with the reason logged and in last_error(), when
        that fails. Bounded by timeout_ms. Works again after close()."""
        self._check_process()
        with self._life:
            if self._open_now:
                return True
            self._try_once_more = False
            try:
                self._connect()
            except (MaruError, OSError) as problem:
                self._last_error = str(problem)
                _log.error("not connected: %s", problem)
                return False
            return True

    def _connect(self) -> None:
        config = self._config
        if config.storage_backend not in BUILT_BACKENDS:
            raise MaruUnavailableError(
                f"storage_backend is {config.storage_backend!r}, which this build of maru does not have: it has "
                f"{', '.join(BUILT_BACKENDS)}")
        path = location.socket_path(config.server_url)
        prefault = environment_bool("MARU_PREFAULT") is not False
        warning = self._open(path, config.instance_id, config.cache_namespace, config.pool_size,
                             config.chunk_size_bytes, config.expand_size or 0, config.auto_expand, prefault,
                             max(1, int(config.timeout_ms)))
        if warning:
            _log.warning("%s", warning)
        _log.info("connected to %s as %s%s", path or "the daemon of this host", config.instance_id,
                  "" if config.server_url.startswith("unix:") else f" ({config.server_url} is this host)")
        self._announced = set()
        held = self._statistics()["held_bytes"]
        if held < config.pool_size:
            _log.warning("pool_size is %d bytes, only %d were free and are held: alloc claims more when others give "
                         "it back, and evicts until then; lower pool_size or give the daemon larger pools",
                         config.pool_size, held)
        self._registered_memory = cuda.register(self)
        if self._region_callback is not None:
            self._note_regions()

    def _connect_for_use(self) -> None:
        """An operation found the handler unconnected."""
        self._check_process()
        if self._try_once_more and self.connect():
            return
        raise MaruUnavailableError(f"not connected: {self._last_error or 'call connect() first'}")

    def close(self) -> None:
        """Ends the connection; does nothing the second time. Waits for calls of other threads, at most timeout_ms.

        Key pins go back at once; published objects stay. What views and buffers that still live are made of stays too,
        until the last of them dies. Plug-ins' on_close runs first, with everything working."""
        if self._process != os.getpid():
            return
        with self._life:
            self._try_once_more = False
            if not self._open_now or self._closing:
                return
            self._closing = True
            try:
                for one in self._plugins:
                    plugin.call_hook(one, "on_close", self)
                cuda.unregister(self._registered_memory)
                self._registered_memory = None
                self._close()
            except MaruError as problem:
                self._last_error = str(problem)
                _log.warning("close: %s", problem)
            finally:
                self._closing = False

    def __enter__(self) -> "MaruHandler":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            if self._open_now:
                self.close()
        except Exception:  # the interpreter may be half gone; the compiled part closes by itself
            pass

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise MaruForkedError("this handler belongs to the parent process: make a new one in the forked child")

    @property
    def connected(self) -> bool:
        """Is there a session? True also while the daemon is away: stored objects can still be read."""
        return self._open_now and self._process == os.getpid()

    @property
    def _connected(self) -> bool:
        return self.connected

    @property
    def instance_id(self) -> str:
        """Name of this client for people."""
        return self._config.instance_id

    def healthcheck(self) -> bool:
        """One round trip to the daemon; False when it does not answer within timeout_ms."""
        try:
            self._ping()
        except MaruForkedError:
            raise
        except MaruUnavailableError as problem:
            if not self._open_now:
                raise
            self._last_error = str(problem)
            return False
        return True

    def last_error(self) -> str:
        """What the last failure that was answered, not raised, had to say; "" if there was none."""
        return self._last_error

    def _note_failure(self, operation: str, status: int, text: str) -> None:
        self._last_error = f"{operation}: {text}"
        if (operation, status) not in self._noted:
            self._noted.add((operation, status))
            _log.warning("%s: %s (logged once)", operation, text)

    # -- regions

    def get_chunk_size(self) -> int:
        """Bytes from one page to the next, as in force; the configured chunk_size_bytes while unconnected."""
        return self._chunk_size() or self._config.chunk_size_bytes

    def get_owned_region_ids(self) -> list[int]:
        """Numbers of the regions that this handler holds."""
        if not self.connected:
            return []
        self._note_regions()
        return self._held_regions()

    def get_region_page_count(self, region_id: int) -> int | None:
        """Pages of a region, None when it is not in use."""
        region = self._region(region_id) if self.connected else None
        return None if region is None else region["page_count"]

    def is_region_mapped(self, region_id: int) -> bool:
        """Is the region in use, and mapped here?"""
        region = self._region(region_id) if self.connected else None
        return region is not None and region["address"] != 0

    def get_region_dax_path(self, region_id: int) -> str | None:
        """Path of the region's pool as this host's daemon knows it; None when it is not mapped or has no path."""
        region = self._region(region_id) if self.connected else None
        pool = None if region is None else self._pool(region["pool"])
        return (pool["path"] or None) if pool is not None else None

    def set_on_region_added(self, cb: Callable[[int, int], None] | None) -> None:
        """cb(region_id, page_count) for each region held, now and as they come; None ends that."""
        if cb is not None and not callable(cb):
            raise TypeError(f"cb is a callable or None, not {type(cb).__name__}")
        self._region_callback = cb
        self._announced = set()
        self._watch_regions(cb is not None)
        if cb is not None and self.connected:
            self._note_regions()

    def _note_regions(self) -> None:
        callback = self._region_callback
        if callback is None or not self._open_now:
            return
        for number in self._held_regions():
            with self._life:
                if number in self._announced:
                    continue
                self._announced.add(number)
            region = self._region(number)
            try:
                callback(number, 0 if region is None else region["page_count"])
            except Exception:
                _log.exception("the callback for region %d raised; it is ignored", number)

    @property
    def pool_handle(self) -> RegionHandle | None:
        """Where the first held region lies; None when unconnected or nothing is held."""
        for number in self.get_owned_region_ids():
            region = self._region(number)
            if region is not None:
                return RegionHandle(number, region["offset"], region["bytes"])
        return None

    @property
    def allocator(self) -> Allocator | None:
        """Page counts of the held regions; None when unconnected."""
        if not self.connected:
            return None
        own = self._statistics()
        return Allocator(page_count=own["pages"], num_free_pages=own["free_pages"],
                         num_allocated=own["pages"] - own["free_pages"])

    @property
    def mapper(self) -> Mapper | None:
        """Deprecated: use get_buffer_view(). None while unconnected."""
        return Mapper(self) if self.connected else None

    # -- statistics

    def get_stats(self) -> dict[str, Any]:
        """Counts of the domain, of this handler and of the other clients. Never waits for the daemon."""
        result = stats.collect(self)
        result["plugins"] = {}
        for one in self._plugins:
            contribution = plugin.call_hook(one, "contribute_stats")
            if contribution is not None:
                result["plugins"][type(one).__name__] = contribution
        return result


def _run_retrieve_hooks(handler: MaruHandler, keys: tuple, infos: list) -> None:
    """Called by batch_retrieve when a plug-in has the hook."""
    try:
        response = plugin.describe_batch(handler, infos)
    except Exception:
        _log.exception("the answer of batch_retrieve cannot be described for plug-ins; their hooks are not called")
        return
    for one in handler._plugins:
        plugin.call_hook(one, "on_batch_retrieve", handler, keys, response)


@atexit.register
def _close_all() -> None:
    for handler in list(_living):
        handler.close()
