"""MaruConfig under its earlier name."""

try:
    from maru import MaruConfig
except ImportError as problem:
    raise ImportError("the module 'maru' that was found is another project that uses the same name: remove the "
                      "distribution 'maru' and install 'maru-kvcache'") from problem

__all__ = ["MaruConfig"]
