"""A million operations: neither memory nor references grow."""

import gc
import sys

import pytest
from conftest import KIB

import maru

MILLION = 1_000_000
# A leak of one small object for each operation would be tens of megabytes.
GROWTH_BYTES_MAX = 4 << 20


def resident_bytes():
    with open("/proc/self/statm") as numbers:
        fields = numbers.read().split()
    return (int(fields[1]) - int(fields[2])) * 4096  # without shared pages


def grows(work, rounds):
    """Bytes by which this process grew over `rounds` after a warm-up."""
    for _ in range(max(rounds // 20, 1)):
        work()
    gc.collect()
    before = resident_bytes()
    for _ in range(rounds):
        work()
    gc.collect()
    return resident_bytes() - before


@pytest.fixture
def warm(handler):
    for number in range(256):
        handler.store(number, data=b"v" * 100)
        handler.store(f"key-{number}", data=b"v" * 100)
    return handler


def references(*objects):
    gc.collect()
    return {repr(one)[:40]: sys.getrefcount(one) for one in objects}


def assert_flat(before, after):
    """A reference lost in each operation would be thousands; tests and interpreter move a few about."""
    moved = {name: (before[name], after[name]) for name in before if abs(after[name] - before[name]) >= 50}
    assert not moved, moved


def test_a_million_lookups(warm):
    keys = [f"key-{number}" for number in range(250)]
    texts = list(keys)
    before = references(*texts, None, True, maru.MemoryInfo, warm, keys)

    def work():
        for key in keys:
            warm.retrieve(key).view
            warm.exists(key)
            warm.retrieve("absent")

    assert grows(work, MILLION // 750 + 1) < GROWTH_BYTES_MAX
    after = references(*texts, None, True, maru.MemoryInfo, warm, keys)
    assert_flat(before, after)


def test_a_million_keys_in_batches(warm):
    keys = list(range(256))
    before = references(None, True, False, maru.MemoryInfo, warm, keys)

    def work():
        infos = warm.batch_retrieve(keys)
        infos[3].view[1:2]
        warm.batch_exists(keys)
        warm.batch_pin(keys)
        warm.batch_unpin(keys)
        warm.match_prefix(keys)

    assert grows(work, MILLION // (5 * 256) + 1) < GROWTH_BYTES_MAX
    after = references(None, True, False, maru.MemoryInfo, warm, keys)
    assert_flat(before, after)


def test_pages_handles_and_views(domain, warm):
    value = b"v" * 4 * KIB
    before = references(maru.AllocHandle, maru.MemoryInfo, value, warm)
    allocated = warm.allocator.num_allocated

    def work():
        handle = warm.alloc(10)
        handle.buf[:2] = b"ab"
        warm.store("page", handle)
        del handle
        region, page = (info := warm.retrieve("page")).region_id, info.page_index
        with info:
            pass
        warm.get_buffer_view(region, page * 64 * KIB, 10)
        warm.delete("page")
        dropped = warm.alloc(5)
        warm.free(maru.AllocHandle(buf=None, _region_id=dropped.region_id, _page_index=dropped.page_index, _size=5))
        warm.store("data", data=value)
        warm.batch_store(["x"], [warm.alloc(1)])
        warm.delete("x"), warm.delete("data")
        maru.MemoryInfo(view=value)

    assert grows(work, 20_000) < GROWTH_BYTES_MAX
    after = references(maru.AllocHandle, maru.MemoryInfo, value, warm)
    assert_flat(before, after)
    assert warm.allocator.num_allocated == allocated
    counts = domain.page_counts()
    assert counts["reserved"] == counts["pinned"] == 0


def test_errors_do_not_leak(warm):
    freed = warm.alloc(1)
    warm.free(freed)

    def work():
        for call in (lambda: warm.retrieve(""), lambda: warm.retrieve(None), lambda: warm.batch_exists(["a", 1.0]),
                     lambda: warm.alloc(-1), lambda: warm.alloc(1 << 40), lambda: warm.free(freed),
                     lambda: warm.store("k"), lambda: warm.store("k", data=7), lambda: warm.batch_store(["k"], []),
                     lambda: warm.exists(), lambda: warm.retrieve(wrong=1), lambda: maru.MemoryInfo(view=b"", page=1),
                     lambda: maru.AllocHandle(1, 2), lambda: warm.store("k", data=memoryview(b"abcd")[::2])):
            try:
                call()
            except (ValueError, TypeError, BufferError):
                continue
            raise AssertionError("a call that is wrong succeeded")

    assert grows(work, 10_000) < GROWTH_BYTES_MAX


def test_handlers_come_and_go(domain, connect):
    from conftest import configure
    import harness
    descriptors = harness.descriptors_of("self")

    def work():
        with maru.MaruHandler(configure(domain, pool_size=64 * KIB)) as handler:
            handler.store("k", data=b"v")
            handler.retrieve("k")
            handler.get_stats()

    assert grows(work, 60) < GROWTH_BYTES_MAX
    assert harness.descriptors_of("self") <= descriptors + 1
