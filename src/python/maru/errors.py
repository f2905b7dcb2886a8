"""Exceptions of maru. Each is a MaruError and also the built-in exception that fits, so that either can be caught."""


class MaruError(Exception):
    """Something failed; the text names the thing, the value and the remedy."""


class MaruUnavailableError(MaruError, ConnectionError, RuntimeError):
    """The handler is not connected, or the daemon cannot be reached and this call needs it."""


class MaruTimeoutError(MaruUnavailableError, TimeoutError):
    """The daemon did not answer within timeout_ms."""


class MaruFencedError(MaruUnavailableError):
    """The daemon took this client for gone. Remedy: close() and connect()."""


class MaruDeniedError(MaruUnavailableError, PermissionError):
    """The daemon, its socket or the namespace refuses this user. Remedy: make it a member of the daemon's group, or let
    it into the namespace (``maructl namespace set``); in a namespace that it may only read, store nothing."""


class MaruVersionError(MaruUnavailableError):
    """The daemon speaks another version of the protocol or of the memory layout."""


class MaruForkedError(MaruError, RuntimeError):
    """The handler belongs to the parent process. Remedy: make a new one in the child."""


class MaruFullError(MaruError, ValueError):
    """No page, or no pin slot, is left and nothing can be evicted; the text says what holds the pool."""


class MaruDamagedError(MaruError):
    """Shared memory does not make sense. Remedy: `maructl check`."""
