"""Sizes at and beyond each limit, and handles used wrongly."""

import pytest
from harness import EXISTS, INVALID, KIB, MIB, MISS, NOT_RESERVED, OK, TOO_LARGE, UNAVAILABLE, wait_until

PAGE = 64 * KIB


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4095, 4096, 4097, PAGE - 1, PAGE])
def test_every_size_up_to_the_page(engine, size):
    engine.good("put", key="put", id=1, size=size)
    got = engine.good("get", key="put", capacity=max(size, 1))
    assert got.right and got.size == size
    page = engine.good("alloc", size=size)
    assert page.capacity == size
    engine.good("write", key="stored", id=2, size=size)
    engine.good("store", key="stored", size=size)
    view = engine.good("retrieve", key="stored")
    assert view.right and view.size == size
    engine.good("release")
    engine.good("free")


@pytest.mark.parametrize("size", [PAGE + 1, PAGE * 2, 3 * 1024 * MIB, (1 << 64) - 1])
def test_more_than_a_page_is_refused_with_both_sizes(engine, size):
    """Mooncake 1374: values over 2 GB were stored cut short. A value that does not fit is refused, whole."""
    before = engine.good("stats").free_pages
    refused = engine("alloc", size=size)
    assert refused.status == TOO_LARGE
    assert str(PAGE) in refused.detail.replace(",", "") or "64.0 KiB" in refused.detail, refused.detail
    if size <= PAGE * 2:
        assert engine("put", key="k", id=1, size=size).status == TOO_LARGE
        assert engine("exists", key="k").status == MISS
    assert engine.good("stats").free_pages == before


def test_store_of_more_than_was_asked_for(engine):
    """The page would have room, the handle has not: nothing is published."""
    engine.good("alloc", size=100)
    engine.good("write", key="k", id=1, size=100)
    assert engine("store", key="k", size=101).status in (INVALID, TOO_LARGE)
    assert engine("exists", key="k").status == MISS
    engine.good("store", key="k", size=100)
    engine.good("free")


def test_page_size_is_rounded_up(domain):
    assert domain.engine(pool=4 * MIB, page=1).connect(c="other", pool=4 * MIB, page=4097).page_size == 8192


def test_page_size_over_a_quarter_of_the_pool(domain):
    engine = domain.engine(connect=False)
    refused = engine("connect", server=domain.socket, page=40 * MIB)
    assert refused.status == TOO_LARGE or refused.status == INVALID
    assert "40.0 MiB" in refused.detail or str(40 * MIB) in refused.detail
    engine.connect(pool=16 * MIB, page=8 * MIB)
    engine.good("put", key="large", id=1, size=8 * MIB)
    assert engine.good("get", key="large", capacity=8 * MIB).right


def test_a_large_value(make_domain):
    domain = make_domain(pool="512MiB")
    engine = domain.engine(pool=128 * MIB, page=100 * MIB)
    engine.good("put", key="large", id=1, size=100 * MIB, within_s=60)
    got = engine.good("get", key="large", capacity=100 * MIB, within_s=60)
    assert got.right and got.size == 100 * MIB
    engine.good("remove", key="large")


# -- handles used wrongly


def test_double_free(engine):
    engine.good("alloc", size=10)
    engine.good("free")
    refused = engine("free")
    assert refused.status == NOT_RESERVED and refused.detail


def test_a_freed_handle_does_not_free_the_next_owner_of_its_page(engine):
    """The page number comes back, the handle does not: a stale one must not reach the page's next life."""
    first = engine.good("alloc", size=10, p="old")
    engine.good("free", p="old")
    names = []
    for number in range(200):
        names.append(f"n{number}")
        again = engine.good("alloc", size=10, p=names[-1])
        if (again.region, again.page) == (first.region, first.page):
            break
    else:
        pytest.fail("the page never came back")
    assert engine("free", p="old").status == NOT_RESERVED
    engine.good("write", key="k", id=3, size=10, p=names[-1])
    assert engine("store", key="k", size=10, p="old").status == NOT_RESERVED
    engine.good("store", key="k", size=10, p=names[-1])
    for name in names:
        engine.good("free", p=name)
    assert engine.good("get", key="k").id == 3


