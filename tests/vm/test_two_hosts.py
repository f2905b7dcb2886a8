"""Two machines on one DAX device: two kernels, two daemons, one domain with coherence "hardware".

tests/e2e/test_hosts.py does the same with two daemons on one kernel; here nothing but the device is shared, and a
machine can stand still or lose its power as a whole."""

import pathlib
import subprocess

import pytest
from harness import FENCED, KIB, MARUCTL, MIB, MISS, OK, PINNED, wait_until
from jobs import dax_pool, header_of, is_on_device
from machine import Device

HERE = pathlib.Path(__file__).parent
DAX = "/dev/dax0.0"
CLIENT = {"pool": 8 * MIB, "page": 64 * KIB}
GRACE_S = 3


@pytest.fixture(name="memory", scope="module")
def fixture_memory(make_memory):
    return make_memory()


@pytest.fixture(name="guests", scope="module")
def fixture_guests(make_guests, memory):
    """Two guests that see the same memory as /dev/dax0.0."""
    return make_guests({"devices": [Device("hmem", memory)], "name": name} for name in ("a", "b"))


@pytest.fixture(name="host")
def fixture_host(guests, memory, make_domain):
    """Makes the daemon of a guest, not started; the device was blank when the test began."""
    memory.write(0, bytes(64 * MIB))

    def make(number, path=DAX, host_id=None, coherence="hardware", grace="30s"):
        guest = guests[number]
        if not guest.alive():
            guest.start()
        return make_domain(guest, dax_pool(path), start=False, settings={
            "daemon": {"host_id": host_id or guest.name}, "host": {"grace": grace},
            "eviction": {"low_free": "0%"},  # left to those who store
            "control": {"coherence": coherence, "max_hosts": 4, "key_pin_ttl": "0s"}})

    return make


@pytest.fixture(name="hosts")
def fixture_hosts(host):
    """A domain that guest a has formatted, and that guest b has joined by the UUID on the device."""
    return pair(host)


@pytest.fixture(name="quick_hosts")
def fixture_quick_hosts(host):
    """The same with a short grace, for tests in which a host falls silent."""
    return pair(host, grace=f"{GRACE_S}s")


def pair(host, **options):
    a = host(0, **options)
    formatted = a.maru("--format", "-y")
    assert formatted.code == 0, formatted
    a.start()
    b = host(1, path=f"uuid:{header_of(a.guest)['uuid']}", **options).start()
    return a, b


def rows(domain):
    return {row["host_id"]: row for row in domain.ask("hosts")["hosts"]}


def wait_fenced(watcher, name):
    wait_until(lambda: rows(watcher)[name]["state"] == "FENCED", f"host {name} is fenced", within_s=GRACE_S + 5)


# -- the words that the tables rest on -----------------------------------------------------------------------------


@pytest.fixture(name="words", scope="module")
def fixture_words(tmp_path_factory):
    program = tmp_path_factory.mktemp("words") / "words"
    subprocess.run(["cc", "-O2", "-static", "-o", program, HERE / "words.c"], check=True, timeout=60)
    return program


def test_each_sees_what_the_other_wrote(guests, memory):
    a, b = guests
    write = "import mmap, os; m = mmap.mmap(os.open('/dev/dax0.0', os.O_RDWR), 2 << 20); m[4096:4108] = b'written by a'"
    read = "import mmap, os; m = mmap.mmap(os.open('/dev/dax0.0', os.O_RDWR), 2 << 20); print(m[4096:4108])"
    a.good(["/usr/bin/python3", "-S", "-c", write])
    assert b.good(["/usr/bin/python3", "-S", "-c", read]) == "b'written by a'\n"
    assert memory.read(4096, 12) == b"written by a"


def test_no_update_of_a_word_is_lost(guests, memory, words):
    """What maru's fast path rests on; emulation breaks it when a guest can have one processor only (machine.py)."""
    rounds = 5_000_000
    memory.write(0, bytes(4096))
    running = [guest.popen([words, "/dev/dax0.0", rounds]) for guest in guests]
    retries = []
    for process in running:
        ended = process.communicate(within_s=300)
        assert ended.code == 0, ended
        retries.append(int(ended.text))
    assert int.from_bytes(memory.read(0, 8), "little") == 2 * rounds
    assert int.from_bytes(memory.read(64, 8), "little") == 2 * rounds
    assert sum(retries) > 0, "the two never met"


# -- one domain ----------------------------------------------------------------------------------------------------


