"""Regions, pages and paths: what plug-ins and adapters ask for."""

import pytest
from conftest import KIB, MIB

from maru.memory import MappedRegion

CHUNK = 64 * KIB


def test_chunk_size_is_the_stride_in_force(domain, connect):
    assert connect(domain, chunk_size_bytes=5000).get_chunk_size() == 8192
    assert connect(domain).get_chunk_size() == CHUNK


def test_regions_of_the_handler(domain, handler):
    regions = handler.get_owned_region_ids()
    assert regions and all(handler.is_region_mapped(number) for number in regions)
    counts = [handler.get_region_page_count(number) for number in regions]
    assert sum(counts) == handler.allocator.page_count >= 4 * MIB // CHUNK
    assert handler.get_region_dax_path(regions[0]) == str(domain.pool_path)


@pytest.mark.parametrize("number", [10**6, 2**32, 2**70, -1])
def test_regions_that_are_not_there(handler, number):
    assert handler.get_region_page_count(number) is None and handler.is_region_mapped(number) is False
    assert handler.get_region_dax_path(number) is None and handler.get_buffer_view(number, 0, 1) is None
    assert handler.mapper.get_region(number) is None


def test_pool_handle_and_allocator(handler):
    first = handler.pool_handle
    assert first.region_id == handler.get_owned_region_ids()[0] and first.offset > 0 and first.length >= 1 * MIB
    before = handler.allocator
    assert before.num_free_pages + before.num_allocated == before.page_count
    handle = handler.alloc(1)
    assert handler.allocator.num_allocated == before.num_allocated + 1
    handler.free(handle)


def test_the_place_of_a_page_on_its_device(domain, handler):
    """offset + page * stride is where the bytes lie in the pool's file."""
    handler.store("k", data=b"find me here")
    info = handler.retrieve("k")
    region = handler._region(info.region_id)
    with open(handler.get_region_dax_path(info.region_id), "rb") as pool:
        pool.seek(region["offset"] + info.page_index * handler.get_chunk_size())
        assert pool.read(12) == b"find me here"


def test_buffer_view_is_writable_and_bounded(handler):
    handle = handler.alloc(CHUNK)
    view = handler.get_buffer_view(handle.region_id, handle.page_index * CHUNK, 100)
    assert not view.readonly and view.nbytes == 100
    view[:5] = b"12345"
    assert bytes(handle.buf[:5]) == b"12345"
    room = handler.get_region_page_count(handle.region_id) * CHUNK
    assert handler.get_buffer_view(handle.region_id, 0, room).nbytes == room
    assert handler.get_buffer_view(handle.region_id, room, 0).nbytes == 0
    for offset, size in ((0, room + 1), (room, 1), (room - 1, 2), (-1, 5), (0, -1), (2**63, 2**63), (2**70, 1)):
        assert handler.get_buffer_view(handle.region_id, offset, size) is None, (offset, size)
    with pytest.raises(TypeError):
        handler.get_buffer_view("0", 0, 1)


def test_a_view_of_a_published_page_takes_a_lease(domain, handler):
    handler.store("k", data=b"value")
    info = handler.retrieve("k")
    place = (info.region_id, info.page_index * CHUNK)
    info.release()
    view = handler.get_buffer_view(*place, 5)
    part = view[1:]
    assert bytes(view) == b"value" and domain.page_counts()["pinned"] == 1
    assert handler.delete("k")
    for number in range(3000):
        handler.store(number, data=b"other")
    assert bytes(view) == b"value"
    del view
    assert bytes(part) == b"alue"
    del part
    assert domain.page_counts()["pinned"] == 0
    assert handler.get_buffer_view(place[0], 0, CHUNK + 1) is not None
    assert domain.page_counts()["pinned"] == 0, "a wider range takes none"


def test_a_view_of_a_reserved_page_keeps_it(domain, handler):
    handle = handler.alloc(CHUNK)
    view = handler.get_buffer_view(handle.region_id, handle.page_index * CHUNK, CHUNK)
    handler.free(handle)
    assert domain.page_counts()["reserved"] == 1
    view[0] = 1
    del view
    assert domain.page_counts()["reserved"] == 0


def test_regions_are_announced(domain, connect):
    handler = connect(domain, auto_connect=False, pool_size=1 * MIB)
    seen = []
    handler.set_on_region_added(lambda region, pages: seen.append((region, pages)))
    assert seen == []
    handler.connect()
    assert [region for region, _ in seen] == handler.get_owned_region_ids() and seen, "also for the first one at connect"
    before = len(seen)
    handles = []
    while len(seen) == before:
        handles.append(handler.alloc(1))
        assert len(handles) < 2000
    assert seen[-1] == (seen[-1][0], handler.get_region_page_count(seen[-1][0]))
    assert sorted(region for region, _ in seen) == sorted(handler.get_owned_region_ids())
    replayed = []
    handler.set_on_region_added(lambda region, pages: replayed.append((region, pages)))
    assert sorted(replayed) == sorted(seen), "replayed at once"
    handler.set_on_region_added(None)
    with pytest.raises(TypeError):
        handler.set_on_region_added(5)


def test_store_with_data_announces_regions_too(domain, connect):
    handler = connect(domain, pool_size=1 * MIB)
    seen = []
    handler.set_on_region_added(lambda region, pages: seen.append(region))
    before = len(seen)
    for number in range(handler.allocator.page_count + 1):
        handler.store(number, data=b"v")
    assert len(seen) > before


def test_a_callback_that_raises(domain, connect, messages):
    handler = connect(domain, auto_connect=False)
    handler.set_on_region_added(lambda region, pages: 1 / 0)
    assert handler.connect() and handler.store("k", data=b"v")
    assert any("callback" in text for text in messages())


def test_mapper(handler):
    region = handler.mapper.get_region(handler.get_owned_region_ids()[0])
    assert isinstance(region, MappedRegion) and region.size == handler.get_region_page_count(region.region_id) * CHUNK
    assert region.get_buffer_view(0, 10).nbytes == 10 and region.get_buffer_view(0, region.size + 1) is None


def test_mapped_region_of_a_program():
    import mmap
    with mmap.mmap(-1, 4096) as memory:
        region = MappedRegion(region_id=100, handle=object(), size=4096, _mmap_obj=memory)
        view = region.get_buffer_view(1024, 16)
        view[:2] = b"ok"
        assert memory[1024:1026] == b"ok"
        assert region.get_buffer_view(4090, 16) is None and region.get_buffer_view(-1, 1) is None
        view.release()


def test_a_region_of_another_client(domain, connect, handler):
    other = connect(domain)
    (number, *_) = other.get_owned_region_ids()
    assert number not in handler.get_owned_region_ids() and handler.is_region_mapped(number)
    other.store("k", data=b"theirs")
    info = handler.retrieve("k")
    assert handler.get_buffer_view(info.region_id, info.page_index * CHUNK, 6) == b"theirs"
