"""Handlers of the Python package against real daemons. The package is the one of the build tree, unless
MARU_PYTHON_INSTALLED is set: then it is the one that the interpreter finds."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

import harness  # noqa: E402
import pytest  # noqa: E402
from fixtures import domain, make_domain, within_limit  # noqa: E402, F401

PACKAGE = harness.BUILD / "src/python"
if not os.environ.get("MARU_PYTHON_INSTALLED"):
    sys.path.insert(0, str(PACKAGE))
    os.environ["PYTHONPATH"] = str(PACKAGE)  # for the processes that tests start
for variable in ("MARU_SERVER_URL", "MARU_SOCKET", "MARU_PLUGINS", "MARU_STAT", "MARU_EAGER_MAP", "MARU_LOG_LEVEL",
                 "LMCACHE_LOG_LEVEL"):
    os.environ.pop(variable, None)

import maru  # noqa: E402

KIB, MIB = harness.KIB, harness.MIB


def configure(domain, **fields):  # noqa: F811
    """A configuration for a daemon of the tests: chunks of 64 KiB, 4 MiB claimed."""
    given = {"server_url": f"unix://{domain.socket}", "pool_size": 4 * MIB, "chunk_size_bytes": 64 * KIB,
             "timeout_ms": 2000 * harness.SLOWER, **fields}
    return maru.MaruConfig(**given)


@pytest.fixture
def connect(request):
    """Makes handlers of a domain; they are closed at the end, before the domain is proven sound."""
    handlers = []

    def make(domain, **fields):  # noqa: F811
        handler = maru.MaruHandler(configure(domain, **fields))
        handlers.append(handler)
        return handler

    yield make
    for handler in handlers:
        handler.close()


@pytest.fixture
def handler(domain, connect):  # noqa: F811
    """One connected handler."""
    one = connect(domain)
    assert one.connected
    return one


@pytest.fixture
def messages(caplog):
    """What the logger `maru` and its children said."""
    caplog.set_level("DEBUG", logger="maru")
    return lambda: [record.getMessage() for record in caplog.records if record.name.split(".")[0] == "maru"]
