"""Types of maru.memory under their earlier name."""

try:
    from maru.memory import AllocHandle, MappedRegion, MemoryInfo
except ImportError as problem:
    raise ImportError("the module 'maru' that was found is another project that uses the same name: remove the "
                      "distribution 'maru' and install 'maru-kvcache'") from problem

__all__ = ["AllocHandle", "MappedRegion", "MemoryInfo"]
