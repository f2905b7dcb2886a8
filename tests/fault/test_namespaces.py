"""The daemon is killed at each step of making, changing, flushing and removing a namespace: the next one finds it as it
was before or as it was to become, and ends what was under way."""

import subprocess

import pytest
from harness import KIB, MARUCTL, MIB, MISS, OK, wait_until
from test_steps import held_at, sleeps

PAGE = 64 * KIB
COUNT = 20


@pytest.fixture
def stand(make_domain):
    """A domain with objects in the namespaces "a" and "b", whose daemon will stand at a point."""

    def make(point):
        domain = make_domain()
        engines = [domain.engine(pool=2 * MIB, page=PAGE, namespace=name) for name in ("a", "b")]
        for engine in engines:
            engine.good("put_many", prefix="k", count=COUNT, size=5000)
        domain.kill()
        domain.environment = held_at(point)
        domain.start()
        return domain, *engines

    return make


def namespaces(domain):
    return {row["name"]: row for row in domain.ask("namespaces")["namespaces"]}


def kill_at(domain, point, *words):
    """A command that does not come to its end, since the daemon dies at the point."""
    command = subprocess.Popen([MARUCTL, "--socket", domain.socket, *words], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: sleeps(domain.process.pid), f"the daemon stands at {point}")
        domain.kill()
    finally:
        command.kill()
        command.wait(10)
    domain.environment = {}
    domain.start()
    domain.check_clean()


def present(engine):
    return engine.good("exists_batch", prefix="k", count=COUNT).statuses.count(OK)


@pytest.mark.parametrize("point", ["namespace.rules.written", "namespace.set.rules", "namespace.make.filled"])
def test_create(stand, point):
    domain, first, second = stand(point)
    kill_at(domain, point, "namespace", "create", "new", "--quota", "1MiB", "--uid", "0")
    assert set(namespaces(domain)) == {"default", "a", "b"}, "what was not whole is not there"
    made = domain.ask("namespace", "create", "new", "--quota", "2MiB")
    assert made["quota"] == 2 * MIB and made["uids"] == []
    assert present(first) == present(second) == COUNT


@pytest.mark.parametrize("point, after", [("namespace.rules.written", False), ("namespace.set.rules", True)])
def test_set(stand, point, after):
    domain, first, _ = stand(point)
    kill_at(domain, point, "namespace", "set", "a", "--uid", "7", "--gid", "8")
    row = namespaces(domain)["a"]
    assert (row["uids"], row["gids"]) == (([7], [8]) if after else ([], []))
    assert present(first) == COUNT


@pytest.mark.parametrize("point, after", [("namespace.flush.marked", False), ("namespace.flush.raised", True),
                                          ("namespace.flush.step", True)])
def test_flush(stand, point, after):
    domain, first, second = stand(point)
    kill_at(domain, point, "flush", "--namespace", "a", "-y")
    assert present(first) == (0 if after else COUNT)
    wait_until(lambda: not namespaces(domain)["a"]["flushing"], "the flush is ended")
    if after:
        assert namespaces(domain)["a"]["used_bytes"] == 0, "its memory is back"
        assert first("get", key="k0").status == MISS
    assert present(second) == COUNT
    first("remove", key="k0")
    first.good("put", key="k0", id=9, size=100)
    assert first.good("get", key="k0").id == 9


@pytest.mark.parametrize("point, after", [("namespace.remove.marked", False), ("namespace.flush.marked", False),
                                          ("namespace.flush.raised", True), ("namespace.flush.step", True),
                                          ("namespace.remove.emptied", True)])
def test_rm(stand, point, after):
    domain, first, second = stand(point)
    first.quit()
    wait_until(lambda: first.name not in domain.clients(), "it has left")
    kill_at(domain, point, "namespace", "rm", "a", "-y")
    wait_until(lambda: not namespaces(domain).get("a", {}).get("flushing"), "what was begun is ended")
    if after:
        wait_until(lambda: "a" not in namespaces(domain), "the removal is ended")
    again = domain.engine(pool=2 * MIB, page=PAGE, namespace="a")
    assert present(again) == (0 if after else COUNT), "before or after, nothing between"
    assert present(second) == COUNT
    again.quit()
    wait_until(lambda: again.name not in domain.clients(), "it has left")
    domain.ask("namespace", "rm", "a", "-y")
    assert set(namespaces(domain)) == {"default", "b"}
