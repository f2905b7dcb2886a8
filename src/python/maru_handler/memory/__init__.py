"""Types of maru.memory under their earlier name."""

from .types import AllocHandle, MappedRegion, MemoryInfo

__all__ = ["AllocHandle", "MappedRegion", "MemoryInfo"]
