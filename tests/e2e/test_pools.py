"""Pools that do not fit, are damaged, foreign or of another version; and what a start leaves alone."""

import ctypes
import mmap
import os
import pathlib
import re
import resource

import pytest
from harness import KIB, MARU, MIB, SHM, run, wait_until

BAD_CONFIG, OWNED, NO_POOL = 2, 3, 4


def refused(domain, code=NO_POOL):
    """The message of a daemon that must refuse to start."""
    domain.expect_clean = False
    ended = run(MARU, "--config", domain.config, within_s=10)
    assert ended.code == code, ended
    assert "terminate" not in ended.err and len(ended.err.strip().splitlines()) <= 6, ended.err
    return ended.err


def used_domain(make_domain, **options):
    """A domain that holds something and whose daemon has stopped."""
    domain = make_domain(**options)
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="precious", id=1, size=1000)
    engine.good("close")
    engine.quit()
    assert domain.stop() == 0
    return domain


def test_objects_survive_a_stop_and_start(make_domain):
    domain = used_domain(make_domain)
    domain.start()
    assert domain.engine("no_claim").good("get", key="precious").right


def test_more_than_dev_shm_has(make_domain):
    """vllm 48879: a small /dev/shm let the create succeed, SIGBUS came later. The whole size is taken at the start, or
    the start fails there, with both sizes and the remedy."""
    domain = make_domain(start=False, pool="900TiB")
    message = refused(domain)
    assert "900.0 TiB" in message and "/dev/shm" in message and "free" in message and "size" in message
    assert not domain.pool_path.exists(), "a pool that could not be made is left behind"


def test_too_small_for_anything(make_domain):
    domain = make_domain(start=False, pool="64KiB")
    domain.expect_clean = False
    ended = run(MARU, "--config", domain.config, within_s=10)
    assert ended.code in (BAD_CONFIG, NO_POOL) and "64.0 KiB" in ended.err, ended


def test_another_size_than_configured(make_domain):
    domain = used_domain(make_domain)
    domain.pool = "32MiB"
    domain.write_config()
    message = refused(domain)
    assert "64.0 MiB" in message and "32.0 MiB" in message
    assert domain.pool_path.stat().st_size == 64 * MIB
    domain.pool = "64MiB"
    domain.write_config()
    domain.expect_clean = True
    domain.start()
    assert domain.engine("no_claim").good("get", key="precious").right


# offset in the superblock, new bytes, what the message must say
SCRIBBLES = {
    "the version": (8, b"\x63\0\0\0", r"99.*version \d+\b"),
    "the checksum": (1016, b"\xde\xad\xbe\xef\xde\xad\xbe\xef", r"checksum"),
    "a size that the checksum covers": (32, b"\xff" * 8, r"checksum"),
    "a table's place": (160, b"\xff" * 8, r"checksum"),
}


@pytest.mark.parametrize("offset, data, says", SCRIBBLES.values(), ids=SCRIBBLES.keys())
def test_a_damaged_superblock_is_refused_and_kept(make_domain, offset, data, says):
    domain = used_domain(make_domain)
    with open(domain.pool_path, "r+b") as pool:
        pool.seek(offset)
        pool.write(data)
    before = domain.pool_path.read_bytes()
    message = refused(domain)
    assert re.search(says, message, re.DOTALL) and str(domain.pool_path) in message, message
    assert "--format" in message, "the remedy"
    assert domain.pool_path.read_bytes() == before, "a pool that was refused was changed"


def test_foreign_content_is_refused_and_kept(make_domain):
    """Somebody else's file of the right size: never formatted unasked."""
    domain = make_domain(start=False)
    content = b"somebody's precious data" + bytes(range(256)) * 16
    with open(domain.pool_path, "wb") as file:
        file.write(content)
        file.truncate(64 * MIB)
    os.chmod(domain.pool_path, 0o600)
    message = refused(domain)
    assert str(domain.pool_path) in message
    assert domain.pool_path.read_bytes()[:len(content)] == content


def test_format_makes_a_damaged_domain_anew(make_domain):
    domain = used_domain(make_domain)
    with open(domain.pool_path, "r+b") as pool:
        pool.seek(8)
        pool.write(b"\x63\0\0\0")
    refused(domain)
    ended = run(MARU, "--config", domain.config, "--format", given=b"no\n", within_s=10)
    assert ended.code != 0, "--format without -y must ask"
    assert domain.pool_path.read_bytes()[8:12] == b"\x63\0\0\0"


