"""From a server URL to the daemon's Unix socket."""

import socket
from urllib.parse import urlsplit

from .errors import MaruUnavailableError
from .log import logger_of

SCHEMES = ("unix", "tcp", "maru")
_log = logger_of(__name__)


def _split(url: str) -> tuple[str, str]:
    """Scheme and host (or path, for unix) of a URL; ValueError when it is none that can be."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES or not rest:
        raise ValueError(f"server_url is {url!r}: unix:///path, tcp://host:port or maru://host:port was expected")
    if scheme == "unix":
        if not rest.startswith("/"):
            raise ValueError(f"server_url is {url!r}: a socket path begins with '/', as in unix:///run/maru/maru.sock")
        return scheme, rest
    parts = urlsplit(f"tcp://{rest}")
    try:
        port, host = parts.port, parts.hostname
    except ValueError as problem:
        raise ValueError(f"server_url is {url!r}: {problem}") from None
    if not host or port is None or parts.path not in ("", "/"):
        raise ValueError(f"server_url is {url!r}: {scheme}://host:port was expected")
    return scheme, host


def check(url: str, backend: str = "cxl") -> None:
    """ValueError when no daemon can be meant by this."""
    if not isinstance(url, str):
        raise TypeError(f"server_url is {url!r}: text was expected")
    for one in url.split(",") if backend == "remote_cxl" else [url]:
        _split(one.strip())


def is_this_host(host: str) -> bool:
    """Is this name or address one of this host's?"""
    if host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::", socket.gethostname()):
        return True
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind((address[0], 0, *address[2:]))  # only an address of this host can be bound
        except OSError:
            continue
        return True
    return False


def socket_path(url: str) -> str | None:
    """The socket to connect to; None asks the library to search ($MARU_SOCKET and the usual places).

    Raises MaruUnavailableError for another host: this build reaches daemons through shared memory only.
    """
    scheme, rest = _split(url)
    if scheme == "unix":
        return rest
    if is_this_host(rest):
        _log.debug("%s is this host: the daemon's Unix socket is searched in the usual places", url)
        return None
    raise MaruUnavailableError(f"server_url is {url}: '{rest}' is not this host, and this build of maru has no TCP "
                               "transport; run a daemon on this host and give its socket as unix:///path")
