"""Pools that are added, drained and removed while clients work: what they read, where it goes, what a death leaves."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import harness
import pytest
from growing import GrowingDomain, fill, grown, in_pool, read, writer
from harness import MISS, OK, wait_until
from test_offline import offline, scribble
from test_repair import places_of


@pytest.fixture
def growing(make_domain):
    return make_domain(kind=GrowingDomain)


def test_who_was_connected_before_reads_and_writes_the_new_pool(growing):
    engine, reader, name = grown(growing)
    there = in_pool(growing, name)
    assert len(there) >= 50, "the new pool was not used"
    answers = read(reader, there)
    assert all(answer.status == OK and answer.right for answer in answers.values())
    assert all(answer.status == OK for answer in read(reader, range(120)).values()), "growth evicted something"
    assert growing.pools()[name]["state"] == "active"
    growing.check_clean()


def test_a_reader_that_was_stopped_maps_what_it_meets(growing):
    """It has not read what it was told: the page's pool is asked for by whoever meets it."""
    reader = growing.engine("no_claim")
    engine = writer(growing)
    reader.signal(signal.SIGSTOP)
    name = growing.add("b")
    fill(engine, 0, 300)
    there = in_pool(growing, name)
    assert there
    reader.signal(signal.SIGCONT)
    assert all(answer.status == OK and answer.right for answer in read(reader, there).values())


def test_what_is_in_a_pool_that_drains_stays_and_nothing_goes_in(growing):
    engine, reader, name = grown(growing)
    before = in_pool(growing, name)
    growing.ask("pool", "drain", name)
    assert growing.pools()[name]["state"] == "draining"
    assert all(answer.status == OK and answer.right for answer in read(reader, before).values())
    fill(engine, 5000, 300)
    new = [number for number in in_pool(growing, name) if number >= 5000]
    assert new == [], f"{len(new)} objects went into a pool that drains"
    growing.check_clean()


def test_remove_evicts_what_nobody_holds_and_gives_the_memory_back(growing):
    engine, reader, name = grown(growing)
    there = in_pool(growing, name)
    refused = growing.maructl("pool", "remove", name)
    assert refused.code == 1 and "not empty" in refused.err and "pool drain" in refused.err, refused
    assert growing.ask("pool", "remove", "-y", name)["removed"] is True
    assert name not in growing.pools()
    assert not growing.file_of(name).exists()
    assert all(answer.status == MISS for answer in read(reader, there).values())
    mapped = lambda engine: name in pathlib.Path(f"/proc/{engine.pid}/maps").read_text()
    wait_until(lambda: not mapped(engine) and not mapped(reader), "clients have let go of the pool")
    fill(engine, 7000, 50)
    growing.check_clean()
    # Its units are another pool's now.
    other = growing.add("c")
    fill(engine, 8000, 200)
    there = in_pool(growing, other)
    assert there and all(answer.right for answer in read(reader, there).values())
    growing.check_clean()


def test_a_pinned_object_keeps_its_pool_and_says_by_whom(growing):
    engine, reader, name = grown(growing)
    there = in_pool(growing, name)
    reader.good("retrieve", key=f"k{there[0]}")
    refused = growing.maructl("pool", "remove", "-y", name)
    assert refused.code == 1 and reader.name in refused.err and "1 objects" in refused.err, refused
    assert reader("verify").right
    assert growing.pools()[name]["state"] == "draining"
    reader.good("release")
    assert growing.ask("pool", "remove", "-y", name)["removed"] is True
    growing.check_clean()


def test_a_drain_is_called_back(growing):
    engine, reader, name = grown(growing)
    there = in_pool(growing, name)
    assert "is not draining (active)" in refused(growing, "drain", "--cancel", name)
    assert "control region" in refused(growing, "drain", "--cancel", "test")
    assert "there is no pool" in refused(growing, "drain", "--cancel", "nobody")
    growing.ask("pool", "drain", name)
    fill(engine, 5000, 100)
    assert not [number for number in in_pool(growing, name) if number >= 5000]
    assert growing.ask("pool", "drain", "--cancel", name)["state"] == "active"
    assert growing.pools()[name]["state"] == "active"
    for number in there[:40]:
        engine.good("remove", key=f"k{number}")
    fill(engine, 6000, 300)
    assert [number for number in in_pool(growing, name) if number >= 6000], "nothing goes into the pool again"
    assert all(answer.right for answer in read(reader, in_pool(growing, name)).values())
    # Of a daemon that was started while it drained, and once more by one that was started after.
    growing.ask("pool", "drain", name)
    growing.restart()
    growing.ask("pool", "drain", "--cancel", name)
    growing.restart()
    assert growing.pools()[name]["state"] == "active"
    fill(engine, 7000, 300)
    assert [number for number in in_pool(growing, name) if number >= 7000]
    assert "is not draining" in refused(growing, "drain", "--cancel", name)
    growing.check_clean()


