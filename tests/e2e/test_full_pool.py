"""Pools and tables at their last page, record and pin slot."""

import pytest
from harness import EXISTS, FULL, KIB, MIB, OK, PINNED

PAGE = 64 * KIB
ON_DEMAND = {"eviction": {"low_free": "0%"}}  # what is there stays until a store needs its page


def fill(engine, prefix="k", size=PAGE - 64, at_most=5000):
    """Stores until nothing more can be stored; how many there are."""
    count = 0
    while count < at_most:
        reply = engine("put", key=f"{prefix}{count}", id=count + 1, size=size)
        if reply.status != OK:
            return count, reply
        count += 1
    return count, reply


@pytest.fixture
def keeping(make_domain):
    """A domain that evicts nothing."""
    return make_domain(pool="16MiB", settings={"eviction": {"policy": "none"}})


def test_a_full_pool_evicts(make_domain):
    domain = make_domain(pool="16MiB")
    engine = domain.engine(pool=4 * MIB, page=PAGE)
    stored = engine.good("put_many", prefix="k", count=1000, size=PAGE - 64)
    assert stored.stored == 1000
    present = engine.good("exists_batch", prefix="k", count=1000).statuses.count(OK)
    assert 100 < present < 260
    assert engine.good("get", key="k999").right


def test_everything_pinned_says_what_holds_it(make_domain):
    """Store on a full pool whose every object is pinned: the answer is an error that counts what is in the way."""
    domain = make_domain(pool="16MiB", settings=ON_DEMAND)
    engine = domain.engine(pool=4 * MIB, page=PAGE)
    pinned = 0
    while True:
        reply = engine("put", key=f"k{pinned}", id=1, size=100)
        if reply.status == FULL:
            break
        assert reply.status == OK and pinned < 1000, reply
        engine.good("pin", key=f"k{pinned}")
        pinned += 1
    assert pinned > 100
    assert "pinned" in reply.detail and str(pinned) in reply.detail, reply.detail
    assert engine("alloc", size=1).status == FULL
    assert engine("exists", key=f"k{pinned}").status != OK

    engine.good("unpin", key="k3")
    engine.good("put", key="new", id=2, size=100)
    assert engine.good("get", key="new").right
    assert engine("exists", key="k3").status != OK


def test_everything_under_views_says_what_holds_it(make_domain):
    domain = make_domain(pool="16MiB", settings=ON_DEMAND)
    engine = domain.engine(pool=4 * MIB, page=PAGE)
    held = 0
    while (reply := engine("put", key=f"k{held}", id=held + 1, size=PAGE)).status == OK:
        engine.good("retrieve", key=f"k{held}", v=f"v{held}")
        held += 1
        assert held < 1000
    assert reply.status == FULL and "pinned" in reply.detail, reply
    for number in range(held):
        view = engine.good("verify", v=f"v{number}")
        assert view.right and view.id == number + 1
    engine.good("release_batch", count=held)
    engine.good("put", key="again", id=1, size=PAGE)


def test_everything_reserved_says_what_holds_it(make_domain):
    domain = make_domain(pool="16MiB", settings=ON_DEMAND)
    hoarder = domain.engine(pool=4 * MIB, page=PAGE)
    other = domain.engine("no_claim", page=PAGE)
    pages = 0
    while (reply := hoarder("alloc", size=1, p=f"p{pages}")).status == OK:
        pages += 1
        assert pages < 1000
    assert reply.status == FULL and "reserved" in reply.detail and str(pages) in reply.detail, reply
    refused = other("put", key="k", id=1, size=1)
    assert refused.status == FULL and "reserved" in refused.detail, refused
    hoarder.good("free", p="p7")
    other.good("put", key="k", id=1, size=1)


def test_policy_none_refuses_and_loses_nothing(keeping):
    engine = keeping.engine(pool=4 * MIB, page=PAGE)
    count, refused = fill(engine)
    assert refused.status == FULL and refused.detail, refused
    assert engine.good("exists_batch", prefix="k", count=count).statuses == [OK] * count
    engine.good("remove", key="k0")
    engine.good("put", key="after", id=1, size=100)


def test_no_expand_evicts_in_its_own_regions(domain):
    other = domain.engine(pool=8 * MIB, page=PAGE)
    other.good("put_many", prefix="other", count=50, size=PAGE)
    engine = domain.engine("no_expand", pool=2 * MIB, page=PAGE)
    held = engine.good("stats").held_bytes
    assert engine.good("put_many", prefix="k", count=300, size=PAGE).stored == 300
    assert engine.good("stats").held_bytes == held


def test_the_last_record(make_domain):
    """Mooncake 3452: the number of objects ran the master out of memory. Here the table is as large as it was made:
    its last record is used, then stores evict or are refused, and everything goes on."""
    domain = make_domain(pool="64MiB", settings={"control": {"max_objects": 1000}, "eviction": {"policy": "none"}})
    engine = domain.engine(pool=16 * MIB, page=4 * KIB)
    count, refused = fill(engine, size=100)
    assert 500 <= count <= 1100
    assert refused.status == FULL and refused.detail, refused
    assert engine.good("exists_batch", prefix="k", count=count).statuses == [OK] * count
    assert engine("put", key="k0", id=1, size=1).status == EXISTS
    domain.check_clean()
    engine.good("remove", key="k5")
    engine.good("put", key="after", id=1, size=100)
    assert engine.good("get", key="after").right
    assert domain.status()


def test_the_last_record_with_eviction(make_domain):
    domain = make_domain(pool="64MiB", settings={"control": {"max_objects": 1000}})
    engine = domain.engine(pool=16 * MIB, page=4 * KIB)
    assert engine.good("put_many", prefix="k", count=5000, size=100).stored == 5000
    assert engine.good("get", key="k4999").right
    domain.check_clean()


def test_no_pin_slot_is_an_error_never_an_unpinned_view(make_domain):
    domain = make_domain(settings={"control": {"max_pins": 256}})
    engine = domain.engine(pool=16 * MIB, page=4 * KIB)
    engine.good("put_many", prefix="k", count=400, size=100)
    held = 0
    while (reply := engine("retrieve", key=f"k{held}", v=f"v{held}")).status == OK:
        held += 1
        assert held < 400
    assert reply.status == FULL and "pin" in reply.detail, reply
    assert held >= 100
    matched = engine.good("match", prefix="k", count=400, v="m").matched
    assert matched < 64
    for number in range(matched):
        engine.good("release", v=f"m{number}")
    for number in range(held):
        engine.good("release", v=f"v{number}")
    engine.good("retrieve", key="k399")
    engine.good("release")


def test_many_pins_of_one_key(engine):
    engine.good("put", key="k", id=1, size=100)
    for _ in range(300):
        engine.good("pin", key="k")
    assert engine("remove", key="k").status == PINNED
    for _ in range(300):
        engine.good("unpin", key="k")
    engine.good("remove", key="k")


def test_another_page_size_finds_room(make_domain):
    """Pages of a size that nobody uses any more give way to another size."""
    domain = make_domain(pool="32MiB")
    small = domain.engine(pool=32 * MIB, page=4 * KIB)
    small.good("put_many", prefix="small", count=3000, size=100)
    small.good("close")
    small.quit()
    large = domain.engine("no_claim", page=MIB)
    large.good("put", key="large", id=1, size=MIB)
    assert large.good("get", key="large", capacity=MIB).right
