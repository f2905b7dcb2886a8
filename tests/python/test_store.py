"""alloc, free, store, delete: pages from their reservation until they go back."""

import pytest
from conftest import KIB, MIB

import harness
import maru
from maru import AllocHandle

CHUNK = 64 * KIB


def free_pages(handler):
    return handler.allocator.num_free_pages


def test_alloc_gives_a_writable_buffer_of_exactly_that_size(handler):
    handle = handler.alloc(1000)
    assert isinstance(handle, AllocHandle) and isinstance(handle.buf, memoryview)
    assert handle.buf.nbytes == 1000 and not handle.buf.readonly and handle.size == handle._size == 1000
    assert (handle.region_id, handle.page_index) == (handle._region_id, handle._page_index)
    assert handle.region_id in handler.get_owned_region_ids()
    handle.buf[:] = b"x" * 1000
    with pytest.raises((ValueError, IndexError)):
        handle.buf[1000] = 1


def test_sizes_of_alloc(handler):
    assert handler.alloc(0).buf.nbytes == 0
    assert handler.alloc(CHUNK).buf.nbytes == CHUNK
    with pytest.raises(ValueError, match=f"{CHUNK + 1}.*{CHUNK}"):
        handler.alloc(CHUNK + 1)
    with pytest.raises(ValueError, match="-1"):
        handler.alloc(-1)
    with pytest.raises(TypeError):
        handler.alloc("10")
    with pytest.raises(TypeError):
        handler.alloc(1.5)


def test_an_empty_value(handler):
    assert handler.store("handle", handler.alloc(0)) and handler.store("data", data=b"")
    assert bytes(handler.retrieve("handle").view) == bytes(handler.retrieve("data").view) == b""


def test_store_publishes_without_copying(handler):
    handle = handler.alloc(100)
    handle.buf[:] = bytes(range(100))
    assert handler.store("k", handle) is True
    info = handler.retrieve("k")
    assert (info.region_id, info.page_index) == (handle.region_id, handle.page_index)
    assert bytes(info.view) == bytes(range(100))


def test_free_gives_a_page_back_once(handler):
    before = free_pages(handler)
    handle = handler.alloc(10)
    assert free_pages(handler) == before - 1
    assert handler.free(handle) is None and free_pages(handler) == before
    with pytest.raises(ValueError, match="freed"):
        handler.free(handle)
    with pytest.raises(ValueError, match="freed"):
        handler.store("k", handle)
    with pytest.raises(ValueError, match="freed"):
        handle.buf


def test_a_freed_page_is_reused_when_no_buffer_is_alive(handler):
    before = free_pages(handler)
    handle = handler.alloc(10)
    buffer = handle.buf
    slice_of_it = buffer[2:4]
    handler.free(handle)
    del handle, buffer
    assert free_pages(handler) == before - 1
    slice_of_it[:] = b"ok"
    del slice_of_it
    assert free_pages(handler) == before


def test_free_after_store_drops_the_lease_and_the_key_stays(domain, handler):
    handle = handler.alloc(10)
    handler.store("k", handle)
    assert domain.page_counts()["pinned"] == 1
    handler.free(handle)
    assert domain.page_counts()["pinned"] == 0 and handler.exists("k")
    with pytest.raises(ValueError):
        handler.free(handle)


def test_the_lease_of_a_stored_page_goes_with_handle_and_buffer(domain, handler):
    handle = handler.alloc(10)
    buffer = handle.buf
    handler.store("k", handle)
    del handle
    assert domain.page_counts()["pinned"] == 1
    del buffer
    assert domain.page_counts()["pinned"] == 0 and handler.exists("k")


def test_a_dropped_handle_keeps_its_page(handler):
    before = free_pages(handler)
    handle = handler.alloc(10)
    region, page = handle.region_id, handle.page_index
    del handle
    assert free_pages(handler) == before - 1
    handler.free(AllocHandle(buf=None, _region_id=region, _page_index=page, _size=10))
    assert free_pages(handler) == before


def test_a_duplicate_is_true_and_the_first_value_stays(handler):
    handler.store("k", data=b"first")
    before = free_pages(handler)
    handle = handler.alloc(6)
    buffer = handle.buf
    buffer[:] = b"second"
    assert handler.store("k", handle) is True
    assert bytes(handler.retrieve("k").view) == b"first"
    assert free_pages(handler) == before - 1, "handle and buffer still live"
    del handle
    assert free_pages(handler) == before - 1, "the buffer still lives"
    del buffer
    assert free_pages(handler) == before
    assert handler.store("k", data=b"third") is True and bytes(handler.retrieve("k").view) == b"first"


