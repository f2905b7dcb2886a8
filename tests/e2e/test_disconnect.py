"""`maructl client disconnect`: an administrator ends a client's session."""

import signal

import pytest
from harness import FENCED, KIB, MIB, OK, PINNED, all_stopped, wait_until


def test_a_disconnected_client_is_fenced_and_keeps_what_it_has(domain):
    other = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    engine.good("retrieve", key="k")
    engine.good("alloc", size=100)
    engine.good("pin", key="k")

    said = domain.ask("client", "disconnect", engine.name)
    assert (said["instance_id"], said["pid"], said["killed"]) == (engine.name, engine.pid, False)

    refused = engine("put", key="new", size=100)
    assert refused.status == FENCED and "fenced" in refused.detail and "connect again" in refused.detail
    row = domain.clients()[engine.name]
    assert row["state"] == "QUARANTINED" and row["quarantined_bytes"] >= 64 * KIB
    # Its key pins end; its view and its page stay its own for as long as its process may look at them.
    assert other("remove", key="k").status == OK
    assert engine("verify").right
    assert other.good("put_many", prefix="fill", count=500, size=60_000).stored == 500
    assert engine("verify").right

    engine.good("close")
    engine.connect()
    assert engine.good("get", key="fill499").right
    engine.kill()
    wait_until(lambda: set(domain.clients()) == {other.name}, "its slots are free")
    domain.check_clean()


def test_a_stopped_client_wakes_up_fenced(domain):
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("alloc", size=100)
    engine.signal(signal.SIGSTOP)
    wait_until(lambda: all_stopped(engine.pid), "it stands")
    domain.ask("client", "disconnect", engine.name)
    assert domain.clients()[engine.name]["state"] == "QUARANTINED"
    domain.restart()
    assert domain.clients()[engine.name]["state"] == "QUARANTINED"
    assert domain.page_counts()["quarantined"] >= 1
    engine.signal(signal.SIGCONT)
    wait_until(lambda: engine("ping").status == FENCED, "the slow path says that it was fenced")
    refused = engine("put", key="k", size=100)
    assert refused.status == FENCED and "fenced" in refused.detail
    engine.kill()
    wait_until(domain.nothing_held, "what it held is back")


def test_kill_brings_everything_back(domain):
    other = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    engine.good("pin", key="k")
    engine.good("alloc", size=100)
    assert other("remove", key="k").status == PINNED
    engine.signal(signal.SIGSTOP)  # also a client that does not listen
    assert domain.ask("client", "disconnect", "--kill", engine.name)["killed"]
    assert engine.process.wait(10) == -signal.SIGKILL
    wait_until(lambda: set(domain.clients()) == {other.name}, "it is swept")
    assert domain.page_counts()["reserved"] == 0
    other.good("remove", key="k")


def test_names_and_slots(domain):
    one = domain.engine("no_claim", id="twin")
    two = domain.engine("no_claim", id="twin")
    ended = domain.maructl("client", "disconnect", "twin")
    slots = [row["slot"] for row in domain.ask("clients")["clients"] if not row["is_daemon"]]
    assert ended.code == 1 and all(f"slot:{slot}" in ended.err for slot in slots), ended
    assert one("exists", key="k").status != FENCED and two("exists", key="k").status != FENCED
    ended = domain.maructl("client", "disconnect", f"slot:{slots[1]}")
    assert ended.code == 0 and "twin" in ended.text, ended
    wait_until(lambda: two("exists", key="k").status == FENCED, "the second is fenced")
    assert one("exists", key="k").status != FENCED


@pytest.mark.parametrize("words, code", [(["nobody"], 1), (["slot:1"], 1), ([], 2), (["--kill"], 2), (["a", "b"], 2)])
def test_who_is_not_there(domain, words, code):
    engine = domain.engine("no_claim")
    ended = domain.maructl("client", "disconnect", *words)
    assert ended.code == code and ended.err + ended.text, ended
    if words == ["slot:1"]:  # the daemon's own
        assert "no client" in ended.err
    assert engine("exists", key="k").status != FENCED


def test_other_users_may_not_have_it_killed(domain):
    """The daemon lends nobody its right to kill: here it is root's, and the asker is nobody in particular."""
    engine = domain.engine("no_claim")
    for path in (domain.socket, domain.folder):
        path.chmod(0o777)
    ended = domain.maructl("client", "disconnect", "--kill", engine.name, user=65534)
    assert ended.code == 1 and "belongs to user" in ended.err, ended
    assert engine.alive() and engine("exists", key="k").status != FENCED
