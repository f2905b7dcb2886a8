"""MaruHandler under its earlier name."""

from maru import MaruHandler

__all__ = ["MaruHandler"]