def test_a_page_that_was_a_duplicate_can_be_stored_under_another_key(handler):
    handler.store("k", data=b"1")
    handle = handler.alloc(1)
    handle.buf[:] = b"2"
    assert handler.store("k", handle) and handler.store("other", handle)
    assert bytes(handler.retrieve("other").view) == b"2"


def test_a_published_page_cannot_be_stored_again(handler):
    handle = handler.alloc(1)
    handler.store("k", handle)
    with pytest.raises(ValueError, match="published"):
        handler.store("other", handle)


def test_a_handle_made_from_numbers(handler):
    original = handler.alloc(100)
    original.buf[:] = b"n" * 100
    numbers = {"_region_id": original.region_id, "_page_index": original.page_index, "_size": 60}
    made = AllocHandle(buf=original.buf, **numbers)
    assert made.buf is original.buf and (made.region_id, made.page_index, made.size) == tuple(numbers.values())
    assert handler.store("k", made) is True
    assert bytes(handler.retrieve("k").view) == b"n" * 60
    empty = AllocHandle(buf=memoryview(b""), **numbers)
    handler.free(empty)
    with pytest.raises(ValueError):
        handler.free(original)


def test_numbers_that_name_no_reserved_page(handler, connect, domain):
    foreign = connect(domain).alloc(10)
    for region, page in ((0, 9), (10**6, 0), (2**40, 2**40), (foreign.region_id, foreign.page_index)):
        made = AllocHandle(buf=None, _region_id=region, _page_index=page, _size=1)
        for call in (lambda m=made: handler.store("k", m), lambda m=made: handler.free(m),
                     lambda m=made: handler.batch_store(["k"], [m])):
            with pytest.raises(ValueError, match="not reserved"):
                call()
    handler.store("published", data=b"v")
    info = handler.retrieve("published")
    with pytest.raises(ValueError, match="not reserved"):
        handler.free(AllocHandle(None, info.region_id, info.page_index, 1))


def test_handles_of_others(domain, connect, handler):
    other = connect(domain)
    handle = other.alloc(10)
    with pytest.raises(ValueError, match="another handler"):
        handler.store("k", handle)
    for wrong in (None, b"bytes", 5, "text"):
        with pytest.raises(TypeError):
            handler.free(wrong)
    with pytest.raises(TypeError, match="AllocHandle"):
        handler.store("k", b"bytes")


def test_a_handle_with_more_bytes_than_its_page(handler):
    handle = handler.alloc(10)
    made = AllocHandle(buf=None, _region_id=handle.region_id, _page_index=handle.page_index, _size=11)
    with pytest.raises(ValueError, match="11"):
        handler.store("k", made)
    for wrong in (-1, 2**64):
        with pytest.raises((ValueError, OverflowError)):
            AllocHandle(buf=None, _region_id=wrong, _page_index=0, _size=1)
    with pytest.raises(TypeError):
        AllocHandle(buf=None)


def test_store_takes_a_handle_or_data(handler):
    with pytest.raises(TypeError, match="one of the two"):
        handler.store("k")
    with pytest.raises(TypeError, match="one of the two"):
        handler.store("k", handler.alloc(1), data=b"v")


def test_a_full_pool_evicts(handler):
    for number in range(3000):  # 64 MiB hold less than 1,024 pages of 64 KiB
        assert handler.store(number, data=number.to_bytes(8, "little"))
    assert handler.get_stats()["evictions"] > 1000
    found = [number for number in range(3000) if handler.exists(number)]
    assert found and all(bytes(handler.retrieve(n).view) == n.to_bytes(8, "little") for n in found[-50:])


def test_a_pool_that_is_full_of_reserved_pages(handler):
    handles = []
    with pytest.raises(maru.MaruFullError, match="reserved") as refused:
        while True:
            handles.append(handler.alloc(1))
    assert isinstance(refused.value, ValueError) and len(handles) > 100
    with pytest.raises(maru.MaruFullError):
        handler.store("k", data=b"v")
    handler.free(handles.pop())
    assert handler.store("k", data=b"v")


def test_without_auto_expand_no_more_is_claimed(domain, connect):
    handler = connect(domain, auto_expand=False, pool_size=1 * MIB)
    held = handler.get_owned_region_ids()
    for number in range(handler.allocator.page_count * 2):
        handler.store(number, data=b"v")
    assert handler.get_owned_region_ids() == held
    grower = connect(domain, pool_size=1 * MIB, expand_size=2 * MIB)
    held = grower.get_owned_region_ids()
    for number in range(grower.allocator.page_count * 2):
        grower.store(f"g{number}", data=b"v")
    assert len(grower.get_owned_region_ids()) > len(held)


