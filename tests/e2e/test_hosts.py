"""Two hosts on one domain: two daemons, each with a socket, a lock file and a name of its own, on the same memory.

Here both run on one machine: the second one's pool path is another name (a hard link) of the first one's file, so that
nothing but the memory is shared. tests/vm does the same with two kernels on one DAX device."""

import os
import signal
import time

import pytest
from harness import FENCED, KIB, MARU, MIB, MISS, OK, PINNED, run, wait_until
from test_eviction import MARKS, free_percent, settled

GRACE_S = 3


@pytest.fixture
def host(make_domain):
    """Makes a host on the memory of `of`, or on new memory that it formats."""

    def make(name, of=None, start=True, coherence="hardware"):
        made = make_domain(start=False, settings={"daemon": {"host_id": name}, "host": {"grace": f"{GRACE_S}s"},
                                                  "control": {"coherence": coherence, "max_hosts": 4}})
        made.engine_name = f"{name}-engine"
        if of is not None:
            os.link(of.pool_path, made.pool_path)
        elif coherence != "local":
            assert run(MARU, "--config", made.config, "--format", "-y").code == 0
        return made.start() if start else made

    return make


@pytest.fixture
def hosts(host):
    left = host("left")
    return left, host("right", of=left)


def rows(domain):
    return {row["host_id"]: row for row in domain.ask("hosts")["hosts"]}


def silence(domain):
    """Stops a host: its daemon and its engines stand still."""
    for engine in domain.engines:
        engine.signal(signal.SIGSTOP)
    domain.pause()


def wake(domain):
    domain.resume()
    for engine in domain.engines:
        engine.signal(signal.SIGCONT)


def test_a_local_domain_refuses_a_second_host_by_name(host):
    left = host("left", coherence="local")
    left.engine(pool=8 * MIB, page=64 * KIB).good("put", key="k", id=1, size=1000)
    right = host("right", of=left, coherence="local", start=False)
    right.expect_clean = False
    ended = run(MARU, "--config", right.config)
    assert ended.code == 3
    assert "local to host 'left'" in ended.err and "'right'" in ended.err and "hardware" in ended.err
    assert left.engine("no_claim").good("get", key="k").id == 1


def test_blank_memory_of_several_hosts_is_formatted_on_request_only(host):
    left = host("left", start=False)
    assert run(MARU, "--config", left.config, "--remove", "-y").code == 0
    ended = run(MARU, "--config", left.config)
    assert ended.code == 4 and "maru --format" in ended.err
    left.expect_clean = False


def test_what_one_host_stores_the_other_reads_in_place(hosts):
    left, right = hosts
    writer = left.engine(pool=8 * MIB, page=64 * KIB)
    reader = right.engine("no_claim")
    place = writer.good("alloc", size=60_000)
    writer.good("write", key="chunk", id=77, size=60_000)
    writer.good("store", key="chunk", size=60_000)
    view = reader.good("retrieve", key="chunk")
    assert (view.region, view.page) == (place.region, place.page)
    assert view.right and view.id == 77
    assert writer("remove", key="chunk").status == OK  # a lease does not stop a deletion, only the reuse
    assert right.page_counts()["retired"] == 1
    reader.good("release")
    writer.good("free")
    assert reader("retrieve", key="chunk").status == MISS
    assert {name: row["state"] for name, row in rows(left).items()} == {"left": "ACTIVE", "right": "ACTIVE"}
    seen = [{name: (row["host"], row["clients"], row["own"]) for name, row in rows(host).items()} for host in hosts]
    assert seen == [{"left": (0, 1, True), "right": (1, 1, False)}, {"left": (0, 1, False), "right": (1, 1, True)}]


def test_each_host_counts_removes_pins_and_evicts_for_the_other(hosts):
    left, right = hosts
    ours, theirs = left.engine(pool=8 * MIB, page=64 * KIB), right.engine(pool=8 * MIB, page=64 * KIB)
    ours.good("put", key="a", id=1, size=1000)
    theirs.good("put", key="b", id=2, size=1000)
    assert ours.good("get", key="b").id == 2 and theirs.good("get", key="a").id == 1
    theirs.good("pin", key="a")
    assert ours("remove", key="a").status == PINNED
    theirs.good("unpin", key="a")
    assert ours("remove", key="a").status == OK
    assert theirs("get", key="a").status == MISS
    # Far more than the domain holds, from both: each evicts what either has stored.
    ours.good("put_many", prefix="l", count=2000, size=60_000)
    theirs.good("put_many", prefix="r", count=2000, size=60_000)
    assert theirs.good("get", key="r1999").right
    left.check_clean()
    right.check_clean()


