"""Every call of the C interface, alone and in batches."""

from harness import EXISTS, INVALID, KIB, MIB, MISS, NOT_RESERVED, OK, PINNED, TOO_LARGE


def test_alloc_store_retrieve_release(engine):
    page = engine.good("alloc", size=1000)
    assert page.capacity == 1000
    engine.good("write", key="k", id=5, size=900)
    engine.good("store", key="k", size=900)
    view = engine.good("retrieve", key="k")
    assert view.right and (view.size, view.id) == (900, 5)
    assert (view.region, view.page) == (page.region, page.page)
    engine.good("release")
    engine.good("free")
    assert engine("exists", key="k").status == OK


def test_a_page_that_was_not_stored_comes_back(engine):
    before = engine("stats").free_pages
    engine.good("alloc", size=10)
    assert engine("stats").free_pages == before - 1
    engine.good("free")
    assert engine("stats").free_pages == before


def test_a_refused_page_can_be_stored_under_another_key(engine):
    engine.good("put", key="taken", id=1, size=64)
    engine.good("alloc", size=64)
    engine.good("write", key="other", id=2, size=64)
    assert engine("store", key="taken", size=64).status == EXISTS
    engine.good("store", key="other", size=64)
    engine.good("free")
    assert engine.good("get", key="other").id == 2
    assert engine.good("get", key="taken").id == 1


def test_get_says_how_large_the_value_is(engine):
    engine.good("put", key="k", id=3, size=5000)
    short = engine("get", key="k", capacity=4999)
    assert short.status == TOO_LARGE and short.size == 5000
    exact = engine.good("get", key="k", capacity=5000)
    assert exact.right and exact.size == 5000 and exact.id == 3
    assert engine("get", key="absent").status == MISS


def test_remove_and_store_again(engine):
    engine.good("put", key="k", id=1, size=100)
    engine.good("remove", key="k")
    assert engine("remove", key="k").status == MISS
    assert engine("exists", key="k").status == MISS
    assert engine("retrieve", key="k").status == MISS
    engine.good("put", key="k", id=2, size=100)
    assert engine.good("get", key="k").id == 2


def test_a_removed_value_stays_under_its_views(domain, engine):
    other = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    engine.good("retrieve", key="k")
    other.good("remove", key="k")
    other.good("put", key="k", id=2, size=60_000)
    other.good("put_many", prefix="fill-", count=200, size=60_000)
    old = engine.good("verify")
    assert old.right and old.id == 1
    engine.good("release")


def test_pins_are_counted(domain, engine):
    """LMCache 1034 and 3381: pins of lookups never went, a second unpin counted below zero."""
    other = domain.engine("no_claim")
    engine.good("put", key="k", id=1, size=100)
    engine.good("pin", key="k")
    engine.good("pin", key="k")
    assert other("remove", key="k").status == PINNED
    assert other("unpin", key="k").status == MISS
    engine.good("unpin", key="k")
    assert other("remove", key="k").status == PINNED
    engine.good("unpin", key="k")
    assert engine("unpin", key="k").status == MISS
    assert engine("unpin", key="k").status == MISS
    other.good("remove", key="k")
    assert engine("pin", key="k").status == MISS


def test_pins_end_with_their_client(domain, engine):
    """LMCache 1756: who pinned and left kept the key for ever. Closing ends the pins at once."""
    other = domain.engine("no_claim")
    engine.good("put", key="k", id=1, size=100)
    other.good("pin", key="k")
    assert engine("remove", key="k").status == PINNED
    other.good("close")
    engine.good("remove", key="k")


def test_a_view_of_a_pinned_key(engine):
    engine.good("put", key="k", id=1, size=100)
    engine.good("pin", key="k")
    assert engine.good("retrieve", key="k").right
    engine.good("unpin", key="k")
    engine.good("remove", key="k")
    assert engine.good("verify").right
    engine.good("release")


# -- batches


def test_store_batch_answers_for_each_key(engine):
    """Mooncake 2827: one duplicate failed a whole batch. Here each key has its own answer."""
    engine.good("put", key="b", id=1, size=100)
    for name, key in (("p0", "a"), ("p1", "b"), ("p2", "c"), ("p3", "a")):
        engine.good("alloc", p=name, size=100)
        engine.good("write", p=name, key=key, id=7, size=100)
    batch = engine.good("store_batch", keys=["a", "b", "c", "a"], pages=["p0", "p1", "p2", "p3"], size=100)
    assert batch.statuses == [OK, EXISTS, OK, EXISTS]
    for name in ("p0", "p1", "p2", "p3"):
        engine.good("free", p=name)
    assert [engine.good("get", key=key).id for key in "abc"] == [7, 1, 7]


