"""Plug-ins: objects that other packages register under the entry-point group `maru.handler_plugins`.

An entry point names a callable without arguments; what it returns has any of the hooks of MaruHandlerPlugin. A plug-in
that cannot be loaded, or whose hook raises, is logged and skipped: it never breaks an operation.
"""

import dataclasses
import importlib.metadata
import os
import traceback
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from .log import logger_of
from .memory import RegionHandle

PLUGIN_GROUP = "maru.handler_plugins"
PLUGIN_ALLOWLIST_ENV = "MARU_PLUGINS"
HOOKS = ("on_init", "on_batch_retrieve", "on_close", "contribute_stats")

_log = logger_of(__name__)


@runtime_checkable
class MaruHandlerPlugin(Protocol):
    """The hooks; each may be left out."""

    def on_init(self, handler: Any) -> None:
        """At the end of the handler's construction, before it connects."""

    def on_batch_retrieve(self, handler: Any, keys: tuple, batch_resp: "BatchResponse") -> None:
        """At the end of batch_retrieve, with the memory mapped. On the hot path. entries[i] belongs to keys[i]; every
        found entry is there, also those in the handler's own regions."""

    def on_close(self, handler: Any) -> None:
        """While a handler that was connected closes; it may call any operation."""

    def contribute_stats(self) -> dict | None:
        """What get_stats() shows under ["plugins"][class name]."""


@dataclasses.dataclass(frozen=True)
class BatchEntry:
    """One answer of a batch: the value lies at handle.offset + kv_offset of the pool's device, kv_length bytes."""

    found: bool
    handle: RegionHandle | None
    kv_offset: int
    kv_length: int


@dataclasses.dataclass(frozen=True)
class BatchResponse:
    """Answers in the order of the keys."""

    entries: list[BatchEntry]


MISS = BatchEntry(False, None, 0, 0)


def _allowed() -> list[str] | None:
    """Names of the allow-list; None allows all."""
    names = [name.strip() for name in os.environ.get(PLUGIN_ALLOWLIST_ENV, "").split(",")]
    return [name for name in names if name] or None


def _entry_points() -> Iterator[importlib.metadata.EntryPoint]:
    """One entry point for each name that is allowed: the first wins."""
    allowed, seen = _allowed(), set()
    for entry in importlib.metadata.entry_points(group=PLUGIN_GROUP):
        if allowed is not None and entry.name not in allowed:
            continue
        if entry.name in seen:
            _log.warning("plug-in %s is registered twice; %s is left out", entry.name, entry.value)
            continue
        seen.add(entry.name)
        yield entry
    for name in allowed or []:
        if name not in seen:
            _log.warning("%s names the plug-in %s, which is not installed", PLUGIN_ALLOWLIST_ENV, name)


def load_handler_plugins() -> list[Any]:
    """An instance of each plug-in that is installed and allowed. Never raises."""
    plugins = []
    try:
        for entry in _entry_points():
            try:
                plugin = entry.load()()
            except Exception:
                _log.exception("plug-in %s (%s) cannot be loaded and is left out", entry.name, entry.value)
                continue
            if plugin is None:
                _log.warning("plug-in %s (%s) returned None and is left out", entry.name, entry.value)
                continue
            plugins.append(plugin)
    except Exception:
        _log.exception("plug-ins cannot be listed; none is loaded")
    return plugins


def call_hook(plugin: Any, hook: str, *arguments: Any) -> Any:
    """Calls a hook if the plug-in has it; what it raises is logged."""
    function = getattr(plugin, hook, None)
    if function is None:
        return None
    try:
        return function(*arguments)
    except Exception:
        # As text: a log record with the traceback would keep the frames, and with them leases on what was retrieved.
        _log.error("%s.%s raised; it is ignored\n%s", type(plugin).__name__, hook, traceback.format_exc())
        return None


def describe_batch(handler: Any, infos: list) -> BatchResponse:
    """The answers of a batch as places on their devices."""
    regions: dict[int, tuple[RegionHandle, int] | None] = {}
    entries = []
    for info in infos:
        if info is None:
            entries.append(MISS)
            continue
        if info.region_id not in regions:
            region = handler._region(info.region_id)
            regions[info.region_id] = region and (
                RegionHandle(region["region_id"], region["offset"], region["bytes"]), region["page_size"])
        place = regions[info.region_id]
        if place is None:
            entries.append(MISS)
            continue
        entries.append(BatchEntry(True, place[0], info.page_index * place[1], len(info.view)))
    return BatchResponse(entries)
