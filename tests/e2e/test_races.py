"""Many processes on the same keys at the same moment."""

import time

from harness import KIB, MIB, OK, SLOWER, wait_until

KEYS = 20_000 // SLOWER


def test_eight_processes_store_the_same_new_keys(make_domain):
    """Mooncake 727: check, then put, raced and aborted the process; 1374: exists said yes and the value was empty.
    Eight processes store the same new keys: one winner each, the others hear "exists", exists implies get, no page is
    lost."""
    domain = make_domain(pool="256MiB", settings={"control": {"max_objects": 60_000}})
    engines = [domain.engine(pool=24 * MIB, page=4 * KIB) for _ in range(8)]
    start_ns = time.monotonic_ns() + 300_000_000
    for number, engine in enumerate(engines, 1):
        engine.send("race", prefix="new-", count=KEYS, size=64, id=number << 40, start_ns=start_ns)
    replies = [engine.answer(within_s=100) for engine in engines]
    assert [reply.status for reply in replies] == [OK] * 8, replies
    won = sorted(number for reply in replies for number in reply.won)
    assert won == list(range(KEYS)), "each key has exactly one winner"
    assert sum(reply.lost for reply in replies) == 7 * KEYS
    assert [reply.unseen for reply in replies] == [0] * 8
    assert sum(len(reply.won) > KEYS // 100 for reply in replies) >= 2, "they did not meet at all"
    counts = domain.page_counts()
    assert counts["published"] == KEYS and counts["reserved"] == 0
    for number, reply in enumerate(replies, 1):
        for key in reply.won[:20]:
            assert engines[0].good("get", key=f"new-{key}").id == (number << 40) + key
    domain.check_clean()


def test_a_slow_reader_keeps_its_bytes(make_domain):
    """Mooncake 850 and 778: a reader that was slow got bytes of the page's next life. While a view is held, others
    evict, remove, store and fill: its bytes do not change."""
    domain = make_domain(pool="16MiB")
    writer = domain.engine(pool=8 * MIB, page=64 * KIB)
    reader = domain.engine("no_claim")
    writer.good("put_many", prefix="k", count=20, size=64 * KIB)
    first = reader.good("match", prefix="k", count=20, v="slow")
    assert first.matched == 20 and first.right
    ids = [reader.good("verify", v=f"slow{number}").id for number in range(20)]
    for number in range(10):
        writer.good("remove", key=f"k{number}")
        writer.good("put", key=f"k{number}", id=10_000 + number, size=64 * KIB)
    for round_number in range(10):
        writer.good("put_many", prefix=f"fill{round_number}-", count=300, size=64 * KIB)
        for number in range(20):
            view = reader.good("verify", v=f"slow{number}")
            assert view.right and view.id == ids[number], (round_number, number, view)
    reader.good("release_batch", v="slow", count=20)
    assert writer.good("put_many", prefix="last", count=100, size=64 * KIB).stored == 100


def test_removers_and_writers_of_one_key(domain):
    """Four store and remove one single key as fast as they can: every store that wins is seen or removed by somebody,
    and at the end the page count is what it was."""
    engines = [domain.engine(pool=4 * MIB, page=64 * KIB) for _ in range(4)]
    free = domain.page_counts()["free"]
    for number, engine in enumerate(engines, 1):
        engine.send("mix", seed=number, client=number, threads=2, operations=4000, keys=1, size_max=64 * KIB, hold=2)
    replies = [engine.answer(within_s=60) for engine in engines]
    assert [reply.violations for reply in replies] == [0] * 4, replies
    engines[0]("remove", key="mix-0")
    wait_until(lambda: domain.page_counts()["free"] + domain.page_counts()["retired"] == free, "all pages are free")
    domain.check_clean()
