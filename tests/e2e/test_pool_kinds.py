"""Pools of other kinds than shm, several pools in one domain, large sparse ones, and memory that goes away.

The kinds that few machines have are shown in virtual machines; here is what every machine has.
"""

import os
import pathlib
import re

import pytest
from harness import DAMAGED, KIB, MARU, MIB, MISS, OK, SHM, run

GIB = 1024 * MIB
HUGE = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


def started(make_domain, pool="64MiB", settings=None, **keys):
    domain = make_domain(start=False, pool=pool, settings=settings)
    domain.pool_keys = {"prefault": "none", **keys}
    domain.write_config()
    return domain.start()


def store_and_restart(domain, expect_kept=True):
    """What an engine stores is there for another one, and for those after a restart."""
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=50, size=60_000)
    reader = domain.engine("no_claim")
    batch = reader.good("retrieve_batch", prefix="k", count=50)
    assert batch.right and batch.statuses.count(0) == 50
    engine.good("close")
    engine.quit()
    reader.good("close")
    reader.quit()
    assert domain.stop() == 0
    domain.start()
    batch = domain.engine("no_claim").good("retrieve_batch", prefix="k", count=50)
    assert (batch.statuses.count(0) == 50) == expect_kept


def only_pool(domain):
    pools = domain.ask("pools")["pools"]
    assert len(pools) == 1
    return pools[0]


def test_memory_of_a_numa_node(make_domain):
    domain = started(make_domain, kind="numa", numa_node=0)
    assert only_pool(domain)["kind"] == "numa"
    said = re.search(r"NUMA node 0 \(bind\): (\d+) of (\d+) pages looked at lie there", domain.log_tail())
    assert said and said.group(1) == said.group(2) != "0", domain.log_tail()
    store_and_restart(domain)


def test_a_node_without_memory(make_domain):
    domain = make_domain(start=False)
    domain.pool_keys = {"kind": "numa", "numa_node": 99}
    domain.write_config()
    domain.expect_clean = False
    ended = run(MARU, "--config", domain.config, within_s=10)
    assert ended.code == 4 and "NUMA node 99 has no memory here" in ended.err, ended
    assert not domain.pool_path.exists()


def test_a_file_in_the_page_cache_is_allowed_only_when_asked_for(make_domain):
    domain = make_domain(start=False)
    domain.pool_keys = {"kind": "fsdax", "path": str(domain.folder)}
    domain.write_config()
    domain.expect_clean = False
    ended = run(MARU, "--config", domain.config, within_s=10)
    assert ended.code == 4 and "does not map this file with dax" in ended.err and "allow_page_cache" in ended.err
    assert not (domain.folder / "maru-test").exists()

    domain.pool_keys["allow_page_cache"] = True
    domain.write_config()
    domain.expect_clean = True
    domain.start()
    assert (domain.folder / "maru-test").stat().st_size == 64 * MIB
    store_and_restart(domain)
    assert domain.log_tail(100_000).count("its memory is the page cache") == 2, "a warning at each start"


def huge_pages(domain, size):
    """A pool of kind hugetlb whose lock file, which has no folder of its own, goes with the test."""
    name = f"huge-{domain.unique}"
    domain.pool_sections = lambda: [{"name": name, "kind": "hugetlb", "size": size}]
    domain.write_config()
    finish = domain.finish

    def finish_and_unlock():
        finish()
        for lock in SHM.glob(f"maru-{name}-*.lock"):
            lock.unlink()

    domain.finish = finish_and_unlock


def test_huge_pages_that_were_set_aside(make_domain):
    free = int((HUGE / "free_hugepages").read_text()) if HUGE.exists() else 0
    if free < 64:
        pytest.skip(f"{free} huge pages of 2 MiB are free, 64 are needed: sysctl vm.nr_hugepages=64")
    domain = make_domain(start=False)
    huge_pages(domain, "64MiB")
    domain.start()
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    smaps = pathlib.Path(f"/proc/{engine.pid}/smaps").read_text()
    assert re.search(r"KernelPageSize:\s+2048 kB", smaps)
    engine.good("close")
    engine.quit()
    store_and_restart(domain, expect_kept="ends with the daemon" not in domain.log_tail())


def test_too_few_huge_pages(make_domain):
    domain = make_domain(start=False)
    huge_pages(domain, "1TiB")
    domain.expect_clean = False
    ended = run(MARU, "--config", domain.config, within_s=10)
    assert ended.code == 4 and "524288 (1.0 TiB) are needed: sysctl -w vm.nr_hugepages=" in ended.err, ended


def test_a_large_pool_as_a_sparse_file(make_domain):
    """256 GiB on a machine that has a tenth of it: only what is written takes memory."""
    domain = started(make_domain, pool="256GiB", settings={"control": {"max_objects": 20_000, "region_size": "1GiB"}},
                     reserve=False)
    assert domain.pool_path.stat().st_size == 256 * GIB
    assert only_pool(domain)["bytes"]["total"] > 250 * GIB
    store_and_restart(domain)
    assert domain.pool_path.stat().st_blocks * 512 < 256 * MIB
    assert domain.log_tail(100_000).count("is sparse (reserve = false)") == 2, "a warning at each start"


