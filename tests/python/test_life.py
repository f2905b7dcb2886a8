"""Construction, connect, close, reconnect; daemons that are not there."""

import logging

import pytest
from conftest import KIB, MIB, configure

import harness
import maru
from maru import MaruConfig, MaruHandler


def test_auto_connect(handler):
    assert handler.connected and handler._connected and handler.connect() is True


def test_without_auto_connect(domain, connect):
    handler = connect(domain, auto_connect=False)
    assert not handler.connected
    with pytest.raises(maru.MaruUnavailableError):
        handler.retrieve("k")
    assert handler.connect() is True and handler.retrieve("k") is None


def test_the_instance_id_is_the_one_of_the_configuration(domain, connect):
    handler = connect(domain, instance_id="engine-7")
    assert handler.instance_id == "engine-7" and list(domain.clients()) == ["engine-7"]
    with pytest.raises(AttributeError):
        handler.instance_id = "other"


def test_a_wrong_configuration_object():
    with pytest.raises(TypeError, match="dict"):
        MaruHandler({"pool_size": 1})


def test_no_daemon(make_domain, connect, messages):
    domain = make_domain(start=False)
    domain.expect_clean = False
    handler = connect(domain)
    assert not handler.connected
    errors = [text for text in messages() if "not connected" in text]
    assert len(errors) == 1 and str(domain.socket) in errors[0]
    domain.start()  # the first operation tries once more
    assert handler.exists("k") is False and handler.connected


def test_the_first_operation_tries_once_and_then_raises(make_domain, connect, messages):
    domain = make_domain(start=False)
    domain.expect_clean = False
    handler = connect(domain)
    for kind in (maru.MaruUnavailableError, ConnectionError, RuntimeError):
        with pytest.raises(kind, match="not connected"):
            handler.exists("k")
    assert len([text for text in messages() if "not connected" in text]) == 2
    assert handler.connect() is False and str(domain.socket) in handler.last_error()
    domain.start()
    assert handler.connect() is True and handler.exists("k") is False


