"""A process held still at each step, killed there, and swept: nobody waits for it, nothing of it stays."""

import pytest
import shared_region
from harness import EXISTS, KIB, MIB, MISS, OK, wait_until
from steps import held_at, sleeps

CALL_NS_MAX = 2_000_000_000


# point, the call that meets it, its arguments, the counter of the sweep that must see it
STEPS = {
    "alloc.after_reserve": ("alloc", {"size": 100}, "reserved"),
    "publish.after_publishing": ("put", {"key": "k", "id": 1, "size": 5000}, "publishing_tentative"),
    "publish.after_place": ("put", {"key": "k", "id": 1, "size": 5000}, "publishing_tentative"),
    "publish.after_commit": ("put", {"key": "k", "id": 1, "size": 5000}, "publishing_final"),
    "retire.after_retiring": ("remove", {"key": "old"}, "retiring"),
    "retire.after_retired": ("remove", {"key": "old"}, "retired"),
    "pin.after_lease": ("retrieve", {"key": "old"}, "leases"),
}


@pytest.fixture(params=STEPS.keys())
def held(request, make_domain):
    """A domain, another client, and a victim that stands at the point."""
    point = request.param
    call, arguments, counter = STEPS[point]
    domain = make_domain()
    other = domain.engine("no_expand", pool=4 * MIB, page=16 * KIB)
    other.good("put", key="old", id=7, size=5000)
    victim = domain.engine(pool=4 * MIB, page=16 * KIB, environment=held_at(point))
    victim.send(call, **arguments)
    wait_until(lambda: sleeps(victim.pid), f"the victim stands at {point}")
    return domain, other, victim, point, counter


def test_others_go_on_and_everything_comes_back(held):
    """A lock owner died and everybody hung (boost interprocess 65, 187). Here the others finish every call within a
    bound while the victim stands, and the sweep finds what its death left in exactly that state."""
    domain, other, victim, point, counter = held
    key = "old" if point.startswith(("retire", "pin")) else "k"
    before = domain.status()["daemon"]["sweeps"][counter]

    # It stands.
    stored = other("put", key=key, id=9, size=6000, within_s=2)
    expected = {"publish.after_commit": {EXISTS}, "pin.after_lease": {EXISTS}, "retire.after_retired": {OK},
                "retire.after_retiring": {OK, EXISTS}}.get(point, {OK})
    assert stored.status in expected, stored
    seen = other("get", key=key, within_s=2)
    assert seen.status == OK and seen.right and seen.id in (1, 7, 9)
    hits = other("hits", "timed", key=key, count=1000, within_s=5)
    assert hits.hits == 1000 and hits.slowest_ns < CALL_NS_MAX
    assert other("remove", key=key, within_s=2).status in (OK, MISS)
    other.good("put", key=key, id=10, size=7000, within_s=2)
    assert other.good("put_many", prefix="fill", count=500, size=16 * KIB, within_s=20).stored == 500
    assert domain.maructl("exists", "fill499").code == 0

    # It dies.
    victim.kill()
    wait_until(lambda: victim.name not in domain.clients(), "the victim is swept")
    if point not in ("publish.after_publishing", "publish.after_place", "publish.after_commit",
                     "retire.after_retiring", "retire.after_retired"):
        # Others may have completed or undone the rest already, as they should.
        assert domain.status()["daemon"]["sweeps"][counter] > before
    domain.check_clean()
    other("remove", key=key)
    other.good("put", key=key, id=11, size=100)
    assert other.good("get", key=key).id == 11


def test_the_sweep_finds_the_state(held):
    """Nobody else comes by: the sweep alone decides."""
    domain, other, victim, point, counter = held
    before = domain.status()["daemon"]["sweeps"][counter]
    victim.kill()
    wait_until(lambda: victim.name not in domain.clients(), "the victim is swept")
    assert domain.status()["daemon"]["sweeps"][counter] > before, domain.status()["daemon"]["sweeps"]
    domain.check_clean()
    counts = domain.page_counts()
    assert counts["reserved"] == 0 and counts["pinned"] == 0
    if point == "publish.after_commit":
        assert other.good("get", key="k").id == 1, "what was committed stays"
    elif point.startswith("publish"):
        assert other("get", key="k").status == MISS, "what was not committed is gone"
    if point == "retire.after_retired":
        assert other("get", key="old").status == MISS
    else:
        assert other.good("get", key="old").id == 7


def test_a_new_daemon_finds_the_state(held):
    """Victim and daemon die together: the successor's first pass decides."""
    domain, other, victim, point, _ = held
    domain.kill()
    victim.kill()
    domain.start()
    wait_until(lambda: victim.name not in domain.clients(), "the victim is swept")
    domain.check_clean()
    wait_until(lambda: domain.page_counts()["reserved"] == 0, "its page is back")
    if point == "publish.after_commit":
        assert other.good("get", key="k").id == 1
    other("remove", key="k")
    other.good("put", key="k", id=12, size=100)


@pytest.mark.parametrize("point", ["sweep.in_records", "sweep.in_pins"])
def test_the_daemon_dies_in_its_sweep(make_domain, point):
    """The sweep is cut short wherever it stands; the next daemon completes it."""
    domain = make_domain(environment=held_at(point))
    other = domain.engine(pool=4 * MIB, page=16 * KIB)
    victim = domain.engine(pool=4 * MIB, page=16 * KIB)
    victim.good("put_many", prefix="k", count=20, size=5000)
    victim.good("match", prefix="k", count=20, v="m")
    for number in range(10):
        victim.good("alloc", size=1, p=f"p{number}")
    victim.kill()
    wait_until(lambda: sleeps(domain.process.pid), f"the daemon stands at {point}")
    # Its sweep stands, and nobody waits for it.
    assert other.good("put_many", prefix="fill", count=500, size=16 * KIB, within_s=20).stored == 500
    domain.kill()
    assert shared_region.dead_clients(domain.pool_path), "the sweep was not under way"
    domain.environment = {}
    domain.start()
    wait_until(lambda: set(domain.clients()) == {other.name}, "the sweep is completed")
    counts = domain.page_counts()
    assert counts["reserved"] == 0 and counts["pinned"] == 0
    domain.check_clean()


@pytest.mark.parametrize("point", ["connect.welcomed", "connect.activated"])
@pytest.mark.parametrize("restart", ["meanwhile", "after"])
def test_a_connect_that_the_daemon_does_not_outlive(make_domain, point, restart):
    """The client has its slot, and the daemon dies before it has its memory: the connect fails, and the slot comes back
    though the process lives on."""
    domain = make_domain()
    victim = domain.engine(connect=False, environment={"MARU_FAULT": f"ppm=1000000,us=700000,seed=1,at={point}"})
    victim.send("connect", server=domain.socket, id=victim.name, pool=4 * MIB, page=16 * KIB, timeout=2000)
    wait_until(lambda: sleeps(victim.pid), f"the victim stands at {point}")
    domain.kill()
    if restart == "meanwhile":
        domain.start()
    assert victim.answer().status not in (OK, EXISTS)
    if restart == "after":
        domain.start()
    wait_until(lambda: not domain.clients(), "the slot is free")
    assert victim.alive()
    domain.check_clean()
    victim.connect(pool=4 * MIB, page=16 * KIB)
    victim.good("put", key="k", id=1, size=100)
