"""retrieve, exists, pins, batches, prefixes."""

import gc
import weakref

import pytest

from maru import MemoryInfo


def test_retrieve(handler):
    assert handler.retrieve("k") is None
    handler.store("k", data=b"value")
    info = handler.retrieve("k")
    assert isinstance(info, MemoryInfo) and bytes(info.view) == b"value" and info.view.readonly
    assert info.region_id in handler.get_owned_region_ids() and info.page_index >= 0
    with pytest.raises(TypeError):
        info.view[0] = 1


def test_a_lease_protects_the_bytes(domain, handler):
    handler.store("k", data=b"value")
    info = handler.retrieve("k")
    view = info.view
    assert handler.delete("k") is True
    del info
    for number in range(2000):
        handler.store(number, data=b"x" * 100)
    assert bytes(view) == b"value"
    assert domain.page_counts()["retired"] == 1
    del view


def test_release(domain, handler):
    handler.store("k", data=b"value")
    unseen = handler.retrieve("k")
    unseen.release()
    assert domain.page_counts()["pinned"] == 0, "also when nobody looked at it"
    info = handler.retrieve("k")
    view = info.view
    assert domain.page_counts()["pinned"] == 1
    assert info.release() is None and domain.page_counts()["pinned"] == 0
    info.release()
    with pytest.raises(ValueError, match="released"):
        info.view
    with pytest.raises(ValueError, match="released"):
        view[0]
    with pytest.raises(ValueError, match="released"):
        memoryview(info)


def test_release_while_something_was_made_from_the_view(domain, handler):
    handler.store("k", data=b"value")
    info = handler.retrieve("k")
    part = info.view[1:3]
    info.release()
    assert domain.page_counts()["pinned"] == 1 and bytes(part) == b"al"
    del part
    assert domain.page_counts()["pinned"] == 0


def test_memory_info_is_a_context_manager(domain, handler):
    handler.store("k", data=b"value")
    with handler.retrieve("k") as info:
        assert bytes(info.view) == b"value" and domain.page_counts()["pinned"] == 1
    assert domain.page_counts()["pinned"] == 0
    with pytest.raises(ValueError):
        with info:
            pass


def test_memory_info_by_keywords():
    buffer = bytearray(b"abc")
    info = MemoryInfo(view=memoryview(buffer), region_id=3, page_index=9)
    assert info.view.obj is buffer and (info.region_id, info.page_index) == (3, 9)
    assert MemoryInfo(memoryview(b"x")).region_id == 0
    assert bytes(memoryview(info)) == b"abc"
    info.release()
    with pytest.raises(ValueError):
        info.view
    for wrong in ({}, {"view": b"", "region_id": -1}, {"view": b"", "region_id": "1"}, {"view": b"", "page": 1}):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            MemoryInfo(**wrong)
    mapped = weakref.ref(memoryview(buffer))
    gc.collect()
    assert mapped() is None


def test_two_views_of_one_info(handler):
    handler.store("k", data=b"value")
    info = handler.retrieve("k")
    first = info.view
    assert info.view is first and bytes(info) == b"value"
    del first
    assert bytes(info.view) == b"value"


def test_exists(handler):
    assert handler.exists("k") is False
    handler.store("k", data=b"v")
    assert handler.exists("k") is True


def test_exists_gives_no_credit_and_takes_no_pin(domain, handler):
    handler.store("k", data=b"v")
    assert handler.exists("k") and domain.page_counts()["pinned"] == 0


def test_pins_are_counted(domain, handler):
    assert handler.pin("k") is False and handler.unpin("k") is False
    handler.store("k", data=b"v")
    assert handler.pin("k") is True and handler.pin("k") is True
    assert handler.unpin("k") is True and handler.delete("k") is False
    assert handler.unpin("k") is True and handler.unpin("k") is False
    assert handler.delete("k") is True


def test_pins_are_per_handler(domain, connect, handler):
    handler.store("k", data=b"v")
    other = connect(domain)
    assert other.pin("k") and handler.unpin("k") is False and handler.delete("k") is False
    other.close()
    assert handler.delete("k") is True, "pins of a handler end with it"


def test_pins_end_by_themselves(make_domain, connect):
    import harness
    handler = connect(make_domain(settings={"control": {"key_pin_ttl": "1s"}}))
    handler.store("k", data=b"v")
    assert handler.pin("k") and handler.delete("k") is False
    harness.wait_until(lambda: handler.delete("k"), "the pin has ended", within_s=20)
    assert handler.unpin("k") is False


def test_a_pinned_key_is_not_evicted(handler):
    handler.store("pinned", data=b"v")
    handler.pin("pinned")
    for number in range(3000):
        handler.store(number, data=b"x")
    assert handler.exists("pinned")


@pytest.mark.parametrize("count", [3, 31, 32, 500])
def test_batch_retrieve_and_exists_have_full_length(handler, count):
    keys = [f"k{i}" for i in range(count)]
    for key in keys[::2]:
        handler.store(key, data=key.encode())
    expected = [number % 2 == 0 for number in range(count)]
    assert handler.batch_exists(keys) == expected
    infos = handler.batch_retrieve(keys)
    assert [info is not None for info in infos] == expected
    assert all(bytes(info.view) == key.encode() for key, info in zip(keys, infos) if info is not None)
    assert handler.batch_retrieve([]) == [] and handler.batch_exists(()) == []
    assert handler.batch_exists(key for key in keys) == expected


def test_batch_pin_stops_at_the_first_miss(domain, handler):
    for key in "abd":
        handler.store(key, data=b"v")
    assert handler.batch_pin(["a", "b", "c", "d"]) == [True, True, False, False]
    assert handler.delete("d") is True, "nothing behind the miss is pinned"
    assert handler.batch_unpin(["a", "c", "b", "b"]) == [True, False, True, False]
    assert domain.page_counts()["pinned"] == 0


def test_one_key_many_times_is_many_pins(handler):
    handler.store("k", data=b"v")
    assert handler.batch_pin(["k"] * 40) == [True] * 40
    assert handler.batch_unpin(["k"] * 41) == [True] * 40 + [False]


@pytest.mark.parametrize("pin", [False, True])
def test_match_prefix(domain, handler, pin):
    keys = [f"k{i}" for i in range(100)]
    for key in keys[:70] + keys[71:]:
        handler.store(key, data=b"v")
    assert handler.match_prefix(keys, pin=pin) == 70 and handler.match_prefix(keys[70:], pin) == 0
    assert handler.match_prefix([]) == 0
    assert domain.page_counts()["pinned"] == (70 if pin else 0)
    assert handler.batch_unpin(keys) == [pin] * 70 + [False] * 30
