"""MaruConfig: what is accepted, what is refused with field and value, what the environment changes."""

import uuid

import pytest

from maru import MaruConfig
from maru.config import environment_bool, parse_size


def test_positions_and_keywords():
    config = MaruConfig("unix:///tmp/x.sock", "me", 1 << 30, 1 << 21)
    assert (config.server_url, config.instance_id, config.pool_size, config.chunk_size_bytes) == \
        ("unix:///tmp/x.sock", "me", 1 << 30, 1 << 21)
    with pytest.raises(TypeError, match="pool_sizes"):
        MaruConfig(pool_sizes=1)


def test_an_instance_id_is_made_up():
    first, second = MaruConfig(), MaruConfig()
    assert uuid.UUID(first.instance_id) and first.instance_id != second.instance_id


@pytest.mark.parametrize("text, count", [("4G", 4 << 30), ("500M", 500 << 20), ("1.5GiB", 3 << 29), ("4096", 4096),
                                         ("2 MiB", 2 << 20), ("64kb", 64 << 10), ("1t", 1 << 40), (7, 7)])
def test_sizes(text, count):
    assert parse_size("pool_size", text) == count


def test_sizes_in_every_size_field():
    config = MaruConfig(pool_size="2G", chunk_size_bytes="2M", expand_size="1G", rdma_staging_size="1GiB")
    assert (config.pool_size, config.chunk_size_bytes, config.expand_size, config.rdma_staging_size) == \
        (2 << 30, 2 << 20, 1 << 30, 1 << 30)


@pytest.mark.parametrize("text", ["", "4X", "G", "-4G", "1.5.5G", "four"])
def test_sizes_that_are_none(text):
    with pytest.raises(ValueError, match="pool_size is"):
        MaruConfig(pool_size=text)


@pytest.mark.parametrize("value", [1.5, True, None, [1]])
def test_sizes_of_another_type(value):
    with pytest.raises(TypeError, match="chunk_size_bytes"):
        parse_size("chunk_size_bytes", value)


@pytest.mark.parametrize("fields, field, value", [
    ({"chunk_size_bytes": 0}, "chunk_size_bytes", "0"),
    ({"chunk_size_bytes": -5}, "chunk_size_bytes", "-5"),
    ({"pool_size": 1000, "chunk_size_bytes": 4096}, "pool_size", "1000"),
    ({"expand_size": 1 << 30, "auto_expand": False}, "expand_size", str(1 << 30)),
    ({"expand_size": 100}, "expand_size", "100"),
    ({"storage_backend": "disk"}, "storage_backend", "disk"),
    ({"storage_backend": "cpu", "cache_namespace": "n"}, "engine_id", "None"),
    ({"storage_backend": "mixed", "engine_id": "e"}, "cache_namespace", "None"),
    ({"storage_backend": "remote_cxl", "engine_id": "", "cache_namespace": "n"}, "engine_id", "''"),
    ({"timeout_ms": 0}, "timeout_ms", "0"),
    ({"timeout_ms": -1}, "timeout_ms", "-1"),
    ({"timeout_ms": 3_600_001}, "timeout_ms", "3600001"),
    ({"pool_size": 2**64 + 1}, "pool_size", str(2**64 + 1)),
    ({"max_inflight": 0}, "max_inflight", "0"),
    ({"rdma_timeout_s": 0.0}, "rdma_timeout_s", "0.0"),
    ({"rdma_load_reserve": 1.0}, "rdma_load_reserve", "1.0"),
    ({"rdma_load_reserve": -0.1}, "rdma_load_reserve", "-0.1"),
    ({"rdma_staging_size": 0}, "rdma_staging_size", "0"),
    ({"instance_id": ""}, "instance_id", "''"),
    ({"instance_id": "x" * 128}, "instance_id", "xxx"),
    ({"server_url": "http://localhost:80"}, "server_url", "http"),
    ({"server_url": "tcp://localhost"}, "server_url", "tcp://localhost"),
    ({"server_url": "tcp://localhost:99999"}, "server_url", "99999"),
    ({"server_url": "unix://relative.sock"}, "server_url", "relative"),
])
def test_refused_with_field_and_value(fields, field, value):
    with pytest.raises(ValueError) as refused:
        MaruConfig(**fields)
    assert field in str(refused.value) and value in str(refused.value)


@pytest.mark.parametrize("backend", ["cpu", "mixed", "remote_cxl"])
def test_other_backends_are_accepted_with_their_fields(backend):
    assert MaruConfig(storage_backend=backend, engine_id="e", cache_namespace="n").storage_backend == backend


def test_a_list_of_servers_is_for_remote_cxl():
    both = "tcp://a:1,tcp://b:2"
    assert MaruConfig(server_url=both, storage_backend="remote_cxl", engine_id="e", cache_namespace="n").server_url == both
    with pytest.raises(ValueError):
        MaruConfig(server_url=both)


@pytest.mark.parametrize("text, truth", [("1", True), ("TRUE", True), (" yes ", True), ("on", True), ("0", False),
                                         ("False", False), ("NO", False), (" off", False), ("", None), ("  ", None)])
def test_booleans_of_the_environment(monkeypatch, text, truth):
    monkeypatch.setenv("MARU_STAT", text)
    assert environment_bool("MARU_STAT") is truth
    assert MaruConfig(enable_stats=False).enable_stats is bool(truth)
    assert MaruConfig(enable_stats=True).enable_stats is (truth is not False)


@pytest.mark.parametrize("variable", ["MARU_STAT", "MARU_EAGER_MAP"])
def test_a_boolean_that_is_none(monkeypatch, variable):
    monkeypatch.setenv(variable, "maybe")
    with pytest.raises(ValueError, match=f"{variable}.*maybe"):
        MaruConfig()


def test_eager_map_of_the_environment(monkeypatch):
    monkeypatch.setenv("MARU_EAGER_MAP", "off")
    assert MaruConfig(eager_map=True).eager_map is False


def test_the_environment_replaces_the_default_url_only(monkeypatch):
    monkeypatch.setenv("MARU_SERVER_URL", "unix:///somewhere/m.sock")
    assert MaruConfig().server_url == "unix:///somewhere/m.sock"
    assert MaruConfig(server_url="tcp://localhost:1").server_url == "tcp://localhost:1"
    monkeypatch.setenv("MARU_SERVER_URL", "nonsense")
    with pytest.raises(ValueError, match="server_url is 'nonsense'"):
        MaruConfig()