def test_one_host_keeps_memory_free_for_all_and_the_next_takes_over(hosts):
    left, right = hosts
    for domain in hosts:
        domain.settings.update(MARKS)
        domain.write_config()
        domain.process.send_signal(signal.SIGHUP)
    ours, theirs = left.engine(pool=8 * MIB, page=64 * KIB), right.engine(pool=8 * MIB, page=64 * KIB)
    ours.good("put_many", prefix="l", count=1000, size=60_000)
    theirs.good("put_many", prefix="r", count=1000, size=60_000)
    wait_until(lambda: free_percent(right) >= 40, "as much is free as high_free says")
    before = settled(right)
    assert before["watermark"] > 0 and free_percent(right) < 50, "two hosts do not evict twice as much"
    assert "ahead of demand" in left.log_tail(1 << 20) and "ahead of demand" not in right.log_tail(1 << 20)

    silence(left)
    wait_until(lambda: rows(right)["left"]["state"] == "FENCED", "the first host is fenced", within_s=GRACE_S + 20)
    theirs.good("put_many", prefix="s", count=1000, size=60_000)
    wait_until(lambda: settled(right)["watermark"] > before["watermark"] and free_percent(right) >= 40,
               "the other evicts now")
    assert "ahead of demand" in right.log_tail(1 << 20)
    wake(left)
    wait_until(lambda: rows(right)["left"]["state"] == "ACTIVE", "it is back", within_s=20)


def test_a_client_s_death_is_its_own_host_s_to_sweep(hosts):
    left, right = hosts
    survivor, victim = left.engine(pool=8 * MIB, page=64 * KIB), right.engine(pool=8 * MIB, page=64 * KIB)
    victim.good("put", key="k", id=5, size=1000)
    victim.good("alloc", size=1)
    victim.good("retrieve", key="k")
    victim.kill()
    wait_until(lambda: set(left.clients()) == {survivor.name}, "the slot is free")
    assert survivor.good("get", key="k").id == 5
    counts = left.page_counts()
    assert counts["reserved"] == 0 and counts["pinned"] == 0
    left.check_clean()


def test_a_daemon_that_restarts_finds_its_own_clients_and_leaves_the_others_alone(hosts):
    left, right = hosts
    ours, theirs = left.engine(pool=8 * MIB, page=64 * KIB), right.engine(pool=8 * MIB, page=64 * KIB)
    theirs.good("put", key="k", id=5, size=1000)
    theirs.good("alloc", size=1)
    left.restart()
    assert theirs.good("get", key="k").id == 5
    theirs.good("free")
    ours.good("put", key="l", id=6, size=1000)
    assert theirs.good("get", key="l").id == 6
    assert rows(right)["left"]["state"] == "ACTIVE"


def test_a_silent_host_is_fenced_and_comes_back(hosts):
    left, right = hosts
    survivor, slow = left.engine(pool=8 * MIB, page=64 * KIB), right.engine(pool=8 * MIB, page=64 * KIB)
    slow.good("put", key="published", id=1, size=1000)
    slow.good("alloc", size=1)
    silence(right)
    wait_until(lambda: rows(left)["right"]["state"] == "FENCED", "the silent host is fenced", within_s=GRACE_S + 5)

    # What it published stays, what it held is not given to anybody.
    assert survivor.good("get", key="published").id == 1
    wait_until(lambda: left.clients()[slow.name]["state"] == "QUARANTINED", "its client is quarantined")
    assert left.page_counts()["quarantined"] == 1
    assert any("fenced" in warning["text"] for warning in left.status()["warnings"])
    survivor.good("put_many", prefix="l", count=2000, size=60_000)
    assert left.page_counts()["quarantined"] == 1

    wake(right)
    wait_until(lambda: rows(left)["right"]["state"] == "ACTIVE", "the host is back")
    assert slow("put", key="late", id=2, size=1000).status == FENCED
    assert survivor("get", key="late").status == MISS
    slow("close")
    slow.connect(pool=8 * MIB, page=64 * KIB)
    slow.good("put", key="again", id=3, size=1000)
    assert survivor.good("get", key="again").id == 3
    wait_until(lambda: left.page_counts()["quarantined"] == 0, "what it held is back")
    assert "was fenced" in right.log_tail(1 << 20)


