"""maru on Debian's own kernel, Linux 6.1, which lacks things that newer ones have."""

import re

import pytest
import report
from harness import KIB, MIB, PINNED, wait_until
from jobs import does_its_job, mapping_of, only_pool


@pytest.fixture(name="guest", scope="module")
def fixture_guest(make_guest):
    return make_guest("plain")


@pytest.fixture(name="domain")
def fixture_domain(guest, make_domain):
    return make_domain(guest, shm_pool())


def shm_pool(path="/dev/shm/maru-vm", size="64MiB", **keys):
    return {"name": "kv", "kind": "shm", "path": path, "size": size, "prefault": "none", **keys}


@pytest.fixture(autouse=True)
def fresh_pool(guest):
    """Each test makes its own pool."""
    yield
    if guest.alive():
        guest.good("rm -f /dev/shm/maru-vm*")


def test_the_kernel_is_the_old_one(guest):
    """Without this the tests of this file would prove nothing: SO_PEERPIDFD came with Linux 6.5."""
    assert guest.good("uname -r").startswith("6.1."), "another kernel than the one that these tests are about"
    probe = "import socket; a, b = socket.socketpair(); a.getsockopt(socket.SOL_SOCKET, 77, 4)"
    refused = guest.run(["/usr/bin/python3", "-c", probe])
    assert refused.code == 1 and "Protocol not available" in refused.err


def test_shm_pool(domain):
    does_its_job(domain, "shm")


def test_what_a_killed_client_held_comes_back(domain):
    """The daemon has no pidfd of the peer from the kernel here: it opens one by the process id."""
    survivor = domain.engine(pool=8 * MIB, page=64 * KIB)
    victim = domain.engine(pool=8 * MIB, page=64 * KIB)
    victim.good("put_many", prefix="k", count=10, size=1000)
    for number in range(20):
        victim.good("alloc", size=1, p=f"reserved{number}")
    victim.good("match", prefix="k", count=10, v="m")
    victim.good("pin", key="k1")
    assert survivor("remove", key="k1").status == PINNED

    victim.kill()

    wait_until(lambda: set(domain.clients()) == {survivor.name}, "the client slot is free")
    assert survivor.good("get", key="k5").right
    survivor.good("remove", key="k1")
    counts = domain.page_counts()
    assert (counts["reserved"], counts["pinned"], counts["quarantined"]) == (0, 0, 0)


def test_a_killed_daemon_finds_its_clients_again(domain):
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="before", id=1, size=60_000)
    engine.good("retrieve", key="before", v="held")
    idle = domain.engine(pool=8 * MIB, page=64 * KIB)
    domain.kill()
    assert engine.good("get", key="before").right, "reading needs no daemon"
    domain.start()
    wait_until(lambda: engine("stats").connected == 1 and idle("stats").connected == 1, "both are back")
    assert engine.good("verify", v="held").right
    engine.good("put", key="after", id=2, size=60_000)
    idle.kill()
    wait_until(lambda: set(domain.clients()) == {engine.name}, "the new daemon sees the death of an old client")


def test_the_loop_is_io_uring(domain):
    """Not a fallback: the ring is among the daemon's descriptors."""
    links = domain.guest.good(f"ls -l /proc/{domain.process.pid}/fd")
    assert "anon_inode:[io_uring]" in links


def test_memory_is_gathered_into_large_pages(guest, make_domain):
    """MADV_COLLAPSE is new in 6.1, and there it works on shared memory."""
    domain = make_domain(guest, shm_pool(prefault="all"))
    gathered = only_pool(domain)["large_page_bytes"]
    assert gathered == 64 * MIB
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    assert engine.good("get", key="k").right
    huge = sum(int(kilobytes) for kilobytes in
               re.findall(r"^ShmemPmdMapped: +(\d+) kB", mapping_of(guest, engine.pid, "maru-vm"), re.MULTILINE))
    report.said(f"shm: {gathered // MIB} MiB of 64 MiB gathered into pages of 2 MiB; ShmemPmdMapped of an engine: {huge} kB")


def test_a_machine_that_starts_again_has_no_domain_of_before(guest, make_domain):
    """/dev/shm is memory of one boot: after a power failure the daemon makes a new domain, unasked, and serves."""
    domain = make_domain(guest, shm_pool())
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    before = domain.status()

    guest.restart()

    domain.start()
    domain.engines.clear()
    after = domain.status()
    assert after["domain"]["uuid"] != before["domain"]["uuid"]
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    assert engine("get", key="k").status != 0
    engine.good("put", key="k", id=2, size=60_000)
