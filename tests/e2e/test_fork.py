"""fork in a client: the child may use nothing of its parent's, and harms nothing."""

import os
import signal

import pytest
from harness import FORKED, KIB, MIB, OK, wait_until


def test_a_forked_child_is_refused_and_its_parent_unharmed(domain):
    """botan 602, rpma 751: a forked child's exit tore down its parent's state. Here every call of the child says that
    it was forked, its close and its exit free nothing, and it can connect by itself."""
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    engine.good("retrieve", key="k")
    engine.good("pin", key="k")
    engine.good("alloc", size=60_000)
    engine.good("write", key="mine", id=2, size=60_000)
    for _ in range(3):
        child = engine("fork", key="k", server=domain.socket)
        assert child.heard and child.exit == 0, child
        for call in ("put", "get", "retrieve", "exists", "remove", "alloc", "ping"):
            assert child[call] == FORKED, (call, child)
        assert child.close in (OK, FORKED)
        assert child.fresh_connect == OK and child.fresh_get == OK, child

    assert engine.good("verify").right
    engine.good("ping")
    engine.good("store", key="mine", size=60_000)
    assert engine.good("get", key="mine").id == 2
    assert domain.clients()[engine.name]["state"] == "ACTIVE"
    engine.good("unpin", key="k")
    engine.good("release")
    engine.good("free")
    wait_until(lambda: set(domain.clients()) == {engine.name}, "the children's own clients are gone")


def test_the_parent_reconnects_after_a_fork(domain):
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=100)
    assert engine("fork", key="k", server=domain.socket).exit == 0
    domain.restart()
    wait_until(lambda: engine("ping").status == OK, "connected again")
    assert engine.good("get", key="k").right


@pytest.mark.parametrize("restart", [False, True])
def test_the_parents_death_is_seen_after_a_fork(domain, restart):
    """A child that lives on must not keep its dead parent's slot: the lock went with the parent."""
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=100)
    engine.good("alloc", size=1)
    child = engine("fork_and_stay")
    try:
        if restart:
            domain.kill()
        engine.kill()
        if restart:
            domain.start()
        wait_until(lambda: not domain.clients(), "the dead parent is swept while its child lives")
        wait_until(lambda: domain.page_counts()["reserved"] == 0, "its pages are free")
    finally:
        os.kill(child.pid, signal.SIGKILL)
