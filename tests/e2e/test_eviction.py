"""Eviction ahead of demand, and `maructl evict`."""

import json
import os
import pty
import subprocess
import time

import pytest
import raw
from harness import KIB, MARUCTL, MIB, OK, wait_until
from scraping import METRICS, Scrape

PAGE = 64 * KIB
MARKS = {"eviction": {"low_free": "20%", "high_free": "40%"}}
NO_MARKS = {"eviction": {"low_free": "0%"}}


def free_percent(domain):
    bytes_ = domain.status()["bytes"]
    return 100 * (bytes_["unclaimed"] + bytes_["free"]) / bytes_["total"]


def evictions(domain):
    return domain.status()["evictions"]


def settled(domain, still_s=1.5):
    """The evictions, once they have stood still for longer than the daemon waits between two looks."""
    seen, deadline = evictions(domain), time.monotonic() + still_s
    while time.monotonic() < deadline:
        now = evictions(domain)
        if now != seen:
            seen, deadline = now, time.monotonic() + still_s
        time.sleep(0.1)
    return seen


def filled(domain, count=150, prefix="k", **connect):
    engine = domain.engine(pool=4 * MIB, page=PAGE, **connect)
    assert engine.good("put_many", prefix=prefix, count=count, size=PAGE - 64).stored == count
    return engine


def present(engine, count, prefix="k"):
    return engine.good("exists_batch", prefix=prefix, count=count).statuses.count(OK)


# -- ahead of demand


def test_free_memory_is_kept_between_the_marks(make_domain):
    domain = make_domain(pool="16MiB", settings={**MARKS, **METRICS})
    engine = filled(domain, 1000)
    wait_until(lambda: free_percent(domain) >= 40, "as much is free as high_free says")
    done = settled(domain)
    assert done["watermark"] > 10 and done["admin"] == 0, done
    assert free_percent(domain) < 55, "not much more than high_free"
    assert engine.good("get", key="k999").right
    scrape = Scrape(domain)
    for reason in ("demand", "watermark", "admin"):
        assert scrape.value("maru_evictions_total", reason=reason) == done[reason]
    assert sum(done.values()) == domain.status()["counters"]["evictions"]


def test_above_the_low_mark_nothing_goes(make_domain):
    domain = make_domain(pool="16MiB", settings={"eviction": {"low_free": "20%", "high_free": "90%"}})
    engine = filled(domain, 100)
    assert free_percent(domain) > 20
    assert settled(domain) == {"demand": 0, "watermark": 0, "admin": 0}
    assert present(engine, 100) == 100


def test_the_policy_none_and_a_low_mark_of_zero_evict_nothing_ahead(make_domain):
    for eviction in ({"policy": "none", "low_free": "50%", "high_free": "60%"}, {"low_free": "0%"}):
        domain = make_domain(pool="16MiB", settings={"eviction": eviction})
        engine = filled(domain, 200)
        assert free_percent(domain) < 30
        assert settled(domain)["watermark"] == 0
        assert present(engine, 200) == 200


def test_pins_and_views_stay_and_one_warning_says_so(make_domain):
    domain = make_domain(pool="16MiB", settings=NO_MARKS)
    engine = filled(domain, 180)
    for number in range(90):
        engine.good("pin", key=f"k{number}")
        engine.good("retrieve", key=f"k{90 + number}", v=f"v{number}")
    domain.settings = {"eviction": {"low_free": "60%", "high_free": "70%"}}
    domain.write_config()
    domain.process.send_signal(1)
    said = lambda: [line for line in domain.log_tail(1 << 20).splitlines() if "nothing can be evicted" in line]
    wait_until(said, "it says that it is stuck")
    engine.good("put", key="more", id=1, size=100)  # work: it looks again
    settled(domain)
    assert len(said()) == 1 and "pinned" in said()[0] and " warning " in said()[0], said()
    assert present(engine, 180) == 180
    assert all(engine.good("verify", v=f"v{number}").right for number in range(90))