def test_one_formats_the_other_joins_and_reads_the_same_bytes(host, memory):
    a = host(0)
    unasked = a.maru()
    assert unasked.code == 4 and "another host may be about to use it" in unasked.err and "maru --format" in unasked.err
    assert memory.read(0, 4096) == bytes(4096), "a daemon that was refused has written on the device"
    assert a.maru("--format", "-y").code == 0
    header = header_of(a.guest)
    a.start()
    b = host(1, path=f"uuid:{header['uuid']}").start()
    assert header_of(b.guest) == header
    assert a.status()["domain"]["uuid"] == b.status()["domain"]["uuid"] == header["domain"]

    writer, reader = a.engine(**CLIENT), b.engine("no_claim")
    is_on_device(a, writer)
    is_on_device(b, reader)
    place = writer.good("alloc", size=60_000)
    writer.good("write", key="chunk", id=77, size=60_000)
    writer.good("store", key="chunk", size=60_000)
    view = reader.good("retrieve", key="chunk")
    assert (view.region, view.page) == (place.region, place.page), "the same page, not a copy"
    assert view.right and view.id == 77
    # A lease of the other host does not stop a deletion, only the reuse of the page.
    assert writer("remove", key="chunk").status == OK
    assert a.page_counts()["retired"] == 1
    reader.good("release")
    assert reader("retrieve", key="chunk").status == MISS

    marker = b"these very bytes are on the device" * 10
    assert a.maructl("put", "marker", "-", given=marker).code == 0
    assert memory.read(0, memory.size).count(marker) == 1
    assert b.maructl("get", "marker").out == marker
    assert memory.read(0, memory.size).count(marker) == 1

    states = [{name: (row["state"], row["own"]) for name, row in rows(domain).items()} for domain in (a, b)]
    assert states == [{"a": ("ACTIVE", True), "b": ("ACTIVE", False)}, {"a": ("ACTIVE", False), "b": ("ACTIVE", True)}]


def test_a_second_formatter_is_refused(hosts):
    """While a host serves, by its signs of life; when none does, by the header that the first one wrote."""
    a, b = hosts
    assert b.stop() == 0
    while_served = b.maru("--format", "-y")
    assert while_served.code == 1 and "host 'a'" in while_served.err, while_served
    assert a.stop() == 0
    by_header = b.maru("--format", "-y")
    header = header_of(b.guest)
    assert by_header.code == 4, by_header
    assert header["domain"] in by_header.err and header["uuid"] in by_header.err
    assert f"maructl device clear {DAX}" in by_header.err
    a.start()
    b.start()
    assert a.status()["domain"]["uuid"] == header["domain"]


def test_clients_killed_on_both_sides_leave_nothing(hosts):
    a, b = hosts
    stayers = [domain.engine(**CLIENT) for domain in hosts]
    victims = [domain.engine(**CLIENT) for domain in hosts]
    for victim in victims:
        victim.good("put_many", prefix=victim.domain.guest.name, count=10, size=60_000)
        victim.good("alloc", size=1)
    for victim, other in zip(victims, "ba"):  # each holds what a client of the other host has stored
        victim.good("retrieve", key=f"{other}1")
        victim.good("pin", key=f"{other}2")
    for stayer, own in zip(stayers, "ab"):
        assert stayer("remove", key=f"{own}2").status == PINNED, "pinned from the other host"

    for victim in victims:
        victim.kill()

    for domain, stayer in zip(hosts, stayers):
        wait_until(lambda: len(domain.clients()) == 2, "both victims' slots are free")
        counts = domain.page_counts()
        assert (counts["reserved"], counts["pinned"], counts["quarantined"]) == (0, 0, 0), counts
    for stayer, own, other in zip(stayers, "ab", "ba"):
        assert stayer.good("get", key=f"{other}5").right
        assert stayer("remove", key=f"{other}2").status == OK, "deleted from the other side"
        assert stayer("remove", key=f"{own}1").status == OK
    a.check_clean()
    b.check_clean()


def test_each_evicts_what_either_stored(hosts):
    """Far more than the domain holds, from both at the same time."""
    a, b = hosts
    engines = [domain.engine(**CLIENT) for domain in hosts]
    for engine, prefix in zip(engines, "ab"):
        engine.send("put_many", prefix=prefix, count=4000, size=60_000)
    for engine in engines:
        answer = engine.answer(within_s=60)
        assert answer.status == OK, answer
    statistics = [engine.good("stats") for engine in engines]
    assert sum(each.evictions for each in statistics) > 3000, statistics
    for engine, other in zip(engines, "ba"):
        kept = engine("retrieve_batch", prefix=other, count=4000)
        assert kept.right and 0 < kept.statuses.count(OK) < 4000, "the other's chunks, as far as they are there"
    a.check_clean()
    b.check_clean()


# -- a machine falls silent ----------------------------------------------------------------------------------------


