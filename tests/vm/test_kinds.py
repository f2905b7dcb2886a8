"""Pools of every kind that only a machine of one's own has: a NUMA node without processors, huge pages of both sizes, a
file system on persistent memory. What memory it is, the kernel says (/proc), so that a fallback does not pass."""

import re

import pytest
import report
from harness import KIB, MARU, MIB, wait_until
from jobs import CONFORMANCE, conforms, does_its_job, mapping_of, only_pool
from machine import Device


# -- memory of a node without processors -------------------------------------------------------------------------


@pytest.fixture(name="expander", scope="module")
def fixture_expander(make_guest, make_memory):
    """A guest whose soft-reserved memory is onlined as system RAM: NUMA node 1."""
    guest = make_guest("expander", [Device("hmem", make_memory(512 * MIB))], modules=["kmem"])
    assert guest.good("cat /sys/devices/system/node/has_memory") == "0\n"
    guest.good("daxctl reconfigure-device -m system-ram dax0.0")
    assert guest.good("cat /sys/devices/system/node/has_memory") == "0-1\n"
    assert guest.good("cat /sys/devices/system/node/has_cpu") == "0\n"
    return guest


def free_on_node_1(guest):
    return int(re.search(r"MemFree: +(\d+) kB", guest.good("cat /sys/devices/system/node/node1/meminfo")).group(1)) * KIB


def test_numa_conforms(expander):
    for subject, kind in (("numa:0", None), ("numa:1", None), ("shm:/dev/shm", "shm")):
        conforms(expander, subject, kind)


def test_numa_pool(expander, make_domain):
    before = free_on_node_1(expander)
    domain = make_domain(expander, {"name": "kv", "kind": "numa", "numa_node": 1, "size": "64MiB", "prefault": "all"})
    pool = only_pool(domain)
    assert pool["kind"] == "numa" and pool["size"] == 64 * MIB
    assert before - free_on_node_1(expander) >= 60 * MIB, "the memory is not that node's"
    engine = does_its_job(domain, "numa:1")
    where = expander.good(f"cat /proc/{engine.pid}/numa_maps")
    pages = [line for line in where.splitlines() if pool["path"] in line and re.search(r"N\d+=", line)]
    assert pages and all(" N1=" in line and " N0=" not in line for line in pages), where
    on_node = sum(int(count) for line in pages for count in re.findall(r" N1=(\d+)", line))
    report.said(f"numa:1: numa_maps of an engine: {on_node} pages of the pool on node 1, none on node 0; MemFree of node 1 "
                f"fell by {(before - free_on_node_1(expander)) // MIB} MiB for a pool of 64 MiB")


# -- huge pages, and persistent memory ---------------------------------------------------------------------------


@pytest.fixture(name="server", scope="module")
def fixture_server(make_guest, make_memory):
    """A guest with huge pages of both sizes, and with an nvdimm that holds an ext4 mounted with dax."""
    guest = make_guest("server", [Device("nvdimm", make_memory(512 * MIB))], memory=3584 * MIB,
                       modules=["ext4", "crc32c_generic"],
                       kernel_options="hugepagesz=1G hugepages=1 hugepagesz=2M hugepages=160")
    guest.namespace("fsdax")
    guest.good("mkfs.ext4 -q -b 4096 /dev/pmem0 && mkdir -p /mnt/pmem && mount -t ext4 -o dax=always /dev/pmem0 /mnt/pmem")
    return guest


def test_hugetlb_conforms(server):
    """Nameless files only, and then also files of a hugetlbfs."""
    conforms(server, "hugetlb:2MiB", "hugetlb:2MiB nameless")
    server.good("mkdir -p /run/huge2M && mount -t hugetlbfs -o pagesize=2M none /run/huge2M")
    conforms(server, "hugetlb:2MiB")
    server.good("umount /run/huge2M")


@pytest.mark.parametrize("page, size, kilobytes", [("2MiB", "64MiB", 2048), ("1GiB", "1GiB", 1048576)])
def test_hugetlb_pool(server, make_domain, page, size, kilobytes):
    free = f"cat /sys/kernel/mm/hugepages/hugepages-{kilobytes}kB/free_hugepages"
    before = int(server.good(free))
    mount = f"/run/huge{page}"
    server.good(f"mkdir -p {mount} && mount -t hugetlbfs -o pagesize={page[:2]} none {mount}")
    domain = make_domain(server, {"name": "kv", "kind": "hugetlb", "page_size": page, "size": size})
    pool = only_pool(domain)
    assert pool["kind"] == "hugetlb" and pool["path"].startswith(mount)
    engine = does_its_job(domain, f"hugetlb:{page}")
    taken = before - int(server.good(free))
    assert taken > 0
    assert re.search(rf"^KernelPageSize: +{kilobytes} kB", mapping_of(server, engine.pid, pool["path"]), re.MULTILINE)
    report.said(f"hugetlb:{page}: KernelPageSize of an engine's mapping {kilobytes} kB, free_hugepages fell by {taken}")


def test_fsdax_conforms(server):
    conforms(server, "fsdax:/mnt/pmem", "fsdax")


def test_a_mount_without_dax_is_refused(server, make_domain):
    """The same file system, but through the page cache: no fsdax pool, unless that is asked for."""
    server.good("umount /mnt/pmem && mount -t ext4 -o dax=never /dev/pmem0 /mnt/pmem")
    try:
        assert server.run([CONFORMANCE, "fsdax:/mnt/pmem"], within_s=300).code == 1
        conforms(server, "page_cache:/mnt/pmem", "page cache")
        ended = server.run([MARU, "--socket", "/run/x.sock", "--pool", "fsdax:/mnt/pmem:32MiB"])
        assert ended.code == 4 and "/mnt/pmem" in ended.err and "-o dax" in ended.err, ended
    finally:
        server.good("umount /mnt/pmem && mount -t ext4 -o dax=always /dev/pmem0 /mnt/pmem")


def test_fsdax_pool(server, make_domain):
    domain = make_domain(server, {"name": "kv", "kind": "fsdax", "path": "/mnt/pmem", "size": "64MiB"})
    pool = only_pool(domain)
    assert pool["kind"] == "fsdax" and pool["path"].startswith("/mnt/pmem/") and "dax" in pool["description"]
    engine = does_its_job(domain, "fsdax")
    mapping_of(server, engine.pid, pool["path"])
    report.said(f"fsdax: {pool['description']}")


def test_an_fsdax_pool_survives_a_power_failure(server, make_domain):
    """Off without a word: what was published is there when the machine is up again, in the same pages."""
    # After the failure the boot id is another one: the daemon waits for the grace before it takes its entry over.
    domain = make_domain(server, {"name": "lasting", "kind": "fsdax", "path": "/mnt/pmem", "size": "64MiB"},
                         settings={"host": {"grace": "3s"}})
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="persistent", id=7, size=60_000)
    server.good("sync")
    uuid = domain.status()["domain"]["uuid"]

    server.restart()

    server.good("mkdir -p /mnt/pmem && mount -t ext4 -o dax=always /dev/pmem0 /mnt/pmem")
    domain.engines.clear()
    domain.start()
    assert domain.status()["domain"]["uuid"] == uuid
    assert domain.engine("no_claim").good("get", key="persistent").right
    wait_until(lambda: len(domain.clients()) == 1, "nobody of before the failure is taken for alive")
    report.held("fsdax", "a power failure loses no object")
