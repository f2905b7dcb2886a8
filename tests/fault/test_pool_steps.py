"""A daemon or a client that dies at each step of a pool's way in, out and back: the successor undoes or ends it."""

import pathlib
import signal
import subprocess

import harness
import pytest
from growing import GrowingDomain, fill, grown, in_pool, read, writer
from harness import OK, wait_until
from steps import held_at, sleeps


def killed_at(domain, point, *words):
    """The daemon is told something, stands at the point, is killed there, and has a successor. `killed` runs while it
    stands."""
    domain.environment = held_at(point)
    domain.restart()
    asked = subprocess.Popen([harness.MARUCTL, "--socket", domain.socket, "pool", *words], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    wait_until(lambda: sleeps(domain.process.pid), f"the daemon stands at {point}")
    return asked


def succeed(domain, asked):
    domain.kill()
    asked.wait(20)
    domain.environment = {}
    domain.start()


def maps(engine, name):
    return name in pathlib.Path(f"/proc/{engine.pid}/maps").read_text()


@pytest.mark.parametrize("point", ["pool.joining", "pool.told"])
def test_the_daemon_dies_in_adding(make_domain, point):
    """Nothing of the pool stays, and its units are not mistaken for those of the next one by a client that stands still
    meanwhile. What the daemon has to tell at "pool.told" leaves with its loop's next turn."""
    domain = make_domain(kind=GrowingDomain)
    engine, reader = writer(domain), domain.engine("no_claim")
    fill(engine, 0, 50)
    name = domain.name("b")
    asked = killed_at(domain, point, "add", f"shm:{name}:16MiB")
    reader.signal(signal.SIGSTOP)
    succeed(domain, asked)
    assert name not in domain.pools() and not domain.file_of(name).exists()
    other = domain.add("c")
    fill(engine, 1000, 300)
    there = in_pool(domain, other)
    assert len(there) >= 50, "the other pool was not used"
    reader.signal(signal.SIGCONT)
    assert all(answer.status == OK and answer.right for answer in read(reader, there).values())
    assert not maps(reader, name) and not maps(engine, name)
    again = domain.add("b")
    assert domain.pools()[again]["state"] == "active"
    domain.check_clean()


def test_the_daemon_dies_in_draining(make_domain):
    domain = make_domain(kind=GrowingDomain)
    engine, reader, name = grown(domain)
    there = in_pool(domain, name)
    succeed(domain, killed_at(domain, "pool.draining", "drain", name))
    assert domain.pools()[name]["state"] == "draining"
    reader.good("retrieve", key=f"k{there[0]}")
    fill(engine, 5000, 300)
    assert not [number for number in in_pool(domain, name) if number >= 5000]
    assert reader("verify").right
    reader.good("release")
    assert domain.ask("pool", "remove", "-y", name)["removed"] is True
    domain.check_clean()


def test_the_daemon_dies_in_calling_a_drain_back(make_domain):
    """The pool is active, and its regions serve, also those that the death left between two phases."""
    domain = make_domain(kind=GrowingDomain)
    engine, reader, name = grown(domain)
    there = in_pool(domain, name)
    domain.ask("pool", "drain", name)
    succeed(domain, killed_at(domain, "pool.cancelled", "drain", "--cancel", name))
    assert domain.pools()[name]["state"] == "active"
    assert all(answer.status == OK and answer.right for answer in read(reader, there).values())
    for number in there[:40]:
        engine.good("remove", key=f"k{number}")
    fill(engine, 5000, 300)
    assert [number for number in in_pool(domain, name) if number >= 5000], "nothing goes into the pool again"
    domain.check_clean()


@pytest.mark.parametrize("point", ["pool.leaving", "pool.file_gone"])
def test_the_daemon_dies_in_removing(make_domain, point):
    domain = make_domain(kind=GrowingDomain)
    engine, reader, name = grown(domain)
    succeed(domain, killed_at(domain, point, "remove", "-y", name))
    assert name not in domain.pools() and not domain.file_of(name).exists()
    wait_until(lambda: not maps(reader, name) and not maps(engine, name), "the clients have let go of the pool")
    other = domain.add("c", "100MiB")  # there is room for it only with the units that left
    fill(engine, 7000, 300)
    there = in_pool(domain, other)
    assert there and all(answer.status == OK and answer.right for answer in read(reader, there).values())
    domain.check_clean()


@pytest.mark.parametrize("restart", [False, True])
def test_a_client_dies_before_it_says_that_it_let_go(make_domain, restart):
    """The removal is complete without it; the units are another pool's once it is swept."""
    domain = make_domain(kind=GrowingDomain)
    engine, reader, name = grown(domain)
    victim = domain.engine("no_claim", environment=held_at("pools.before_seen"))
    assert victim("get", key=f"k{in_pool(domain, name)[0]}").right
    assert domain.ask("pool", "remove", "-y", name)["removed"] is True
    wait_until(lambda: sleeps(victim.pid), "the victim stands before it says so")
    assert name not in domain.pools() and not domain.file_of(name).exists()
    if restart:
        domain.kill()
        domain.start()
    other = domain.name("c")
    slot = domain.clients()[victim.name]["slot"]

    def add():
        return domain.maructl("pool", "add", f"shm:{other}:100MiB")

    wait_until(lambda: "units of removed pools are kept" in add().err and f"(slot:{slot})" in add().err,
               "the victim alone keeps the units")
    victim.kill()
    wait_until(lambda: add().code == 0, "the units are free again")
    fill(engine, 7000, 300)
    assert all(answer.right for answer in read(reader, in_pool(domain, other)).values())
    domain.check_clean()
