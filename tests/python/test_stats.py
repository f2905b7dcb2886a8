"""get_stats: its shape and its numbers."""

from conftest import KIB

import harness

OPERATION = {"count", "hit_count", "miss_count", "total_bytes", "avg_latency_us", "min_latency_us", "max_latency_us"}
SHAPE = {
    "kv_manager": {"total_entries", "total_size"},
    "allocation_manager": {"num_allocations", "total_allocated", "active_clients"},
    "store_regions": {"num_regions", "total_pool_size", "total_page_count", "total_free_pages",
                      "total_allocated_pages", "utilization", "regions"},
    "cxl_pool": {"total_size", "free_size"},
    "stats_manager": {"clients"},
}


def test_shape(handler):
    handler.store("k", data=b"v")
    stats = handler.get_stats()
    for name, fields in SHAPE.items():
        assert fields <= set(stats[name]), name
    for name in ("evictions", "pinned_pages", "reserved_pages", "retired_pages"):
        assert isinstance(stats[name], int), name
    assert stats["plugins"] == {}
    clients = stats["stats_manager"]["clients"]
    assert set(clients) == {"_all", handler.instance_id}
    for client in clients.values():
        for operation in client["operations"].values():
            assert OPERATION <= set(operation)


def test_entries_and_pages(domain, connect, handler):
    handler.store("a", data=b"x" * 100)
    connect(domain).store("b", data=b"y" * 50)
    kept = handler.alloc(10)
    assert handler.pin("a")
    stats = handler.get_stats()
    assert stats["kv_manager"] == {"total_entries": 2, "total_size": 150}
    assert stats["allocation_manager"] == {"num_allocations": 1, "total_allocated": 64 * KIB, "active_clients": 2}
    assert (stats["pinned_pages"], stats["reserved_pages"], stats["retired_pages"]) == (1, 1, 0)
    own = stats["store_regions"]
    assert own["num_regions"] == len(own["regions"]) == len(handler.get_owned_region_ids())
    assert own["total_allocated_pages"] == 2 and own["total_free_pages"] + 2 == own["total_page_count"]
    assert own["utilization"] == 2 / own["total_page_count"]
    assert own["total_pool_size"] == sum(region["size"] for region in own["regions"])
    assert stats["cxl_pool"]["total_size"] == 64 << 20 > stats["cxl_pool"]["free_size"]
    view = handler.retrieve("a")
    handler.unpin("a")
    handler.delete("a")
    assert handler.get_stats()["retired_pages"] == 1
    del view, kept


def test_operations_of_this_handler(handler):
    handler.store("k", data=b"12345")
    handler.retrieve("k")
    handler.retrieve("absent")
    handler.batch_exists(["k", "absent", "k"])
    operations = handler.get_stats()["stats_manager"]["clients"][handler.instance_id]["operations"]
    assert operations["store"]["count"] == 1 and operations["store"]["total_bytes"] == 5
    assert (operations["retrieve"]["count"], operations["retrieve"]["hit_count"],
            operations["retrieve"]["miss_count"], operations["retrieve"]["total_bytes"]) == (2, 1, 1, 5)
    assert operations["batch_exists"]["calls"] == 1 and operations["batch_exists"]["count"] == 3
    assert operations["batch_exists"]["hit_count"] == 2
    assert operations["retrieve"]["max_latency_us"] == 0, "times are off"


def test_times_when_they_are_wanted(domain, connect, monkeypatch):
    handler = connect(domain, enable_stats=True)
    handler.store("k", data=b"v" * 60 * KIB)
    for _ in range(100):
        handler.retrieve("k")
    times = handler.get_stats()["stats_manager"]["clients"][handler.instance_id]["operations"]["retrieve"]
    assert 0 < times["min_latency_us"] <= times["avg_latency_us"] <= times["max_latency_us"] < 1e6
    assert times["min_latency_us"] <= times["p50_latency_us"] <= times["p99_latency_us"] <= times["max_latency_us"]
    monkeypatch.setenv("MARU_STAT", "0")
    assert connect(domain, enable_stats=True)._config.enable_stats is False


def test_operations_of_other_clients(domain, connect, handler):
    other = connect(domain, instance_id="other")
    other.store("k", data=b"v")
    other.retrieve("k")
    other.retrieve("absent")
    other.delete("k")
    clients = handler.get_stats()["stats_manager"]["clients"]
    seen = clients["other"]["operations"]
    assert (seen["retrieve"]["count"], seen["retrieve"]["hit_count"], seen["retrieve"]["miss_count"]) == (2, 1, 1)
    assert seen["store"]["hit_count"] == 1 and seen["delete"]["count"] == 1
    assert clients["_all"]["operations"]["retrieve"]["count"] >= 2


def test_statistics_never_wait_for_the_daemon(domain, handler):
    import time
    handler.store("k", data=b"v")
    domain.pause()
    try:
        begin = time.monotonic()
        stats = handler.get_stats()
        assert time.monotonic() - begin < 1.0 * harness.SLOWER
    finally:
        domain.resume()
    assert stats["kv_manager"]["total_entries"] == 1
    domain.kill()
    assert handler.get_stats()["kv_manager"]["total_entries"] == 1
    domain.start()