def test_store_gives_up_without_index_or_pin_slots(make_domain, connect, messages):
    handler = connect(make_domain(settings={"control": {"max_pins": 128}}), pool_size=16 * MIB)
    handler.store("k", data=b"v")
    leases = []
    while (info := handler.retrieve("k")) is not None:
        leases.append(info)
        assert len(leases) < 1000
    assert "pin slot" in handler.last_error() and len([t for t in messages() if "retrieve: no pin slot" in t]) == 1
    assert handler.pin("k") is False and handler.batch_retrieve(["k"]) == [None]
    with pytest.raises(maru.MaruFullError, match="pin slot"):
        handler.alloc(1)
    leases.clear()
    assert handler.pin("k") is True


def test_delete(domain, connect, handler):
    assert handler.delete("k") is False and handler.delete_status("k") == "absent"
    handler.store("k", data=b"v")
    other = connect(domain)
    assert other.pin("k")
    assert handler.delete("k") is False and handler.delete_status("k") == "pinned"
    other.unpin("k")
    assert handler.delete("k") is True and not handler.exists("k")
    handler.store("k", data=b"v")
    assert other.delete_status("k") == "deleted", "any instance may delete any key"


def test_data_of_many_kinds(handler):
    import array
    kinds = {"bytes": b"\1\2\3\4", "bytearray": bytearray(b"\1\2\3\4"), "memoryview": memoryview(b"x\1\2\3\4")[1:],
             "array": array.array("B", [1, 2, 3, 4])}
    for name, data in kinds.items():
        assert handler.store(name, data=data)
        assert bytes(handler.retrieve(name).view) == b"\1\2\3\4", name


def test_data_that_is_none(handler):
    with pytest.raises(BufferError):
        handler.store("k", data=memoryview(b"abcdef")[::2])
    with pytest.raises(TypeError, match="buffer protocol"):
        handler.store("k", data=42)
    with pytest.raises(ValueError, match=str(CHUNK)):
        handler.store("k", data=bytes(CHUNK + 1))
    assert not handler.exists("k")


def test_batch_store(handler):
    keys = [f"k{i}" for i in range(100)]
    handles = [handler.alloc(8) for _ in keys]
    for number, handle in enumerate(handles):
        handle.buf[:] = number.to_bytes(8, "little")
    assert handler.batch_store(keys, handles) == [True] * 100
    for number, info in enumerate(handler.batch_retrieve(keys)):
        assert int.from_bytes(info.view, "little") == number
    assert handler.batch_store([], []) == []
    assert handler.batch_store(iter(["x"]), (handler.alloc(1),)) == [True]


def test_batch_store_with_a_repeated_key(handler):
    before = free_pages(handler)
    handles = [handler.alloc(1) for _ in range(3)]
    for handle, letter in zip(handles, (b"1", b"2", b"3")):
        handle.buf[:] = letter
    assert handler.batch_store(["k", "k", "k"], handles) == [True, True, True]
    assert bytes(handler.retrieve("k").view) == b"1"
    del handle, handles
    assert free_pages(handler) == before - 1, "no page is lost"


def test_batch_store_refuses_before_it_stores(handler):
    good, freed = handler.alloc(1), handler.alloc(1)
    handler.free(freed)
    with pytest.raises(ValueError, match="1 keys and 2 handles"):
        handler.batch_store(["a"], [good, good])
    with pytest.raises(ValueError, match="freed"):
        handler.batch_store(["a", "b"], [good, freed])
    with pytest.raises(ValueError, match="twice"):
        handler.batch_store(["a", "b"], [good, good])
    with pytest.raises(TypeError):
        handler.batch_store(["a"], [None])
    assert handler.batch_exists(["a", "b"]) == [False, False]
    assert handler.store("a", good)


def test_a_client_that_was_fenced(domain, handler):
    """A daemon that does not know the client any more: its pool was made anew."""
    assert handler.store("k", data=b"v")
    reserved = [handler.alloc(1), handler.alloc(1)]
    domain.kill()
    domain.pool_path.unlink()
    domain.start()
    harness.wait_until(lambda: handler.store("data", data=b"v") is False, "the store is given up")
    assert "close" in handler.last_error()
    assert handler.store("handle", reserved[0]) is False
    assert handler.batch_store(["batch"], [reserved[1]]) == [False]
    for call in (handler.retrieve, handler.exists, handler.pin, handler.delete):
        with pytest.raises(maru.MaruFencedError):
            call("k")
    handler.close()
    assert handler.connect() and handler.store("again", data=b"v")