def test_marks_that_change_at_run_time_count_at_once(make_domain):
    domain = make_domain(pool="16MiB", settings=NO_MARKS)
    engine = filled(domain, 220)
    assert settled(domain)["watermark"] == 0
    domain.settings = MARKS
    domain.write_config()
    domain.process.send_signal(1)
    wait_until(lambda: free_percent(domain) >= 40, "the new marks count")
    assert 0 < present(engine, 220) < 220


def test_the_policy_changes_at_run_time(make_domain):
    domain = make_domain(pool="16MiB", settings=NO_MARKS)
    engine = filled(domain, 300)
    domain.settings = {"eviction": {"policy": "none"}}
    domain.write_config()
    domain.process.send_signal(1)
    wait_until(lambda: engine("put_many", prefix="n", count=300, size=PAGE - 64).status != OK, "stores are refused")


# -- maructl evict


@pytest.fixture
def still(make_domain):
    """A domain that evicts nothing unasked, with two namespaces."""
    domain = make_domain(pool="32MiB", settings=NO_MARKS)
    domain.one = filled(domain, 60, "a", namespace="one")
    domain.two = filled(domain, 60, "b", namespace="two")
    return domain


def test_by_namespace(still):
    would = still.ask("evict", "--namespace", "one", "--dry-run")
    assert would == {"objects": 60, "bytes": 60 * PAGE, "pinned": {"objects": 0, "bytes": 0}, "dry_run": True}
    assert (present(still.one, 60, "a"), evictions(still)["admin"]) == (60, 0)
    still.one.good("pin", key="a7")
    still.one.good("retrieve", key="a9")
    done = still.ask("evict", "--namespace", "one", "-y")
    assert done == {"objects": 58, "bytes": 58 * PAGE, "pinned": {"objects": 2, "bytes": 2 * PAGE}, "dry_run": False}
    assert (present(still.one, 60, "a"), present(still.two, 60, "b")) == (2, 60)
    assert still.one.good("verify").right
    assert evictions(still) == {"demand": 0, "watermark": 0, "admin": 58}
    said = still.maructl("evict", "--namespace", "two", "-y")
    assert said.code == 0 and "evicted 60 objects, 3.8 MiB" in said.text, said


def test_by_bytes_what_was_read_goes_last(still):
    for number in range(20):
        still.two.good("get", key=f"b{number}")
        still.one.good("get", key=f"a{number}")
    done = still.ask("evict", "--bytes", f"{40 * PAGE - 1}", "-y")
    assert (done["objects"], done["bytes"]) == (40, 40 * PAGE)
    assert present(still.one, 20, "a") + present(still.two, 20, "b") == 40
    done = still.ask("evict", "--bytes", "1MiB", "--namespace", "two", "-y")
    assert done["bytes"] == MIB and present(still.one, 20, "a") == 20


def test_by_bytes_more_than_there_is(still):
    ended = still.maructl("--json", "evict", "--bytes", "1GiB", "-y")
    assert ended.code == 1 and "less than the 1.0 GiB" in ended.err, ended
    assert ended.json()["objects"] == 120
    assert present(still.one, 60, "a") + present(still.two, 60, "b") == 0


def test_by_age(still):
    wait_until(lambda: min(row["age_s"] for row in still.keys()) >= 3, "they have an age")
    still.one.good("put", key="young", id=1, size=100)
    assert still.ask("evict", "--older-than", "1h", "--dry-run")["objects"] == 0
    assert still.ask("evict", "--older-than", "3s", "-y")["objects"] == 120
    assert still.one("exists", key="young").status == OK


@pytest.mark.parametrize("words, code, said", [
    ([], 2, "say what goes"), (["--dry-run"], 2, "say what goes"), (["--bytes", "0"], 2, "--bytes"),
    (["--bytes", "much"], 2, "--bytes"), (["--older-than", "yesterday"], 2, "--older-than"),
    (["--older-than", "200d", "-y"], 1, "193 days"), (["--older-than", "100ms"], 2, "less than a second"),
    (["--namespace", "nobody", "-y"], 1, 'no namespace "nobody"'), (["--bytes", "1MiB"], 1, "say -y")],
    ids=lambda value: "_".join(value) or "nothing" if isinstance(value, list) else None)
