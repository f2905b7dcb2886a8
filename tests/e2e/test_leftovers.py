"""What kill -9 leaves, and neighbours on one host."""

import os
import pathlib
import signal

from harness import KIB, MIB, OK, SHM, SLOWER, wait_until

ROUNDS = int(os.environ.get("MARU_LEFTOVER_ROUNDS", 25 // SLOWER))


def test_kill_everything_and_start_again(make_domain):
    """iceoryx 324 and 2183, iceoryx2 601: what kill -9 left behind blocked the next start. Start, load, kill all,
    start again, many times."""
    domain = make_domain()
    for round_number in range(ROUNDS):
        engines = [domain.engine(pool=4 * MIB, page=16 * KIB) for _ in range(2)]
        for number, engine in enumerate(engines):
            engine.send("mix", seed=round_number * 10 + number, client=round_number * 10 + number + 1, threads=2,
                        run_ms=60_000, keys=40, size_max=16 * KIB)
        wait_until(lambda: domain.page_counts()["published"] > 5, "there is load")
        for process in [domain.process, *(engine.process for engine in engines)]:
            process.send_signal(signal.SIGKILL)
        for process in [domain.process, *(engine.process for engine in engines)]:
            process.wait(10)
        domain.start()
        wait_until(domain.nothing_held, "the leftovers are swept")
        domain.check_clean()
    files = {path.name.removeprefix(domain.pool_path.name) for path in SHM.glob(f"*{domain.unique}*")}
    assert files == {"", ".lock"}, "files pile up in /dev/shm"
    assert domain.stop() == 0
    domain.start()


def test_killed_at_any_moment_of_its_start(make_domain):
    """The daemon is killed at a random moment of its start, again and again; the next one serves."""
    domain = make_domain()
    engine = domain.engine(pool=4 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=1000)
    domain.kill()
    for number in range(ROUNDS):
        domain.start(wait=False)
        size = domain.log.stat().st_size
        # A different moment each time: after a growing number of bytes of its log.
        wait_until(lambda: domain.log.stat().st_size >= size + number * 40 or domain.socket.exists(), "it runs")
        domain.kill()
    domain.start()
    wait_until(lambda: engine("ping").status == OK, "the client is back")
    assert engine.good("get", key="k").right


def test_killed_while_it_formats(make_domain):
    """The first start is killed: nobody has put anything there, so the next start makes the domain."""
    for number in range(8):
        domain = make_domain(start=False)
        domain.start(wait=False)
        wait_until(lambda domain=domain: domain.pool_path.exists(), "the pool is being made")
        if number % 2:
            wait_until(lambda domain=domain: domain.pool_path.stat().st_size > 0, "the pool has a size")
        domain.kill()
        domain.start()
        domain.engine(pool=4 * MIB, page=64 * KIB).good("put", key="k", id=1, size=10)


def test_two_daemons_side_by_side(make_domain):
    """kvcached 477: clean-up by name killed a neighbour. Two domains on one host: each cleans up only its own."""
    one, two = make_domain(), make_domain()
    engines = [domain.engine(pool=4 * MIB, page=64 * KIB) for domain in (one, two)]
    for number, engine in enumerate(engines):
        engine.good("put", key="same key", id=number + 1, size=1000)
        engine.good("retrieve", key="same key")
        engine.good("alloc", size=1)
    two.kill()
    one.restart()
    assert two.pool_path.exists() and two.socket.exists()
    assert engines[1].good("verify").id == 2
    two.start()
    for number, engine in enumerate(engines):
        wait_until(lambda engine=engine: engine("ping").status == OK, "back")
        assert engine.good("verify").id == number + 1
        engine.good("free")
    assert one.stop() == 0
    assert two.pool_path.exists() and engines[1].good("get", key="same key").id == 2
    assert two.status()
    one.start()


def test_an_orderly_stop_leaves_the_pool_and_nothing_else(make_domain):
    domain = make_domain()
    before = set(SHM.iterdir())
    engine = domain.engine(pool=4 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=1000)
    engine.good("close")
    engine.quit()
    assert domain.stop() == 0
    assert set(SHM.iterdir()) <= before
    left = {path.name for path in domain.folder.iterdir()}
    assert "m.sock" not in left
    assert not list(pathlib.Path("/tmp").glob(f"*{domain.unique}*"))
    domain.start()
