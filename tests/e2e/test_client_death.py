"""Clients die or are stopped holding everything a client can hold."""

import os
import signal
import time

import pytest
from harness import KIB, MIB, MISS, OK, PINNED, all_stopped, wait_until


def hold_everything(engine):
    """Pages reserved, a writer's lease, views, key pins."""
    engine.good("put_many", prefix="k", count=10, size=1000)
    for number in range(20):
        engine.good("alloc", size=1, p=f"reserved{number}")
    engine.good("alloc", size=100, p="published")
    engine.good("write", key="published", id=1, size=100, p="published")
    engine.good("store", key="published", size=100, p="published")
    engine.good("match", prefix="k", count=10, v="m")
    for number in range(5):
        engine.good("pin", key=f"k{number}")


def test_everything_comes_back(domain):
    """LMCache 987, Mooncake 974: what a dead client had pinned or begun stayed for ever."""
    survivor = domain.engine(pool=8 * MIB, page=64 * KIB)
    victim = domain.engine(pool=8 * MIB, page=64 * KIB)
    before = domain.page_counts()
    hold_everything(victim)
    row = domain.clients()[victim.name]
    assert row["reserved_bytes"] >= 20 * 64 * KIB and row["leases"] >= 11 and row["key_pins"] == 5
    assert survivor("remove", key="k1").status == PINNED

    victim.kill()

    wait_until(lambda: set(domain.clients()) == {survivor.name}, "the client slot is free")
    counts = domain.page_counts()
    assert (counts["reserved"], counts["pinned"], counts["retired"], counts["quarantined"]) == (0, 0, 0, 0)
    assert counts["published"] == before["published"] + 11
    for number in range(10):
        survivor.good("remove", key=f"k{number}")
    assert survivor.good("get", key="published").right
    survivor.good("remove", key="published")
    domain.check_clean()


def test_slots_are_reused(make_domain):
    domain = make_domain(settings={"control": {"max_clients": 6}})
    for _ in range(20):
        engine = domain.engine(connect=False)
        wait_until(lambda: engine("connect", server=domain.socket, id=engine.name, pool=2 * MIB,
                                  page=64 * KIB).status == OK, "a slot is free")
        engine.good("alloc", size=1)
        engine.kill()


@pytest.mark.parametrize("after", ["connect", "alloc", "write", "store", "free", "retrieve", "pin"])
def test_death_after_each_step_of_a_put(domain, after):
    """Mooncake 974: a writer died inside a put, and its key could be neither read nor removed for ever. Another client
    stores the same key at once."""
    other = domain.engine(pool=8 * MIB, page=64 * KIB)
    victim = domain.engine(connect=False)
    steps = {"connect": {"server": domain.socket, "id": victim.name, "pool": 4 * MIB, "page": 64 * KIB},
             "alloc": {"size": 60_000}, "write": {"key": "k", "id": 1, "size": 60_000},
             "store": {"key": "k", "size": 60_000}, "free": {}, "retrieve": {"key": "k"}, "pin": {"key": "k"}}
    for step, arguments in steps.items():
        victim.good(step, **arguments)
        if step == after:
            break
    victim.kill()
    stored = other("put", key="k", id=2, size=60_000).status
    published = after in ("store", "free", "retrieve", "pin")
    assert stored == (1 if published else OK)
    assert other.good("get", key="k").id == (1 if published else 2)
    wait_until(lambda: victim.name not in domain.clients(), "swept")
    other.good("remove", key="k")
    assert domain.page_counts()["reserved"] == 0


def test_regions_of_the_dead_are_adopted(make_domain):
    domain = make_domain(pool="32MiB")
    victim = domain.engine(pool=16 * MIB, page=64 * KIB)
    victim.good("put_many", prefix="k", count=100, size=60_000)
    victim.kill()
    wait_until(lambda: not domain.clients(), "swept")
    heir = domain.engine(pool=16 * MIB, page=64 * KIB)
    assert heir.good("exists_batch", prefix="k", count=100).statuses == [OK] * 100
    assert heir.good("put_many", prefix="new", count=300, size=60_000).stored == 300
    assert heir.good("get", key="new299").right