def test_what_is_refused(still, words, code, said):
    ended = still.maructl("evict", *words)
    assert ended.code == code and said in ended.err, ended
    assert present(still.one, 60, "a") + present(still.two, 60, "b") == 120


@pytest.mark.parametrize("answer, code", [("y\n", 0), ("\n", 1)])
def test_it_asks(still, answer, code):
    terminal, other = pty.openpty()
    with subprocess.Popen([MARUCTL, "--socket", still.socket, "evict", "--namespace", "one"], stdin=other,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.write(terminal, answer.encode())
        _out, err = process.communicate(timeout=20)
    os.close(terminal)
    os.close(other)
    assert process.returncode == code and b"evicts 60 objects, 3.8 MiB. Go on? [y/N]" in err, err
    assert present(still.one, 60, "a") == (0 if code == 0 else 60)


def test_without_a_daemon(tmp_path):
    ended = subprocess.run([MARUCTL, "--socket", tmp_path / "none.sock", "evict", "--bytes", "1", "-y"], check=False,
                           capture_output=True, timeout=30)
    assert ended.returncode == 2 and b"no daemon" in ended.stderr


def ask_raw(peer, arguments):
    """One slice of an eviction."""
    kind, _, body = peer.ask(raw.ADMIN, raw.admin("evict", json.dumps(arguments)))
    assert kind == raw.ADMIN_ANSWER, body
    return json.loads(body[4:])


@pytest.mark.parametrize("answered", [False, True], ids=["in a slice", "between slices"])
def test_a_daemon_killed_while_it_evicts_loses_nothing_else(make_domain, answered):
    """What is pinned and what was not chosen stays right, the next daemon finds a sound domain, and maructl takes the
    rest."""
    count = 50_000
    domain = make_domain(pool="256MiB", settings={**NO_MARKS, "control": {"max_objects": 60_000}})
    chosen = domain.engine(pool=8 * MIB, page=4 * KIB, namespace="chosen")
    kept = domain.engine(pool=8 * MIB, page=4 * KIB)
    kept.good("put_many", prefix="kept", count=500, size=4000)
    chosen.good("put", key="pinned", id=7, size=4000)
    chosen.good("pin", key="pinned")
    chosen.good("retrieve", key="pinned")
    assert chosen.good("put_many", prefix="c", count=count, size=100).stored == count
    with raw.Peer(domain.socket, within_s=20) as peer:
        # Half of it: a single slice may be fast enough for all.
        asked = {"namespace": "chosen", "bytes": count // 2 * 4 * KIB}
        if answered:
            while (done := ask_raw(peer, asked))["objects"] == 0:
                asked["cursor"] = done["next"]
        else:
            assert peer.send(raw.frame(raw.ADMIN, raw.admin("evict", json.dumps(asked))))
            wait_until(lambda: present(chosen, count, "c") < count, "it has begun")
        domain.kill()
    domain.start()
    domain.check_clean()
    assert 0 < present(chosen, count, "c") < count, "a part has gone"
    assert all(kept.good("get", key=f"kept{number}").right for number in range(0, 500, 50))
    assert present(kept, 500, "kept") == 500
    assert domain.ask("evict", "--namespace", "chosen", "-y")["pinned"]["objects"] == 1
    assert present(chosen, count, "c") == 0
    assert chosen.good("verify").right
    assert chosen.good("get", key="pinned").right


def test_requests_do_not_wait_for_a_long_eviction(make_domain):
    domain = make_domain(pool="256MiB", settings={**NO_MARKS, "control": {"max_objects": 60_000}})
    engine = domain.engine(pool=8 * MIB, page=4 * KIB)
    assert engine.good("put_many", prefix="k", count=50_000, size=100).stored == 50_000
    with subprocess.Popen([MARUCTL, "--socket", domain.socket, "evict", "--bytes", "195MiB", "-y"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        pings = 0
        while process.poll() is None:
            assert engine.good("ping").took_ms < 500
            pings += 1
        out, err = process.communicate()
    assert process.returncode == 0 and b"evicted 49920 objects" in out, (out, err)
    assert pings > 0