def test_free_of_a_published_page_keeps_the_key(engine):
    engine.good("alloc", size=100)
    engine.good("write", key="k", id=1, size=100)
    engine.good("store", key="k", size=100)
    engine.good("free")
    assert engine("free").status == NOT_RESERVED
    assert engine.good("get", key="k").right


def test_free_of_a_published_page_by_its_handle_from_before(engine):
    """A copy of the handle that was taken before the store names a page that is no longer reserved."""
    engine.good("alloc", size=100)
    engine.good("write", key="k", id=1, size=100)
    engine.good("store", "stale", key="k", size=100)
    assert engine("store", key="other", size=100).status == NOT_RESERVED
    engine("free")
    assert engine.good("get", key="k").right


def test_store_of_a_published_page(engine):
    engine.good("alloc", size=100)
    engine.good("write", key="k", id=1, size=100)
    engine.good("store", key="k", size=100)
    assert engine("store", key="other", size=100).status == NOT_RESERVED
    assert engine("exists", key="other").status == MISS
    engine.good("free")


def test_double_release(engine):
    engine.good("put", key="k", id=1, size=100)
    engine.good("retrieve", key="k")
    engine.good("release")
    refused = engine("release")
    assert refused.status == INVALID and refused.detail
    engine.good("retrieve", key="k", v="second")
    assert engine("release", v="v").status == INVALID, "a stale view must not end another's lease"
    assert engine.good("verify", v="second").right
    engine.good("release", v="second")


def test_a_view_of_another_client(domain, engine):
    engine.connect(c="other", id="second", pool=4 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=100)
    engine.good("retrieve", key="k")
    assert engine("release", c="other").status == INVALID
    engine.good("release")
    engine.good("alloc", size=10)
    assert engine("free", c="other").status == NOT_RESERVED
    engine.good("free")
    engine.good("close", c="other")


def test_close_twice_and_use_after_close(domain, engine):
    engine.good("put", key="k", id=1, size=100)
    engine.good("close")
    assert engine("close").status != OK
    for call in ("exists", "retrieve", "get", "remove", "pin"):
        reply = engine(call, key="k")
        assert reply.status < 0, (call, reply)
    assert engine("alloc", size=1).status < 0
    assert engine("put", key="other", id=1, size=10).status < 0
    assert engine("ping").status in (INVALID, UNAVAILABLE)
    engine.connect()
    assert engine.good("get", key="k").right


def test_close_with_views_alive(domain, engine):
    """The memory under a view outlives its client; the slot and the lease go with the last release."""
    other = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    engine.good("retrieve", key="k", v="a")
    engine.good("retrieve", key="k", v="b")
    engine.good("close")
    other.good("remove", key="k")
    other.good("put_many", prefix="fill", count=100, size=60_000)
    assert engine.good("verify", v="a").right and engine.good("verify", v="a").id == 1
    assert "engine1" in domain.clients()
    engine.good("release", v="a")
    assert engine.good("verify", v="b").right
    engine.good("release", v="b")
    wait_until(lambda: "engine1" not in domain.clients(), "the client slot goes with the last view")


def test_null_and_nothing(engine):
    """Handles that were never made."""
    assert engine("free", p="never").status in (INVALID, NOT_RESERVED)
    assert engine("release", v="never").status == INVALID
    assert engine("store", p="never", key="k", size=0).status in (INVALID, NOT_RESERVED)
    assert engine("exists", c="never", key="k").status == INVALID
    assert engine("alloc", c="never", size=1).status == INVALID
    assert engine("close", c="never").status == OK
    assert engine("put", key="k", id=1, size=10).status == OK
    assert engine("put", key="k", id=1, size=10).status == EXISTS
