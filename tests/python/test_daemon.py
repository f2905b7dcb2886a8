"""The daemon killed, stopped and started again under a handler."""

import time

import pytest
from conftest import MIB

import harness
import maru


def use(handler, name):
    assert handler.store(name, data=name.encode()) is True
    assert bytes(handler.retrieve(name).view) == name.encode()
    assert handler.exists(name) and handler.batch_exists([name] * 40) == [True] * 40
    assert handler.pin(name) and handler.unpin(name)
    handle = handler.alloc(3)
    handler.free(handle)
    assert handler.delete(name) is True


def test_operations_go_on_without_a_daemon(domain, handler):
    use(handler, "before")
    domain.kill()
    use(handler, "killed")
    assert handler.connected
    domain.start()
    harness.wait_until(handler.healthcheck, "the connection is back")
    use(handler, "after")


def test_operations_go_on_while_the_daemon_is_stopped(domain, handler):
    domain.pause()
    try:
        use(handler, "stopped")
        assert handler.healthcheck() is False
    finally:
        domain.resume()
    harness.wait_until(handler.healthcheck, "the daemon answers again")


def test_an_orderly_restart(domain, handler):
    handler.store("k", data=b"v")
    assert domain.stop() == 0
    use(handler, "between")
    domain.start()
    harness.wait_until(handler.healthcheck, "the connection is back")
    assert handler.exists("k")


def test_connect_is_bounded_by_the_timeout(domain, connect):
    domain.pause()
    try:
        begin = time.monotonic()
        handler = connect(domain, timeout_ms=500)
        assert not handler.connected and time.monotonic() - begin < 3 * harness.SLOWER
        with pytest.raises(maru.MaruUnavailableError):
            handler.exists("k")
    finally:
        domain.resume()


def test_close_is_bounded_without_a_daemon(domain, handler):
    handler.store("k", data=b"v")
    domain.pause()
    try:
        begin = time.monotonic()
        handler.close()
        assert time.monotonic() - begin < 5 * harness.SLOWER
    finally:
        domain.resume()
    harness.wait_until(lambda: not domain.clients(), "the client has gone")


def test_more_memory_is_claimed_when_the_daemon_is_back(domain, connect):
    handler = connect(domain, pool_size=1 * MIB)
    domain.kill()
    handles = []
    with pytest.raises(maru.MaruError):
        while True:
            handles.append(handler.alloc(1))
    domain.start()
    harness.wait_until(handler.healthcheck, "the connection is back")
    assert harness.wait_until(lambda: _alloc(handler), "more memory is claimed")


def _alloc(handler):
    try:
        return handler.alloc(1)
    except maru.MaruError:
        return None
