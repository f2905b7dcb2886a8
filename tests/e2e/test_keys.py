"""Keys of every length and content."""

import pytest
from harness import INVALID, KIB, MIB, MISS, OK, TOO_LARGE

GOOD = {
    "one byte": b"a",
    "one NUL": b"\0",
    "NUL inside": b"left\0right",
    "not UTF-8": b"\xff\xfe\x80",
    "119": b"x" * 119,
    "120, the last that fits inline": b"x" * 120,
    "121": b"x" * 121,
    "4095": b"x" * 4095,
    "4096, the longest": b"x" * 4096,
    "all bytes": bytes(range(256)),
    "shell and terminal characters": b"$(x) `y` \x1b[31m\n\r\t\"'\\",
}


@pytest.mark.parametrize("key", GOOD.values(), ids=GOOD.keys())
def test_every_call_takes_the_key(engine, key):
    """Vault 9884: a zero-length key crashed the server; others cut keys at a NUL. Every length and content that the
    interface allows works in every call, every other is refused."""
    assert engine("exists", key=key).status == MISS
    engine.good("put", key=key, id=1, size=500)
    assert engine("exists", key=key).status == OK
    view = engine.good("retrieve", key=key)
    assert view.right and view.id == 1
    engine.good("release")
    assert engine.good("get", key=key).right
    engine.good("pin", key=key)
    engine.good("unpin", key=key)
    assert engine.good("retrieve_batch", keys=[key, b"other"]).statuses == [OK, MISS]
    engine.good("release", v="v0")
    assert engine.good("match", keys=[key]).matched == 1
    engine.good("remove", key=key)
    assert engine("exists", key=key).status == MISS


@pytest.mark.parametrize("key, expected", [(b"", INVALID), (b"x" * 4097, TOO_LARGE), (b"x" * 70_000, TOO_LARGE)],
                         ids=["empty", "4097", "70000"])
def test_impossible_keys_are_refused_by_every_call(engine, key, expected):
    before = engine.good("stats").free_pages
    for call in ("exists", "retrieve", "get", "pin", "unpin", "remove"):
        reply = engine(call, key=key)
        assert reply.status == expected, (call, reply)
        assert reply.detail, call
    put = engine("put", key=key, id=1, size=10)
    assert put.status == expected
    assert str(len(key)) in put.detail or "at least one byte" in put.detail
    engine.good("alloc", size=10)
    assert engine("store", key=key, size=10).status == expected
    engine.good("free")
    for call in ("retrieve_batch", "exists_batch"):
        assert engine.good(call, keys=[b"absent", key]).statuses == [MISS, expected], call
    assert engine.good("stats").free_pages == before


SIMILAR = {
    "differ after a NUL": [b"key\0one", b"key\0two", b"key", b"key\0"],
    "differ after byte 120": [b"k" * 120 + b"a", b"k" * 120 + b"b", b"k" * 120, b"k" * 121, b"k" * 119],
    "differ in the last of 4096 bytes": [b"k" * 4095 + b"a", b"k" * 4095 + b"b", b"k" * 4095],
    "differ in the first byte": [b"a" + b"k" * 200, b"b" + b"k" * 200],
    "zero bytes of different number": [b"\0" * 7, b"\0" * 8, b"\0" * 9, b"\0" * 120, b"\0" * 121],
}


@pytest.mark.parametrize("keys", SIMILAR.values(), ids=SIMILAR.keys())
def test_similar_keys_are_different_keys(engine, keys):
    for number, key in enumerate(keys, 1):
        engine.good("put", key=key, id=number, size=100)
    for number, key in enumerate(keys, 1):
        got = engine.good("get", key=key)
        assert got.right and got.id == number
    engine.good("remove", key=keys[0])
    assert engine("exists", key=keys[0]).status == MISS
    assert all(engine("exists", key=key).status == OK for key in keys[1:])


def test_many_keys_with_one_long_prefix(domain):
    """Keys that differ behind the inline part only, far more than one bucket holds."""
    engine = domain.engine(pool=8 * MIB, page=4 * KIB)
    assert engine.good("put_many", prefix="p" * 130, count=1000, size=8).stored == 1000
    assert engine.good("match", prefix="p" * 130, count=1000).matched == 1000
