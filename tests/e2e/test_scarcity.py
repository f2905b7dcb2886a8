"""A kernel that gives less than is wanted: the daemon says what is missing and goes on, or does not start."""

import ctypes
import errno
import os
import pathlib
import platform
import re
import resource
import struct

import pytest
from harness import KIB, MIB, OK, SANITIZED, wait_until

SHMEM_ENABLED = pathlib.Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")


def data_bytes(pid):
    return int(re.search(r"VmData:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * KIB


def test_a_check_without_memory_is_refused_and_the_daemon_goes_on(make_domain):
    """From no memory for a thread to just enough for the whole check: each is refused with its reason, or done."""
    if SANITIZED:
        pytest.skip("a sanitizer takes memory as it pleases")
    domain = make_domain(pool="256MiB", settings={"control": {"max_objects": 900_000}})
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    pid = domain.process.pid
    before = data_bytes(pid)
    reasons = set()
    for spare in range(0, 64 * MIB, 512 * KIB):
        resource.prlimit(pid, resource.RLIMIT_DATA, (before + spare, resource.RLIM_INFINITY))
        refused = domain.check()
        if refused.code == 0:
            break
        assert refused.code in (1, 2), refused
        reasons |= {word for word in ("no thread for the check", "needs more memory") if word in refused.err}
        engine.good("ping")
    assert refused.code == 0 and reasons == {"no thread for the check", "needs more memory"}, (refused, reasons)
    resource.prlimit(pid, resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    engine.good("put", key="k", id=1, size=1000)
    domain.check_clean()


def forbid_io_uring(error):
    """For the calling process and its programs: io_uring_setup fails with this errno, as in most containers."""
    assert platform.machine() in ("x86_64", "aarch64")
    allow, with_errno, load, equal, give = 0x7FFF0000, 0x00050000, 0x20, 0x15, 0x06
    number = 425  # on every architecture
    lines = [(load, 0, 0, 0), (equal, 0, 1, number), (give, 0, 0, with_errno | error), (give, 0, 0, allow)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(lines), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    assert libc.prctl(no_new_privileges, *map(ctypes.c_ulong, (1, 0, 0, 0))) == 0
    assert libc.prctl(set_seccomp, *map(ctypes.c_ulong, (filter_mode, ctypes.addressof(program), 0, 0))) == 0


def descriptor_targets(pid):
    return {str(link.readlink()) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS, errno.ENOMEM], ids=errno.errorcode.get)
def test_without_io_uring(make_domain, error):
    """axboe/liburing 1078, 498: io_uring refused by seccomp or sysctl, or no locked memory for it. The daemon says so
    once, with the remedy, and serves on epoll, also over a restart."""
    domain = make_domain(start=False, settings={"daemon": {"event_backend": "auto"}})
    domain.start(preexec=lambda: forbid_io_uring(error))
    warned = [line for line in domain.log_tail().splitlines() if "io_uring" in line]
    remedy = {errno.EPERM: "kernel.io_uring_disabled", errno.ENOSYS: "seccomp", errno.ENOMEM: "LimitMEMLOCK"}[error]
    assert len(warned) == 1 and " warning " in warned[0] and "epoll" in warned[0], warned
    assert os.strerror(error) in warned[0] and remedy in warned[0], warned
    assert "anon_inode:[eventpoll]" in descriptor_targets(domain.process.pid)
    assert not any("io_uring" in target for target in descriptor_targets(domain.process.pid))
    status = domain.status()
    assert status["daemon"]["event_backend"] == "epoll"
    assert [warning["kind"] for warning in status["warnings"]].count("event_backend") == 1, status["warnings"]

    one, two = domain.engine(pool=8 * MIB, page=64 * KIB), domain.engine(pool=8 * MIB, page=64 * KIB)
    one.good("put", key="k", id=7, size=60_000)
    assert two.good("get", key="k").id == 7
    domain.kill()
    domain.start(preexec=lambda: forbid_io_uring(error))
    wait_until(lambda: one("ping").status == OK, "it is connected again")
    two.kill()
    wait_until(lambda: set(domain.clients()) == {one.name}, "the dead client is swept")


def test_io_uring_that_is_asked_for_and_forbidden(make_domain):
    """Whoever names io_uring wants no other: the daemon says what to allow, ends, and leaves nothing behind."""
    domain = make_domain(start=False, settings={"daemon": {"event_backend": "io_uring"}})
    domain.expect_clean = False
    domain.start(wait=False, preexec=lambda: forbid_io_uring(errno.EPERM))
    assert domain.process.wait(20) == 1, domain.log_tail()
    said = domain.log_tail()
    assert "io_uring" in said and "seccomp" in said and "kernel.io_uring_disabled" in said, said
    assert not domain.socket.exists()


def test_large_pages_that_are_required(make_domain):
    """cloud-hypervisor 5730, 7387: large pages were missing and the first touch was a SIGBUS. Required and not to be had
    means no start, with the remedy; required and there means that it runs."""
    domain = make_domain(start=False)
    domain.pool_keys = {"hugepages": "require", "prefault": "none"}
    domain.write_config()
    mounted = next(line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if " /dev/shm " in line)
    enabled = SHMEM_ENABLED.read_text() if SHMEM_ENABLED.exists() else "[deny]"
    there = "[force]" in enabled or ("[deny]" not in enabled and re.search(r"huge=(always|within_size|advise)", mounted))
    domain.expect_clean = bool(there)
    domain.start(wait=False)
    if not there:
        assert domain.process.wait(20) == 4, domain.log_tail()
        said = domain.log_tail()
        assert "require" in said and "advise" in said, said
        return
    wait_until(domain.serves, "the daemon serves")
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    assert engine.good("get", key="k").right


def test_status_counts_the_slots_that_clients_can_have(make_domain):
    domain = make_domain(settings={"control": {"max_clients": 5}})
    engines = [domain.engine("no_claim") for _ in range(5)]
    clients = domain.status()["clients"]
    assert (clients["slots"], clients["active"]) == (5, 5)
    assert any("5 of 5" in warning["text"] for warning in domain.status()["warnings"]), domain.status()["warnings"]
    engines[0].good("close")
