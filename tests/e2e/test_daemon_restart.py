"""The daemon is killed, restarted, stopped: clients go on over their old session."""

import time

from harness import EXISTS, KIB, MIB, OK, SLOWER, TIMEOUT, UNAVAILABLE, wait_until


def connected(engine):
    return engine("stats").connected == 1


def test_reading_and_storing_go_on_while_the_daemon_is_dead(domain):
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="before", id=1, size=60_000)
    engine.good("retrieve", key="before", v="held")
    domain.kill()

    engine.good("put", key="while", id=2, size=60_000)
    assert engine.good("get", key="before").id == 1
    assert engine.good("get", key="while").id == 2
    assert engine.good("verify", v="held").right
    engine.good("remove", key="before")
    engine.good("pin", key="while")
    engine.good("unpin", key="while")
    assert engine.good("match", keys=["while", "before"]).matched == 1
    wait_until(lambda: not connected(engine), "the client knows that the daemon is gone")
    refused = engine("ping")
    assert refused.status in (UNAVAILABLE, TIMEOUT) and refused.detail
    assert refused.took_ms < 4000 * SLOWER

    domain.start()
    wait_until(lambda: connected(engine), "the client is connected again by itself")
    assert engine("stats").reconnects >= 1
    engine.good("ping")
    assert engine.good("verify", v="held").right and engine.good("verify", v="held").id == 1
    engine.good("release", v="held")
    engine.good("put", key="after", id=3, size=60_000)
    assert domain.clients()["engine1"]["state"] == "ACTIVE"
    assert domain.engine("no_claim").good("get", key="after").id == 3


def test_restarted_twice_within_a_second(domain):
    """LMCache 3206, 4642, 4687: after a restart of the cache server every engine had to be restarted."""
    engines = [domain.engine(pool=4 * MIB, page=64 * KIB) for _ in range(3)]
    for engine in engines:
        engine.good("put", key=engine.name, id=7, size=1000)
        engine.good("retrieve", key=engine.name)
        engine.good("pin", key=engine.name)
    begun = time.monotonic()
    domain.kill()
    domain.start(wait=False)
    wait_until(domain.socket.exists, "the socket is there")
    domain.kill()
    domain.start(wait=False)
    assert time.monotonic() - begun < 1.5 * SLOWER
    domain.wait_ready()
    for engine in engines:
        wait_until(lambda engine=engine: connected(engine), "connected again")
        assert engine.good("verify").right
        engine.good("release")
        assert engine("put", key=engine.name, id=8, size=1000).status == EXISTS
        engine.good("put", key=f"{engine.name}-new", id=8, size=1000)
        engine.good("unpin", key=engine.name)
        engine.good("ping")
    assert set(domain.clients()) == {"engine1", "engine2", "engine3"}
    assert {row["state"] for row in domain.clients().values()} == {"ACTIVE"}
    domain.check_clean()


def test_many_restarts_lose_nothing(domain):
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    for number in range(10):
        engine.good("put", key=f"k{number}", id=number + 1, size=30_000)
        engine.good("retrieve", key=f"k{number}", v=f"v{number}")
        domain.restart()
    wait_until(lambda: connected(engine), "connected")
    assert engine.good("match", prefix="k", count=10).matched == 10
    for number in range(10):
        assert engine.good("verify", v=f"v{number}").id == number + 1
        engine.good("release", v=f"v{number}")
    assert [row["is_daemon"] for row in domain.ask("clients")["clients"]].count(True) == 1


def test_claims_fail_while_the_daemon_is_away_and_work_again(domain):
    """What needs the daemon fails in time or is done without it; nothing hangs."""
    engine = domain.engine(pool=2 * MIB, page=64 * KIB, timeout=500)
    domain.kill()
    begun = time.monotonic()
    # Past what the client holds: more memory cannot be claimed, its own old objects give way.
    assert engine.good("put_many", prefix="k", count=200, size=60_000).stored == 200
    assert time.monotonic() - begun < 10 * SLOWER
    held = engine("stats").held_bytes
    domain.start()
    wait_until(lambda: connected(engine), "connected again")
    wait_until(lambda: engine.good("put_many", prefix="more", first=0, count=0, size=1) and
               engine("put", key=f"x{time.monotonic_ns()}", id=1, size=60_000).status == OK and
               engine("stats").held_bytes > held, "memory is claimed again")


def test_event_descriptor_tells_of_both(domain):
    engine = domain.engine("no_claim")
    engine("event", timeout=0)
    domain.kill()
    assert engine("event", timeout=5000 * SLOWER).ready
    wait_until(lambda: not connected(engine), "disconnected")
    domain.start()
    wait_until(lambda: connected(engine), "connected again")
    assert engine("event", timeout=5000 * SLOWER).ready


def test_a_stopped_daemon_holds_nobody_up(domain):
    """SIGSTOP: the fast path does not notice, the slow path errs within its bound."""
    engine = domain.engine("no_expand", pool=4 * MIB, page=64 * KIB, timeout=600)
    engine.good("put", key="k", id=1, size=60_000)
    domain.pause()
    reply = engine("hits", "timed", key="k", count=10_000)
    assert reply.hits == 10_000 and reply.slowest_ns < 1_000_000_000
    assert engine.good("put_many", prefix="k", count=300, size=60_000).stored == 300
    refused = engine("ping")
    assert refused.status == TIMEOUT and refused.detail
    assert 400 <= refused.took_ms < 2500 * SLOWER
    domain.resume()
    wait_until(lambda: engine("ping").status == OK, "the slow path serves again")
    assert connected(engine)


def test_a_client_that_dies_while_the_daemon_is_dead(domain):
    """The next daemon finds it and gives back what it held."""
    survivor = domain.engine(pool=8 * MIB, page=64 * KIB)
    victim = domain.engine(pool=8 * MIB, page=64 * KIB)
    victim.good("put", key="k", id=1, size=1000)
    victim.good("retrieve", key="k")
    victim.good("pin", key="k")
    for number in range(10):
        victim.good("alloc", size=1, p=f"p{number}")
    domain.kill()
    victim.kill()
    domain.start()
    wait_until(lambda: set(domain.clients()) == {"engine1"}, "the dead one is swept")
    wait_until(lambda: domain.page_counts().get("reserved", 0) == 0, "its pages are free")
    survivor.good("remove", key="k")
    survivor.good("put", key="k", id=2, size=1000)
    domain.check_clean()


def test_close_while_the_daemon_is_dead(domain):
    """The goodbye cannot be said; the slot comes back all the same."""
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=1000)
    engine.good("alloc", size=1)
    domain.kill()
    closed = engine("close")
    assert closed.status == OK and closed.took_us < 5_000_000 * SLOWER
    domain.start()
    wait_until(lambda: not domain.clients(), "the slot is free")
    assert domain.page_counts().get("reserved", 0) == 0
    engine.connect()
    assert engine.good("get", key="k").right


def test_the_domain_made_anew_under_a_client(domain):
    """The pool was removed and made again: the old session is over, and says so; nothing is mixed."""
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=1000)
    domain.kill()
    domain.pool_path.unlink()
    domain.start()
    wait_until(lambda: engine("ping").status not in (OK, TIMEOUT), "the old session is refused")
    assert domain.keys() == []
    engine("close")
    engine.connect(c="new")
    assert engine("exists", c="new", key="k").status != OK
    engine.good("put", c="new", key="k", id=2, size=1000)