def test_a_symbolic_link_is_refused(make_domain):
    domain = make_domain(start=False)
    target = domain.folder / "target"
    target.write_bytes(b"target")
    domain.pool_path.symlink_to(target)
    message = refused(domain)
    assert "symbolic link" in message or "symlink" in message, message
    assert target.read_bytes() == b"target"


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_what_is_no_regular_file_is_refused(make_domain, kind):
    domain = make_domain(start=False)
    if kind == "folder":
        domain.pool_path.mkdir()
    else:
        os.mkfifo(domain.pool_path)
    try:
        assert str(domain.pool_path) in refused(domain)
    finally:
        domain.pool_path.rmdir() if kind == "folder" else domain.pool_path.unlink()


def test_a_file_of_another_owner_is_refused(make_domain):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    domain = make_domain(start=False)
    domain.pool_path.write_bytes(b"")
    os.chown(domain.pool_path, 12345, 12345)
    message = refused(domain)
    assert "12345" in message and str(domain.pool_path) in message


def test_an_empty_leftover_is_taken_over(make_domain):
    """A daemon that died between creating and formatting its pool leaves an unformatted file: the next one goes on."""
    domain = make_domain(start=False)
    domain.pool_path.touch(mode=0o600)
    domain.start()
    domain.engine(pool=8 * MIB, page=64 * KIB).good("put", key="k", id=1, size=10)


def test_a_format_that_was_cut_short_is_done_again(make_domain):
    """Everything but the magic is there: the region reads as blank."""
    domain = used_domain(make_domain)
    with open(domain.pool_path, "r+b") as pool:
        pool.write(b"\0" * 8)
    ended = run(MARU, "--config", domain.config, "--check-config", within_s=10)
    assert ended.code == 0
    domain.expect_clean = False
    process_started = domain.start(wait=False).process
    try:
        wait_until(lambda: process_started.poll() is not None or domain.maructl("--json", "status").code == 0,
                   "started or refused")
        # Either answer is safe; a crash is not.
        assert process_started.poll() in (None, NO_POOL)
    finally:
        if process_started.poll() is None:
            domain.stop()


def test_remove_ends_a_stopped_domain(make_domain):
    domain = used_domain(make_domain)
    domain.expect_clean = False
    assert run(MARU, "--config", domain.config, "--remove", "-y", within_s=10).code == 0
    assert not domain.pool_path.exists()


def test_remove_of_a_running_domain_is_refused(domain):
    ended = run(MARU, "--config", domain.config, "--remove", "-y", within_s=10)
    assert ended.code == OWNED and domain.pool_path.exists()
    assert domain.status()


def test_format_of_a_running_domain_is_refused(domain):
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=10)
    ended = run(MARU, "--config", domain.config, "--format", "-y", within_s=10)
    assert ended.code == OWNED
    assert engine.good("get", key="k").right


@pytest.mark.parametrize("settings", [{"control": {"max_objects": 2000}}, {"control": {"max_clients": 17}},
                                      {"control": {"max_pins": 640}}, {"control": {"region_size": "4MiB"}}])
def test_changed_settings_attach_or_refuse_cleanly(make_domain, settings):
    """memcached 631: a warm restart went wrong with other settings. What the format fixed stays as it was, or the
    start is refused with the reason; nothing is lost either way."""
    domain = used_domain(make_domain)
    domain.settings = settings
    domain.write_config()
    process = domain.start(wait=False).process
    wait_until(lambda: process.poll() is not None or domain.maructl("--json", "status").code == 0, "decided")
    if process.poll() is not None:
        assert process.returncode in (BAD_CONFIG, NO_POOL), domain.log_tail()
        assert next(iter(settings["control"])) in domain.log_tail()
        domain.settings = {}
        domain.write_config()
        domain.start()
    assert domain.engine("no_claim").good("get", key="precious").right


def test_pool_file_is_private(domain):
    assert domain.pool_path.stat().st_mode & 0o007 == 0
    assert pathlib.Path(domain.pool_path).parent == SHM


def test_memory_is_gathered_into_large_pages(make_domain):
    """The daemon gathers a pool into 2 MiB pages while engines use it: no byte changes, and what it says is what the
    kernel says of the engine's mapping."""
    domain = make_domain(start=False)
    domain.pool_keys = {"hugepages": "advise", "prefault": "background"}
    domain.write_config()
    domain.start()
    engine = domain.engine(pool=32 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=200, size=60_000)
    wait_until(lambda: "lie in pages of 2 MiB" in domain.log_tail(), "the pool is gathered")
    said = domain.ask("pools")["pools"][0]["large_page_bytes"]
    batch = engine.good("retrieve_batch", prefix="k", count=200)
    assert batch.right and batch.statuses.count(0) == 200
    smaps = pathlib.Path(f"/proc/{engine.pid}/smaps").read_text()
    mapped = sum(int(kib) * KIB for kib in re.findall(r"ShmemPmdMapped:\s+(\d+) kB", smaps))
    assert (mapped > 0) == (said > 0), (mapped, said, domain.log_tail())
    assert said % (2 * MIB) == 0 and mapped <= said <= 64 * MIB