def test_a_machine_that_stands_still_is_fenced_and_comes_back(quick_hosts):
    a, b = quick_hosts
    survivor, slow = a.engine(**CLIENT), b.engine(**CLIENT)
    slow.good("put", key="published", id=1, size=60_000)
    slow.good("alloc", size=1)

    b.guest.stop()
    wait_fenced(a, "b")
    wait_until(lambda: a.clients()[slow.name]["state"] == "QUARANTINED", "its client is quarantined")
    # What it published stays, what it held is given to nobody, and the survivor works on.
    assert survivor.good("get", key="published").right
    survivor.good("put_many", prefix="a", count=100, size=60_000)
    assert a.page_counts()["quarantined"] == 1
    assert any("fenced" in warning["text"] for warning in a.status()["warnings"])

    b.guest.resume()
    wait_until(lambda: rows(a)["b"]["state"] == "ACTIVE", "the machine is back", within_s=20)
    refused = slow("put", key="late", id=2, size=1000)
    assert refused.status == FENCED and "close it and connect again" in refused.detail, refused
    assert survivor("get", key="late").status == MISS
    assert "was fenced" in b.log_tail(1 << 20)
    slow("close")
    slow.connect(**CLIENT)
    slow.good("put", key="again", id=3, size=60_000)
    assert survivor.good("get", key="again").right
    wait_until(lambda: a.page_counts()["quarantined"] == 0, "what it held is back")


def test_a_machine_without_power_is_swept_when_it_is_up_again(quick_hosts):
    a, b = quick_hosts
    survivor, lost = a.engine(**CLIENT), b.engine(**CLIENT)
    lost.good("put", key="published", id=4, size=60_000)
    lost.good("alloc", size=1)

    b.guest.kill()
    wait_fenced(a, "b")
    assert survivor.good("get", key="published").right
    assert a.page_counts()["quarantined"] == 1
    survivor.good("put", key="meanwhile", id=5, size=60_000)

    b.guest.start()
    b.rejoin()
    assert rows(a)["b"]["state"] == "ACTIVE"
    wait_until(lambda: set(a.clients()) == {survivor.name}, "its client of before is swept")
    assert a.page_counts()["quarantined"] == 0 and a.page_counts()["reserved"] == 0
    again = b.engine(**CLIENT)
    is_on_device(b, again)
    for key in ("published", "meanwhile"):
        assert again.good("get", key=key).right
    again.good("put", key="after", id=6, size=60_000)
    assert survivor.good("get", key="after").right
    a.check_clean()


def test_a_device_that_was_formatted_anew_is_noticed(quick_hosts):
    """By a machine that stood still meanwhile, and by its clients; nobody serves or reads the old domain."""
    a, b = quick_hosts
    before = a.status()["domain"]["uuid"]
    client = b.engine(**CLIENT)
    client.good("put", key="k", id=4, size=60_000)
    b.guest.stop()
    wait_fenced(a, "b")
    assert a.stop() == 0
    refused = a.maru("--format", "-y")
    assert refused.code == 1 and "of host 'b'" in refused.err and "maructl host release" in refused.err, refused
    a.start()
    assert a.maructl("host", "release", str(rows(a)["b"]["host"]), "-y").code == 0
    assert a.stop() == 0
    assert a.guest.run([MARUCTL, "device", "clear", DAX, "-y"]).code == 0
    assert a.maru("--format", "-y").code == 0
    assert header_of(a.guest)["domain"] != before

    b.guest.resume()
    assert b.process.wait(60) == 1
    assert "formatted the memory anew" in b.log_tail()
    answer = client("get", key="k")
    assert answer.status == FENCED, answer
    client.quit()
    b.engines.clear()
    b.pools = [dax_pool()]  # the device has another UUID now
    b.write_config()
    a.start()
    b.start()
    assert b.status()["domain"]["uuid"] == a.status()["domain"]["uuid"] != before
    assert b.engine("no_claim")("get", key="k").status == MISS


# -- machines that may not come in ---------------------------------------------------------------------------------


def test_a_local_domain_is_one_machines(host):
    a = host(0, coherence="local").start()
    a.engine(**CLIENT).good("put", key="k", id=1, size=1000)
    b = host(1, coherence="local")
    refused = b.maru()
    assert refused.code == 3, refused
    assert "local to host 'a'" in refused.err and "'b'" in refused.err and "hardware" in refused.err
    assert a.engine("no_claim").good("get", key="k").right


def test_cloned_machines_are_told_apart(host):
    """One machine-id, two boots: the second one is refused while the first one lives."""
    a = host(0, host_id="cloned")
    assert a.maru("--format", "-y").code == 0
    a.start()
    boots = [guest.good("cat /proc/sys/kernel/random/boot_id").strip() for guest in (a.guest, host(1).guest)]
    refused = host(1, host_id="cloned").maru()
    assert refused.code == 1, refused
    assert all(boot in refused.err for boot in boots) and "daemon.host_id" in refused.err
    assert rows(a)["cloned"]["state"] == "ACTIVE"
