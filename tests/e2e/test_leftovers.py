"""What kill -9 leaves, and neighbours on one host."""

import os
import pathlib
import signal
import socket

import pytest
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


@pytest.mark.parametrize("spoil", ["too large", "wrong type"])
def test_a_start_that_fails_leaves_no_lock_file(make_domain, spoil):
    """No pool that can be used, exit 4: nothing stays beside the path that was asked for."""
    domain = make_domain(start=False)
    domain.expect_clean = False
    if spoil == "too large":
        domain.pool = "1000TiB"
        domain.write_config()
    else:
        domain.pool_path.mkdir()
    try:
        domain.start(wait=False)
        assert domain.process.wait(20) == 4, domain.log_tail()
        left = {path.name.removeprefix(domain.pool_path.name) for path in SHM.glob(f"*{domain.unique}*")}
        assert left <= ({""} if spoil == "wrong type" else set()), left
        assert sorted(path.name for path in domain.folder.iterdir()) == ["daemon.log", "maru.toml"]
    finally:
        if spoil == "wrong type":
            domain.pool_path.rmdir()


def test_a_start_that_fails_keeps_an_old_lock_file(make_domain):
    """Clients hold locks in it: it is not the failing daemon's to delete."""
    domain = make_domain()
    engine = domain.engine(pool=4 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=1000)
    domain.kill()
    domain.pool = "32MiB"
    domain.write_config()
    lock = domain.pool_path.with_name(domain.pool_path.name + ".lock")
    inode = lock.stat().st_ino
    domain.start(wait=False)
    assert domain.process.wait(20) == 4, domain.log_tail()
    assert lock.stat().st_ino == inode
    domain.pool = "64MiB"
    domain.write_config()
    domain.start()
    wait_until(lambda: engine("ping").status == OK, "the client is back")
    assert engine.good("get", key="k").right


def test_a_socket_file_that_is_there_accepts(make_domain):
    """Whoever waits for the file to come can connect at once; a daemon that was killed leaves one that refuses, until
    its successor's takes its place."""
    domain = make_domain(start=False)
    for _ in range(10):
        inode = domain.socket.stat().st_ino if domain.socket.exists() else None
        domain.start(wait=False)
        while not domain.socket.exists() or domain.socket.stat().st_ino == inode:
            assert domain.process.poll() is None, domain.log_tail()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(domain.socket))
        assert domain.socket.stat().st_mode & 0o777 == 0o660
        domain.kill()
    domain.start()
    assert {path.name for path in domain.folder.glob("m.sock*")} == {"m.sock", "m.sock.lock"}


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
    engine = domain.engine(pool=4 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=1000)
    engine.good("close")
    engine.quit()
    assert domain.stop() == 0
    assert {path.name.removeprefix(domain.pool_path.name) for path in SHM.glob(f"*{domain.unique}*")} == {"", ".lock"}
    left = {path.name for path in domain.folder.iterdir()}
    assert "m.sock" not in left
    assert not list(pathlib.Path("/tmp").glob(f"*{domain.unique}*"))
    domain.start()
