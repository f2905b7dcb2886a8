"""Types over memory: AllocHandle and MemoryInfo come from the compiled module, the rest is small."""

import dataclasses
from typing import Any

from ._maru import AllocHandle, MemoryInfo

__all__ = ["AllocHandle", "Allocator", "MappedRegion", "Mapper", "MemoryInfo", "RegionHandle"]


@dataclasses.dataclass(frozen=True)
class RegionHandle:
    """Where a region lies on its device.

    region_id: its number. offset: bytes from the begin of the pool. length: bytes.
    """

    region_id: int
    offset: int
    length: int


@dataclasses.dataclass(frozen=True)
class Allocator:
    """Pages of the regions that the handler holds, counted when it was asked."""

    page_count: int
    num_free_pages: int
    num_allocated: int


@dataclasses.dataclass
class MappedRegion:
    """A region as mapped into this process. `size` is in bytes; `_mmap_obj` has the buffer protocol."""

    region_id: int
    handle: Any
    size: int
    _mmap_obj: Any

    def get_buffer_view(self, offset: int, size: int) -> memoryview | None:
        """`size` bytes at `offset`, or None when that is out of range."""
        if offset < 0 or size < 0 or offset + size > self.size:
            return None
        return memoryview(self._mmap_obj)[offset:offset + size]


class Mapper:
    """Deprecated: use MaruHandler.get_buffer_view()."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def get_region(self, region_id: int) -> MappedRegion | None:
        """The region with this number, or None when it is not mapped."""
        region = self._handler._region(region_id)
        if region is None:
            return None
        handle = RegionHandle(region["region_id"], region["offset"], region["bytes"])
        size = region["page_size"] * region["page_count"]
        return MappedRegion(region_id=region_id, handle=handle, size=size,
                            _mmap_obj=self._handler.get_buffer_view(region_id, 0, size))