def test_a_dead_host_is_released_by_an_administrator(hosts):
    left, right = hosts
    survivor, lost = left.engine(pool=8 * MIB, page=64 * KIB), right.engine(pool=8 * MIB, page=64 * KIB)
    lost.good("put", key="published", id=1, size=1000)
    lost.good("alloc", size=1)
    number = str(rows(left)["right"]["host"])
    refused = left.maructl("host", "release", number, "-y")
    assert refused.code == 1 and "ACTIVE" in refused.err
    silence(right)
    wait_until(lambda: rows(left)["right"]["state"] == "FENCED", "the silent host is fenced", within_s=GRACE_S + 5)
    asked = left.maructl("host", "release", number)  # no terminal to ask on
    assert asked.code == 1 and "-y" in asked.err
    # The host's machine is gone for good: only that makes the administrator's word true.
    lost.dispose()
    right.kill()
    assert left.maructl("host", "release", "17", "-y").code == 1
    released = left.maructl("host", "release", number, "-y")
    assert released.code == 0, released
    assert "right" not in rows(left)
    counts = left.page_counts()
    assert counts["quarantined"] == 0 and counts["reserved"] == 0
    assert survivor.good("get", key="published").id == 1
    left.check_clean()


def test_another_machine_with_the_same_host_id_is_refused_while_the_first_one_lives(hosts, host):
    left, _right = hosts
    # Another boot id than the one that this kernel tells: as if the entry were another machine's.
    twin = host("left", of=left, start=False)
    twin.expect_clean = False
    pretended = twin.folder / "boot_id"
    pretended.write_text("01234567-89ab-cdef-0123-456789abcdef\n")
    command = f"mount --bind {pretended} /proc/sys/kernel/random/boot_id && exec {MARU} --config {twin.config}"
    ended = run("unshare", "--mount", "sh", "-c", command)
    assert ended.code == 1
    assert "01234567-89ab-cdef-0123-456789abcdef" in ended.err and "daemon.host_id" in ended.err
    assert rows(left)["left"]["state"] == "ACTIVE"


def test_a_restarted_machine_takes_its_entry_over_once_it_was_silent(hosts):
    left, right = hosts
    lost = right.engine(pool=8 * MIB, page=64 * KIB)
    lost.good("put", key="k", id=4, size=1000)
    lost.good("alloc", size=1)
    lost.kill()
    right.kill()
    pretended = right.folder / "boot_id"
    pretended.write_text("01234567-89ab-cdef-0123-456789abcdef\n")
    started = time.monotonic()
    right.wrapper = ["unshare", "--mount", "sh", "-c",
                     f'mount --bind {pretended} /proc/sys/kernel/random/boot_id && exec "$@"', "sh"]
    right.start()
    assert time.monotonic() - started > GRACE_S - 1.5
    assert set(left.clients()) == set()
    assert right.engine("no_claim").good("get", key="k").id == 4
    left.check_clean()


def test_format_is_refused_while_another_host_serves(hosts):
    left, right = hosts
    assert right.stop() == 0
    ended = run(MARU, "--config", right.config, "--format", "-y")
    assert ended.code == 1 and "host 'left'" in ended.err
    assert rows(left)["left"]["state"] == "ACTIVE"
    right.start()


def test_memory_formatted_anew_is_noticed(hosts):
    left, right = hosts
    client = left.engine(pool=8 * MIB, page=64 * KIB)
    client.good("put", key="k", id=4, size=1000)
    silence(left)
    wait_until(lambda: rows(right)["left"]["state"] == "FENCED", "the silent host is fenced", within_s=GRACE_S + 5)
    assert right.stop() == 0
    refused = run(MARU, "--config", right.config, "--format", "-y")
    assert refused.code == 1 and "of host 'left'" in refused.err and "maructl host release" in refused.err
    right.start()
    assert right.maructl("host", "release", str(rows(right)["left"]["host"]), "-y").code == 0
    assert right.stop() == 0
    ended = run(MARU, "--config", right.config, "--format", "-y")
    assert ended.code == 0, ended
    wake(left)
    assert left.process.wait(20) == 1
    assert "formatted the memory anew" in left.log_tail()
    assert client("get", key="k").status == FENCED
    left.start()
    assert client("get", key="k").status == FENCED
    client("close")
    client.connect(pool=8 * MIB, page=64 * KIB)
    assert client("get", key="k").status == MISS
