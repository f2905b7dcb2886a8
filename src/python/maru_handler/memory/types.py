"""Types of maru.memory under their earlier name."""

from maru.memory import AllocHandle, MappedRegion, MemoryInfo

__all__ = ["AllocHandle", "MappedRegion", "MemoryInfo"]