def test_several_pools_are_filled_in_the_order_of_the_file(make_domain):
    domain = make_domain(start=False)
    second = f"{domain.pool_path}-second"
    domain.pool_sections = lambda: [
        {"name": "first", "kind": "shm", "path": str(domain.pool_path), "size": "32MiB", "prefault": "none"},
        {"name": "second", "kind": "numa", "numa_node": 0, "path": second, "size": "64MiB", "prefault": "none"}]
    domain.write_config()
    try:
        domain.start()
        engine = domain.engine(pool=8 * MIB, page=64 * KIB)
        engine.good("put_many", prefix="k", count=100, size=60_000)
        used = {pool["name"]: pool["bytes"]["published"] for pool in domain.ask("pools")["pools"]}
        assert used["first"] > 0 and used["second"] == 0
        engine.good("put_many", prefix="l", count=700, size=60_000)
        used = {pool["name"]: pool["bytes"]["published"] for pool in domain.ask("pools")["pools"]}
        assert used["first"] > 16 * MIB and used["second"] > 16 * MIB
        batch = domain.engine("no_claim").good("retrieve_batch", prefix="l", count=700)
        assert batch.right and batch.statuses.count(0) == 700
    finally:
        if domain.running():
            domain.stop()
        for path in (second, f"{second}.lock"):
            pathlib.Path(path).unlink(missing_ok=True)


def test_a_file_truncated_under_a_client_is_an_error_for_its_objects(make_domain):
    """A page that has gone is an answer, not the end of the process; its page is taken out of use."""
    domain = started(make_domain)
    engine = domain.engine(pool=16 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=100, size=60_000)
    last = max(domain.ask("keys")["keys"], key=lambda row: (row["region"], row["page"]))
    region = next(row for row in domain.ask("regions")["regions"] if row["region"] == last["region"])
    os.truncate(domain.pool_path, region["offset"] + last["page"] * region["page_bytes"])
    key = last["key"]
    answer = engine("get", key=key)
    assert answer.status == -13, answer
    assert "memory of this value is bad" in answer.detail
    assert engine("get", key=key).status == 2, "a miss: the object has gone"
    others = engine.good("retrieve_batch", prefix="k", count=100)
    assert others.statuses.count(0) == 99
    assert domain.status()
    assert domain.page_counts()["bad"] == 1


def test_a_control_region_that_goes_ends_the_daemon_with_a_sentence(make_domain):
    """Not by a signal and a core: the pool and its file are named, on stderr and in the log file, with status 1."""
    domain = make_domain(start=False)
    log = domain.folder / "own.log"
    domain.settings = {"daemon": {"log_file": str(log)}}
    domain.write_config()
    domain.start()
    domain.expect_clean = False
    os.truncate(domain.pool_path, 0)
    assert domain.process.wait(20) == 1
    for said in (domain.log_tail(), log.read_text()):
        assert f"the control region in pool 'test' ({domain.pool_path}) is not there any more (SIGBUS)" in said, said


@pytest.mark.parametrize("left", [0, 8192])
def test_a_control_region_that_goes_leaves_its_clients_alive(make_domain, left):
    """Each call says what has happened, also where only the end of the region has gone; the process, its client of
    another domain and the views that it has out live on; it connects again when a daemon serves."""
    domain, other = make_domain(), make_domain()
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    assert engine("connect", c="other", server=other.socket, id="other", pool=8 * MIB, page=64 * KIB).status == OK
    for client in ("c", "other"):
        engine.good("put_many", c=client, prefix="k", count=20, size=60_000)
    engine.good("retrieve", key="k1", v="held")
    engine.good("retrieve", c="other", key="k1", v="others")
    engine.good("alloc", size=1000)
    domain.expect_clean = False
    os.truncate(domain.pool_path, left)

    calls = [("exists", {"key": "k1"}), ("get", {"key": "k1"}), ("retrieve", {"key": "k2"}), ("release", {"v": "held"}),
             ("put", {"key": "new", "size": 1000}), ("store", {"key": "page", "size": 1000}), ("free", {}),
             ("alloc", {"size": 1}), ("remove", {"key": "k3"}), ("pin", {"key": "k4"}), ("match", {"prefix": "k", "count": 5}),
             ("stats", {})]
    first = engine("exists", key="k1").status
    assert first in (MISS, DAMAGED), "the call in which it happens may find nothing instead"
    for command, arguments in calls:
        answer = engine(command, **arguments)
        assert answer.status == DAMAGED, (command, answer)
        assert "control region is not there any more" in answer.detail and "connect again" in answer.detail, answer
    assert engine.good("get", c="other", key="k5").right and engine.good("verify", c="other", v="others").right
    engine.good("close")

    if domain.process.poll() is None:  # it has not touched what has gone
        domain.kill()
    formatted = run(MARU, "--config", domain.config, "--format", "-y")
    assert formatted.code == 0, formatted
    domain.start()
    engine.connect(pool=8 * MIB, page=64 * KIB)
    assert engine("get", key="k1").status == MISS
    engine.good("put", key="k1", id=1, size=60_000)
    assert engine.good("get", key="k1").right