OPERATIONS = {
    "alloc": (1,), "free": (None,), "store": ("k", None), "retrieve": ("k",), "exists": ("k",), "pin": ("k",),
    "unpin": ("k",), "delete": ("k",), "delete_status": ("k",), "batch_store": ([], []), "batch_retrieve": ([],),
    "batch_exists": ([],), "batch_pin": ([],), "batch_unpin": ([],), "match_prefix": ([],), "healthcheck": (),
    "get_stats": (), "get_buffer_view": (0, 0, 1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_of_a_closed_handler(handler, name):
    handler.close()
    with pytest.raises(maru.MaruUnavailableError):
        getattr(handler, name)(*OPERATIONS[name])


def test_accessors_of_a_closed_handler(handler):
    region = handler.get_owned_region_ids()[0]
    handler.close()
    assert handler.connected is False and handler.get_owned_region_ids() == []
    assert handler.get_region_page_count(region) is None and handler.is_region_mapped(region) is False
    assert handler.get_region_dax_path(region) is None and handler.get_chunk_size() == 64 * KIB
    assert handler.pool_handle is None and handler.allocator is None and handler.mapper is None
    handler.set_on_region_added(None)


def test_close_is_idempotent_and_connect_works_again(domain, handler):
    handler.store("k", data=b"value")
    handler.close()
    handler.close()
    harness.wait_until(lambda: not domain.clients(), "the client has gone")
    assert handler.connect() is True
    assert bytes(handler.retrieve("k").view) == b"value", "published objects stay"


def test_context_manager(domain):
    with MaruHandler(configure(domain)) as handler:
        assert handler.connected
    assert not handler.connected
    with pytest.raises(KeyError):
        with MaruHandler(configure(domain)) as handler:
            raise KeyError
    assert not handler.connected


def test_close_gives_back_pins_and_pages(domain, handler):
    handler.store("k", data=b"v")
    assert handler.pin("k")
    handler.alloc(10)
    handler.close()
    harness.wait_until(domain.nothing_held, "nothing is held")


def test_a_collected_handler_closes(domain, connect):
    handler = MaruHandler(configure(domain))
    assert domain.clients()
    del handler
    harness.wait_until(lambda: not domain.clients(), "the client has gone")


def test_healthcheck(domain, handler):
    assert handler.healthcheck() is True
    domain.kill()
    assert handler.healthcheck() is False and handler.last_error()
    domain.start()
    harness.wait_until(handler.healthcheck, "the connection is back")


def test_an_address_of_this_host_finds_the_socket(domain, connect, monkeypatch, messages):
    monkeypatch.setenv("MARU_SOCKET", str(domain.socket))
    for url in ("tcp://localhost:5555", "maru://127.0.0.1:9850", "tcp://[::1]:5555"):
        handler = connect(domain, server_url=url)
        assert handler.connected, url
        assert any(url in text and "this host" in text for text in messages()), "the log says which was taken"
        handler.close()


def test_an_address_of_another_host(domain, connect, messages):
    handler = connect(domain, server_url="tcp://192.0.2.1:5555")
    assert not handler.connected
    assert any("192.0.2.1" in text and "TCP" in text for text in messages())


@pytest.mark.parametrize("backend", ["cpu", "mixed", "remote_cxl"])
def test_a_backend_that_is_not_built_is_named(domain, connect, messages, backend):
    handler = connect(domain, storage_backend=backend, engine_id="e", cache_namespace="n")
    assert not handler.connected
    assert any(backend in text and "does not have" in text for text in messages())
    with pytest.raises(maru.MaruUnavailableError, match=backend):
        handler.exists("k")


def test_namespaces_do_not_meet(domain, connect):
    one, other = connect(domain, cache_namespace="one"), connect(domain, cache_namespace="other")
    one.store("k", data=b"1")
    assert other.retrieve("k") is None and one.exists("k")


def test_rm_address_is_ignored_with_one_notice(domain, connect, messages):
    connect(domain, rm_address="tcp://localhost:1")
    assert len([text for text in messages() if "rm_address" in text]) == 1


def test_less_is_claimed_when_less_is_free(domain, connect, messages):
    handler = connect(domain, pool_size="1G")
    assert handler.connected and any(f"pool_size is {1 << 30}" in text for text in messages())
    other = connect(domain)
    assert other.connected, "with none free connect succeeds too"
    assert other.store("k", data=b"v")


def test_logger_level_of_the_environment(domain):
    import subprocess
    import sys
    program = "import maru, logging; print(logging.getLogger('maru').level, logging.getLogger('maru').handlers)"
    for environment, level in (({}, logging.INFO), ({"MARU_LOG_LEVEL": "warn"}, logging.WARNING),
                               ({"LMCACHE_LOG_LEVEL": "DEBUG"}, logging.DEBUG),
                               ({"MARU_LOG_LEVEL": "ERROR", "LMCACHE_LOG_LEVEL": "DEBUG"}, logging.ERROR)):
        ended = harness.run(sys.executable, "-c", program, environment=environment)
        assert ended.text.strip() == f"{level} []", (environment, ended)


def test_prefault_is_turned_off_by_the_environment(make_domain, connect, monkeypatch):
    def resident(handler):
        address = handler._region(handler.get_owned_region_ids()[0])["address"]
        with open("/proc/self/smaps") as maps:
            lines = maps.readlines()
        for index, line in enumerate(lines):
            head = line.split()[0].split("-")
            if len(head) == 2 and int(head[0], 16) <= address < int(head[1], 16):
                return next(int(text.split()[1]) for text in lines[index:] if text.startswith("Rss:"))
        raise AssertionError("the region is not mapped")

    monkeypatch.setenv("MARU_PREFAULT", "0")
    off = connect(make_domain(), pool_size=32 * MIB)
    off.healthcheck()
    assert resident(off) < 16 * KIB
    monkeypatch.setenv("MARU_PREFAULT", "1")
    on = connect(make_domain(), pool_size=32 * MIB)
    harness.wait_until(lambda: resident(on) >= 32 * KIB, "32 MiB are resident")


def test_a_boolean_of_the_environment_at_connect(domain, connect, monkeypatch):
    monkeypatch.setenv("MARU_PREFAULT", "perhaps")
    handler = connect(domain, auto_connect=False)
    with pytest.raises(ValueError, match="MARU_PREFAULT"):
        handler.connect()


def test_the_default_configuration():
    handler = MaruHandler(MaruConfig(auto_connect=False))
    assert handler.get_chunk_size() == 1_048_576 and not handler.connected
