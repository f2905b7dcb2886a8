"""Many threads on one handler; the GIL."""

import threading
import time

import maru
from conftest import KIB, MIB

import harness


def run_threads(count, work):
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60 * harness.SLOWER)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


def test_eight_threads_on_one_handler(domain, handler):
    def work(number):
        for step in range(200):
            key = f"{step % 50}"
            value = key.encode() * 100
            handle = handler.alloc(len(value))
            handle.buf[:] = value
            assert handler.store(key, handle)
            handler.store(key, data=value)
            info = handler.retrieve(key)
            assert info is None or bytes(info.view) == value
            for wanted, found in zip(range(64), handler.batch_retrieve([str(n) for n in range(64)])):
                assert found is None or bytes(found.view) == str(wanted).encode() * 100
            if handler.pin(key):
                handler.unpin(key)
            if step % 7 == number % 7:
                handler.delete(key)
            handler.match_prefix([key, "absent"])

    run_threads(8, work)
    import gc
    gc.collect()
    counts = domain.page_counts()
    assert counts["reserved"] == 0 and counts["pinned"] == 0


def test_close_while_threads_work(domain, connect):
    handler = connect(domain, chunk_size_bytes=1 * MIB, pool_size=16 * MIB)
    started = threading.Barrier(5)

    def work(number):
        started.wait(30)
        try:
            for step in range(1_000_000):
                handler.store(f"{number}-{step % 10}", data=bytes(512 * KIB))
                handler.batch_retrieve([f"{number}-{n % 10}" for n in range(40)])
                handler.alloc(10)
        except maru.MaruUnavailableError:
            return
        except maru.MaruFullError:
            return

    def close(_):
        started.wait(30)
        time.monotonic()
        handler.retrieve("k")
        handler.close()

    run_threads(5, lambda number: close(number) if number == 4 else work(number))
    import gc
    gc.collect()
    assert not handler.connected
    harness.wait_until(domain.nothing_held, "nothing is held")


def test_views_are_released_by_other_threads(domain, handler):
    handler.store("k", data=b"v")
    views = [handler.retrieve("k") for _ in range(100)]

    def work(number):
        for index in range(number, 100, 4):
            views[index].release()

    run_threads(4, work)
    assert domain.page_counts()["pinned"] == 0


def test_the_gil_is_released_while_the_daemon_does_not_answer(domain, connect):
    handler = connect(domain, timeout_ms=1500)
    domain.pause()
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            done.wait(0.01)

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        begin = time.monotonic()
        assert handler.healthcheck() is False
        end = time.monotonic()
    finally:
        done.set()
        ticker.join()
        domain.resume()
    during = [moment for moment in ticks if begin < moment < end]
    assert end - begin >= 1.0 and len(during) > 20, f"{len(during)} ticks in {end - begin:.2f} s"


def test_an_allocation_that_waits_lets_others_run(domain, connect):
    handler = connect(domain, timeout_ms=3000, pool_size=1 * MIB)
    handles = [handler.alloc(1) for _ in range(handler.allocator.num_free_pages)]
    domain.pause()
    results = []
    waiting = threading.Thread(target=lambda: results.append(_outcome(handler)))
    begin = time.monotonic()
    waiting.start()
    longest = 0.0
    last, deadline = begin, begin + 30
    while waiting.is_alive() and last < deadline:
        handler.exists("k")
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    waiting.join(30)
    domain.resume()
    assert last - begin > 2.0 and longest < 1.5, f"one lookup took {longest:.2f} of {last - begin:.2f} s"
    assert results and handles


def _outcome(handler):
    try:
        return handler.alloc(1)
    except maru.MaruError as problem:
        return problem


DAEMON_THREADS = """
import sys, threading, maru
handler = maru.MaruHandler(maru.MaruConfig(server_url=sys.argv[1], pool_size="4M", chunk_size_bytes="64K"))
keys = [str(number) for number in range(2000)]
busy = threading.Barrier(5)
def work(number):
    for step in range(10**9):
        if step == 10:
            busy.wait()
        try:
            handler.store(str(step % 2000), data=bytes(60000))
            handler.batch_retrieve(keys)
        except maru.MaruError:
            pass
for number in range(4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
busy.wait()
"""


def test_daemon_threads_at_the_end_of_the_interpreter(domain):
    import sys
    for _ in range(5):
        ended = harness.run(sys.executable, "-c", DAEMON_THREADS, f"unix://{domain.socket}")
        assert (ended.code, ended.err) == (0, "")
    harness.wait_until(domain.nothing_held, "nothing is held")
