"""MaruConfig under its earlier name."""

from maru import MaruConfig

__all__ = ["MaruConfig"]