def big(make_domain):
    """With room for a pool that takes long to make: 4 GiB that are reserved, if this machine has them twice."""
    free = os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize
    domain = make_domain(kind=GrowingDomain, settings={"control": {"max_pool_bytes": "5GiB", "region_size": "2MiB",
                                                                   "max_objects": 4096}})
    return domain, ("4GiB" if free > 6 * 2**30 else f"{free // 2 // 2**20}MiB")


def begin_to_add(domain, name, size):
    """Returns when the file is there, and is being made."""
    asked = subprocess.Popen([harness.MARUCTL, "--socket", domain.socket, "pool", "add", f"shm:{name}:{size}"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    wait_until(lambda: domain.file_of(name).exists() or asked.poll() is not None, "the file is there")
    return asked


def test_a_large_pool_is_made_beside_what_is_served(make_domain):
    domain, size = big(make_domain)
    engine = writer(domain)
    fill(engine, 0, 20)
    name, other = domain.name("big"), domain.name("c")
    began = time.monotonic()
    asked = begin_to_add(domain, name, size)
    waiting = subprocess.Popen([harness.MARUCTL, "--socket", domain.socket, "pool", "add", f"shm:{other}:16MiB"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    answered = []
    while asked.poll() is None:
        at = time.monotonic()
        late = domain.engine("no_claim")
        assert late("get", key="k3").right
        late.quit()
        answered.append(time.monotonic() - at)
    took = time.monotonic() - began
    assert asked.returncode == 0, asked.stdout.read()
    # Had the loop waited for the memory, the first of them would have, too.
    assert len(answered) >= 3 and min(answered) < took / 3, (answered, took)
    assert waiting.wait(20) == 0, waiting.stdout.read()
    pools = domain.pools()
    assert pools[name]["state"] == "active" and pools[other]["state"] == "active"
    domain.check_clean()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_daemon_that_ends_while_it_makes_a_large_pool_leaves_nothing(make_domain, how):
    domain, size = big(make_domain)
    engine = writer(domain)
    fill(engine, 0, 20)
    name = domain.name("big")
    asked = begin_to_add(domain, name, size)
    domain.process.send_signal(how)
    domain.process.wait(30)
    asked.wait(20)
    if how == signal.SIGTERM:
        assert not domain.file_of(name).exists(), "an orderly end leaves the file"
    domain.start()
    assert name not in domain.pools() and not domain.file_of(name).exists()
    assert all(answer.right for answer in read(engine, range(20)).values())
    assert domain.add("big") == name
    domain.check_clean()


def test_who_connects_after_a_removal_keeps_no_units(growing):
    engine, reader, name = grown(growing)
    assert growing.ask("pool", "remove", "-y", name)["removed"] is True
    late = growing.engine("no_claim")
    other = growing.name("c")
    wait_until(lambda: growing.maructl("pool", "add", f"shm:{other}:100MiB").code == 0, "the units are free again")
    fill(engine, 9000, 200)
    there = in_pool(growing, other)
    assert there and all(answer.right for answer in read(late, there).values())
    growing.check_clean()


def test_a_restart_keeps_added_pools_and_goes_on_with_a_drain(growing):
    engine, reader, name = grown(growing)
    there = in_pool(growing, name)
    growing.restart()
    assert growing.pools()[name]["state"] == "active"
    assert all(answer.right for answer in read(growing.engine("no_claim"), there).values())
    growing.ask("pool", "drain", name)
    growing.restart()
    assert growing.pools()[name]["state"] == "draining"
    fill(engine, 5000, 100)
    assert [number for number in in_pool(growing, name) if number >= 5000] == []
    assert growing.ask("pool", "remove", "-y", name)["removed"] is True
    assert growing.stop() == 0
    growing.start()
    assert name not in growing.pools() and not growing.file_of(name).exists()
    assert engine("put", key="after", id=1, size=1000).status == OK
    growing.check_clean()


def test_a_client_meets_a_new_pool_while_no_daemon_runs(growing):
    """A miss with a reason, never a crash; it is found when the daemon is back."""
    reader = growing.engine("no_claim", timeout=500)
    engine = writer(growing)
    reader.signal(signal.SIGSTOP)
    name = growing.add("b")
    fill(engine, 0, 300)
    there = in_pool(growing, name)
    growing.kill()
    reader.signal(signal.SIGCONT)
    # What lies in its socket may still reach it; both are right answers.
    answer = reader("get", key=f"k{there[0]}")
    assert answer.status in (OK, MISS), answer
    growing.start()
    wait_until(lambda: reader("get", key=f"k{there[0]}").status == OK, "the object is found again")


def test_reload_adds_what_the_config_lists_and_says_what_stays(growing):
    name = growing.name("b")
    growing.config_pools.append({"name": name, "kind": "shm", "size": "16MiB", "prefault": "none"})
    growing.write_config()
    growing.process.send_signal(signal.SIGHUP)
    wait_until(lambda: name in growing.pools(), "the pool of the config is there")
    assert growing.ask("rescan") == {"added": [], "refused": []}
    growing.config_pools[0]["size"] = "32MiB"
    growing.write_config()
    growing.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "[[pool]] of a pool that is in use has changed" in growing.log_tail(),
               "the change that is not made is named")
    # Removed, it comes back with a restart, and the log says why.
    growing.config_pools[0]["size"] = "16MiB"
    growing.write_config()
    said = growing.maructl("pool", "remove", "-y", name)
    assert said.code == 0 and "still lists it" in said.text, said
    assert name not in growing.pools()
    growing.restart()
    assert name in growing.pools() and "was removed at run time, and the config still lists it" in growing.log_tail()


def test_sparse_pool_beyond_200_gib(make_domain):
    domain = make_domain(kind=GrowingDomain, pool="64MiB", settings={"control": {"max_pool_bytes": "300GiB",
                                                                   "region_size": "8MiB", "max_objects": 4096}})
    name = domain.name("big")
    domain.config_pools.append({"name": name, "kind": "shm", "size": "210GiB", "reserve": False,
                                "hugepages": "never", "prefault": "none"})
    domain.write_config()
    domain.process.send_signal(signal.SIGHUP)
    wait_until(lambda: domain.pools().get(name, {}).get("state") == "active", "the large pool is there", within_s=20)
    engine = writer(domain)
    fill(engine, 0, 1200)
    assert in_pool(domain, name)
    domain.check_clean()


def refused(domain, *words):
    ended = domain.maructl("pool", *words)
    assert ended.code in (1, 2) and ended.err.startswith("maructl: "), ended
    return ended.err


def test_bad_input_is_refused_and_changes_nothing(growing):
    before = growing.pools()
    assert "not a kind of pool" in refused(growing, "add", "tape:x:1GiB")
    assert "shm:NAME:SIZE" in refused(growing, "add", "shm")
    assert "absolute path" in refused(growing, "add", "fsdax:here:1GiB")
    assert "below 4 KiB" in refused(growing, "add", "shm:tiny:1")
    assert "no room for one unit" in refused(growing, "add", f"shm:{growing.name('s')}:64KiB")
    assert "control.max_pool_bytes" in refused(growing, "add", f"shm:{growing.name('l')}:1TiB")
    assert "is taken" in refused(growing, "add", "shm:test:16MiB")
    assert "/dev/dax77.0" in refused(growing, "add", "devdax:/dev/dax77.0")
    assert "goes on looking" in refused(growing, "add", "devdax:any")
    assert "there is no pool" in refused(growing, "drain", "nobody")
    assert "there is no pool" in refused(growing, "remove", "-y", "nobody")
    assert "control region" in refused(growing, "drain", "test")
    assert "control region" in refused(growing, "remove", "-y", "test")
    there = growing.name("there")
    growing.file_of(there).write_bytes(b"precious")
    assert "exists already" in refused(growing, "add", f"shm:{there}:16MiB")
    assert growing.file_of(there).read_bytes() == b"precious"
    assert growing.pools().keys() == before.keys()
    growing.check_clean()


def test_another_user_may_not_change_pools(growing):
    if os.geteuid() != 0:
        pytest.fail("this test needs root to become another user")
    os.chmod(growing.folder, 0o755)
    os.chmod(growing.socket, 0o666)
    ended = growing.maructl("pool", "add", f"shm:{growing.name('u')}:16MiB", user=65534)
    assert ended.code == 1 and "only root and the daemon's own user" in ended.err, ended


def test_a_shared_domain_takes_no_pool_at_run_time(make_domain):
    domain = make_domain(kind=GrowingDomain, start=False, settings={"control": {"coherence": "hardware"}})
    assert harness.run(harness.MARU, "--config", domain.config, "--format", "-y").code == 0
    domain.start()
    assert "shared by hosts" in refused(domain, "add", f"shm:{domain.name('b')}:16MiB")


def ended(domain):
    """The domain without a daemon and without clients, its pools as they lie there."""
    for engine in domain.engines:
        engine.quit()
    assert domain.stop() == 0


def test_a_repair_finds_the_pools_that_were_added(growing):
    engine, _, name = grown(growing)
    there = in_pool(growing, name)
    ended(growing)
    start, end = places_of(growing)["index"]
    scribble(growing, start, bytes(end - start))
    assert offline(growing, "check").code == 1
    report = offline(growing, "--json", "check", "--repair").json()
    assert report["repaired"] and report["clean"] and report["kept"] >= 120 + len(there) and not report["lost"], report
    growing.start()
    assert growing.pools()[name]["state"] == "active"
    reader = growing.engine("no_claim")
    assert all(answer.status == OK and answer.right for answer in read(reader, [*range(120), *there]).values())
    growing.check_clean()


def test_a_repair_without_an_added_pool_says_which(growing):
    engine, _, name = grown(growing)
    ended(growing)
    growing.file_of(name).unlink()
    start, end = places_of(growing)["index"]
    scribble(growing, start, bytes(end - start))
    refusal = offline(growing, "check", "--repair")
    assert refusal.code == 1 and name in refusal.err and "was not named" in refusal.err, refusal
    growing.expect_clean = False


def test_remove_deletes_added_pools_and_nothing_else(growing):
    """What lies under the name of one by now, and is not it, stays."""
    engine, _, name = grown(growing)
    other, linked = growing.add("c"), growing.add("d")
    ended(growing)
    growing.file_of(other).write_bytes(b"precious")
    target = growing.file_of(growing.name("target"))
    growing.file_of(linked).rename(target)
    growing.file_of(linked).symlink_to(target)
    removed = harness.run(harness.MARU, "--config", growing.config, "--remove", "-y")
    assert removed.code == 0 and str(growing.file_of(name)) in removed.text, removed
    assert not growing.pool_path.exists() and not growing.file_of(name).exists()
    assert not harness.pathlib.Path(f"{growing.file_of(name)}.lock").exists()
    assert growing.file_of(other).read_bytes() == b"precious" and target.exists()
    growing.expect_clean = False


def test_format_deletes_added_pools(growing):
    _, _, name = grown(growing)
    ended(growing)
    assert harness.run(harness.MARU, "--config", growing.config, "--format", "-y").code == 0
    assert not growing.file_of(name).exists()
    growing.start()
    assert name not in growing.pools() and growing.add("b") == name
    growing.check_clean()


def test_kill_the_daemon_at_any_time_of_add_drain_and_remove(growing):
    """Its successor finishes or undoes; what is active afterwards is whole, and no file is left without its pool."""
    engine = writer(growing)
    fill(engine, 0, 50)
    for round_ in range(12):
        name = growing.name(f"r{round_}")
        for words in (("add", f"shm:{name}:16MiB"), ("drain", name), ("remove", "-y", name)):
            asked = subprocess.Popen([harness.MARUCTL, "--socket", growing.socket, "pool", *words],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                asked.wait(0.001 * round_)
            growing.kill()
            asked.wait(20)
            growing.start()
            state = growing.pools().get(name, {}).get("state")
            assert state in (None, "active", "draining"), state
            assert growing.file_of(name).exists() == (state is not None), (words, state)
        if name in growing.pools():
            assert growing.ask("pool", "remove", "-y", name)["removed"] is True
        assert engine("put", key=f"round{round_}", id=1, size=1000).status == OK
        growing.check_clean()
    assert all(answer.right for answer in read(engine, range(50)).values())


def test_a_killed_client_does_not_keep_the_units(growing):
    """Stopped before it let go, then killed: its slot is swept, and the units are free again."""
    engine, reader, name = grown(growing)
    reader.signal(signal.SIGSTOP)
    assert growing.ask("pool", "remove", "-y", name)["removed"] is True
    other = growing.name("c")
    size = growing.pools()["test"]["units"] and "100MiB"
    waiting = growing.maructl("pool", "add", f"shm:{other}:{size}")
    assert waiting.code == 1 and "slot:" in waiting.err, waiting
    reader.signal(signal.SIGKILL)
    wait_until(lambda: growing.maructl("pool", "add", f"shm:{other}:{size}").code == 0, "the units are free again")
    growing.check_clean()