def test_a_stopped_client_is_not_robbed(domain):
    """A living owner that was only stopped was robbed by a lease that ran out (gajae-code 669). Its pages, views and
    pins stay its own however long it stands, and it goes on afterwards."""
    other = domain.engine(pool=8 * MIB, page=64 * KIB)
    sleeper = domain.engine(pool=8 * MIB, page=64 * KIB)
    hold_everything(sleeper)
    sleeper.good("alloc", size=60_000, p="mine")
    sleeper.good("write", key="mine", id=9, size=60_000, p="mine")
    sleeper.signal(signal.SIGSTOP)
    wait_until(lambda: all_stopped(sleeper.pid), "the client stands")

    begun = time.monotonic()
    rounds = 0
    while time.monotonic() < begun + 4 and rounds < 40:
        other.good("put_many", prefix=f"fill{rounds}-", count=100, size=60_000)
        rounds += 1
    assert other("remove", key="k1").status == PINNED
    assert domain.clients()[sleeper.name]["state"] == "ACTIVE"

    sleeper.signal(signal.SIGCONT)
    sleeper.good("ping")
    for number in range(10):
        assert sleeper.good("verify", v=f"m{number}").right
    sleeper.good("store", key="mine", size=60_000, p="mine")
    assert other.good("get", key="mine").id == 9
    sleeper.good("free", p="mine")
    for number in range(20):
        sleeper.good("free", p=f"reserved{number}")


def test_a_stopped_client_is_not_robbed_by_a_new_daemon(domain):
    """It does not answer and it cannot reconnect; its lock says that it lives."""
    other = domain.engine(pool=8 * MIB, page=64 * KIB)
    sleeper = domain.engine(pool=8 * MIB, page=64 * KIB)
    hold_everything(sleeper)
    sleeper.signal(signal.SIGSTOP)
    wait_until(lambda: all_stopped(sleeper.pid), "the client stands")
    domain.restart()
    wait_until(lambda: other("stats").connected == 1, "the other is back")
    other.good("put_many", prefix="fill", count=500, size=60_000)
    assert other("remove", key="k1").status == PINNED
    sleeper.signal(signal.SIGCONT)
    wait_until(lambda: sleeper("ping").status == OK, "it is back")
    for number in range(10):
        assert sleeper.good("verify", v=f"m{number}").right
    for number in range(20):
        sleeper.good("free", p=f"reserved{number}")


def test_a_thread_of_eight_dies_with_its_process(domain):
    """SIGKILL in the middle of eight threads' work."""
    survivor = domain.engine(pool=8 * MIB, page=16 * KIB)
    for seed in range(3):
        victim = domain.engine(pool=8 * MIB, page=16 * KIB)
        victim.send("mix", seed=seed, client=seed + 2, threads=8, run_ms=60_000, keys=50, size_max=16 * KIB)
        assert survivor("mix", seed=seed, client=1, operations=2000, keys=50, size_max=16 * KIB).violations == 0
        victim.kill()
    wait_until(lambda: set(domain.clients()) == {survivor.name}, "the dead are swept")
    wait_until(lambda: domain.page_counts()["reserved"] == 0, "their pages are back")
    domain.check_clean()


def test_quit_without_close(domain):
    """A program that ends without a goodbye."""
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    hold_everything(engine)
    engine.quit()
    wait_until(domain.nothing_held, "everything is back")


def test_evicting_under_readers_that_die(domain):
    """Readers are killed while their views stand in the way of an evictor."""
    writer = domain.engine("no_expand", pool=4 * MIB, page=64 * KIB)
    for number in range(6):
        reader = domain.engine("no_claim")
        writer.good("put_many", prefix=f"r{number}-", count=60, size=60_000)
        batch = reader.good("retrieve_batch", prefix=f"r{number}-", count=60)
        assert batch.right and batch.statuses.count(OK) > 0
        reader.kill()
        wait_until(lambda reader=reader: reader.name not in domain.clients(), "swept")
        assert writer.good("put_many", prefix=f"w{number}-", count=100, size=60_000).stored == 100


def test_an_unrelated_process_is_left_alone(domain):
    """The daemon's clean-up touches its dead client's things and nobody's process."""
    engine = domain.engine("no_claim")
    bystander = domain.engine(connect=False)
    engine.kill()
    wait_until(lambda: not domain.clients(), "swept")
    os.kill(bystander.pid, 0)
    assert bystander("exists", key="k").status != MISS