def test_never_means_no_large_pages(make_domain):
    domain = make_domain(start=False)
    domain.pool_keys = {"hugepages": "never", "prefault": "all"}
    domain.write_config()
    domain.start()
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    assert domain.ask("pools")["pools"][0]["large_page_bytes"] == 0
    assert "lie in pages of 2 MiB" not in domain.log_tail()


# -- memory made ready before its first use, and locked ----------------------------------------------------------


def used_bytes(path):
    """How much of a file on a tmpfs was touched since it was reserved: mincore tells."""
    size = path.stat().st_size
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), size) as memory:
        pages = (ctypes.c_ubyte * (size // (4 * KIB)))()
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages) == 0
        return sum(page & 1 for page in bytes(pages)) * 4 * KIB


@pytest.mark.parametrize("pages", ["advise", "never"])
@pytest.mark.parametrize("prefault", ["none", "background", "all"])
def test_prefault_is_what_it_says(make_domain, prefault, pages):
    """sglang 36705, Mooncake 3939: it took minutes, twice, without a word. Once, in the background, told in the log; or
    before anybody is served; or not at all."""
    domain = make_domain(start=False)
    domain.pool_keys = {"hugepages": pages, "prefault": prefault}
    domain.write_config()
    domain.start()
    log = domain.log_tail(100_000)
    if prefault == "none":
        assert used_bytes(domain.pool_path) < 24 * MIB, "no more than its tables"
        assert "prefault" not in log
    elif prefault == "all":
        assert used_bytes(domain.pool_path) == 64 * MIB
        assert log.index("pool 'test': prefault of 64.0 MiB is done in") < log.index(f"serves {domain.socket}")
        assert "begins, clients wait for it" in log
    else:
        wait_until(lambda: used_bytes(domain.pool_path) == 64 * MIB, "the pool is ready")
        wait_until(lambda: "prefault of 64.0 MiB is done in" in domain.log_tail(100_000), "it is told")
        assert "begins, in the background" in domain.log_tail(100_000)
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    # The next daemon finds clients: it serves at once, and finds the memory used.
    domain.restart()
    assert engine.good("get", key="k").right
    if prefault != "none":
        wait_until(lambda: "; 64.0 MiB had been used before" in domain.log_tail(100_000), "the second one has little to do")


@pytest.mark.parametrize("limit", [None, 1 * MIB, 0])
def test_the_control_region_is_locked_as_far_as_the_limit_allows(make_domain, limit):
    """The kernel's word for it is VmLck. What forbids it is named with the limit, the need and the remedy."""
    def confined():
        if limit is None:
            return
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
        drop_from_bounding_set, ipc_lock = 24, 14
        assert os.geteuid() != 0 or ctypes.CDLL(None).prctl(drop_from_bounding_set, ipc_lock, 0, 0, 0) == 0

    domain = make_domain(start=False)
    domain.start(preexec=confined)
    told = domain.status()["domain"]
    locked = int(re.search(r"VmLck:\s+(\d+) kB", pathlib.Path(f"/proc/{domain.process.pid}/status").read_text()).group(1)) * KIB
    assert locked >= told["control_locked_bytes"]
    said = re.findall(r"control region of (.*) is not locked in memory: the limit of locked memory \(RLIMIT_MEMLOCK\) is (.*?);",
                      domain.log_tail(100_000))
    if limit is None and os.geteuid() == 0:
        assert told["control_locked_bytes"] == told["control_bytes"] and not said
    elif limit is not None:
        assert told["control_bytes"] > limit and told["control_locked_bytes"] == 0
        assert [which for _need, which in said] == ["1.0 MiB" if limit else "0 B"]
        has_swap = not re.search(r"SwapTotal:\s+0 kB", pathlib.Path("/proc/meminfo").read_text())
        warnings = [each for each in domain.status()["warnings"] if each["kind"] == "memory_lock"]
        assert len(warnings) == has_swap
        remedy = re.search(r"not locked in memory: .*LimitMEMLOCK=.*ulimit -l", domain.log_tail(100_000))
        assert (remedy is not None) == has_swap