def test_store_batch_with_bad_entries(engine):
    for name in ("p0", "p1", "p2"):
        engine.good("alloc", p=name, size=100)
        engine.good("write", p=name, key="good", id=7, size=100)
    engine.good("free", p="p1")
    batch = engine.good("store_batch", keys=[b"", b"freed", b"good"], pages=["p0", "p1", "p2"], size=100)
    assert batch.statuses == [INVALID, NOT_RESERVED, OK]
    engine.good("free", p="p0")
    engine.good("free", p="p2")


def test_retrieve_batch(engine):
    engine.good("put_many", prefix="k", count=5, size=4000)
    keys = ["k0", "absent", "k4", b"", "k2", "k0"]
    batch = engine.good("retrieve_batch", keys=keys)
    assert batch.statuses == [OK, MISS, OK, INVALID, OK, OK] and batch.right
    engine.good("release_batch", views=["v0", "v2", "v4", "v5"])
    assert engine("release", v="v0").status == INVALID


def test_large_batches(engine):
    """More keys than one scan, one pin chunk or one bucket holds."""
    engine.good("put_many", prefix="k", count=100, size=1000)
    batch = engine.good("retrieve_batch", prefix="k", count=110)
    assert batch.statuses == [OK] * 100 + [MISS] * 10 and batch.right
    engine.good("release_batch", count=100)
    exists = engine.good("exists_batch", prefix="k", count=110)
    assert exists.statuses == [OK] * 100 + [MISS] * 10


def test_empty_batches(engine):
    for call in ("retrieve_batch", "exists_batch", "pin_batch", "unpin_batch"):
        assert engine.good(call).statuses == []
    assert engine.good("match").matched == 0
    engine.good("release_batch")


def test_match_prefix(engine):
    engine.good("put_many", prefix="k", count=20, size=1000)
    assert engine.good("match", prefix="k", count=30).matched == 20
    engine.good("remove", key="k7")
    assert engine.good("match", prefix="k", count=30).matched == 7
    held = engine.good("match", prefix="k", count=30, v="m")
    assert held.matched == 7 and held.right
    engine.good("release_batch", v="m", count=7)
    assert engine.good("match", keys=["absent", "k0"]).matched == 0


def test_pin_batch_stops_at_the_first_miss(engine):
    engine.good("put_many", prefix="k", count=4, size=100)
    engine.good("remove", key="k2")
    assert engine.good("pin_batch", prefix="k", count=4).statuses == [OK, OK, MISS, MISS]
    assert engine("remove", key="k1").status == PINNED
    engine.good("remove", key="k3")
    assert engine.good("unpin_batch", keys=["k0", "k1", "k2", "k3"]).statuses == [OK, OK, MISS, MISS]
    engine.good("remove", key="k0")


# -- description


def test_statistics_count(engine):
    engine.good("put", key="k", id=1, size=100)
    assert engine("put", key="k", id=1, size=100).status == EXISTS
    for _ in range(3):
        engine.good("retrieve", key="k")
        engine.good("release")
    assert engine("retrieve", key="absent").status == MISS
    engine.good("remove", key="k")
    counted = engine.good("stats")
    assert (counted.stores, counted.duplicates, counted.deletes) == (1, 1, 1)
    assert counted.hits == 3 and counted.lookups == 4
    assert counted.connected == 1 and counted.page_size == 64 * KIB
    assert counted.held_bytes >= 8 * MIB and counted.pages >= 128


def test_regions_and_pools_describe_themselves(domain, engine):
    regions = engine.good("regions")
    assert regions.held and regions.info == OK
    assert regions.page_size == 64 * KIB and regions.page_count >= 8 and regions.base != 0
    page = engine.good("alloc", size=1)
    assert page.region in regions.held
    assert regions.base <= engine.good("alloc", size=1, p="q").address
    engine.good("free")
    engine.good("free", p="q")
    assert engine("regions", region=1_000_000).info == MISS
    pool = engine.good("pool")
    assert pool.name == "test" and pool.kind == "shm" and pool.path == str(domain.pool_path)
    assert pool.bytes == 64 * MIB
    assert engine("pool", pool=99).status == MISS


def test_more_memory_is_claimed_when_the_first_is_full(domain):
    engine = domain.engine(pool=2 * MIB, page=64 * KIB)
    before = engine.good("stats").held_bytes
    assert engine.good("put_many", prefix="k", count=200, size=60_000).stored == 200
    assert engine.good("stats").held_bytes > before
    assert engine.good("exists_batch", prefix="k", count=200).statuses == [OK] * 200
