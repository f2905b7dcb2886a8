"""Persistent memory as DAX devices: two nvdimms in one machine, over power failures and under changing names."""

import datetime
import json
import re

import pytest
import report
from harness import KIB, MARUCTL, MIB, OK, POISONED, SLOWER, wait_until
from jobs import conforms, dax_pool, does_its_job, header_of, is_on_device, refused
from machine import Device

FIRST, SECOND = "/dev/dax0.0", "/dev/dax1.0"
KIND = "devdax (nvdimm)"
KERNELS_OWN = 2 * MIB  # the namespace's info block, before the device begins


@pytest.fixture(name="guest", scope="module")
def fixture_guest(make_guest, make_memory):
    guest = make_guest("nvdimm", [Device("nvdimm", make_memory(64 * MIB)) for _ in range(2)])
    for number in range(2):
        guest.namespace("devdax", number)
    return guest


@pytest.fixture(autouse=True)
def blank_devices(guest):
    """Each test begins with devices that nobody has written on."""
    for device in guest.devices:
        device.memory.write(KERNELS_OWN, bytes(8 * MIB))
    guest.good("rm -f /dev/shm/maru-*")


def uuids(guest):
    """Gives each device a UUID before any domain is on it."""
    for path in (FIRST, SECOND):
        guest.good([MARUCTL, "device", "init", path])
    return [header_of(guest, path)["uuid"] for path in (FIRST, SECOND)]


def test_nvdimm_conforms(guest):
    conforms(guest, f"devdax:{FIRST}", KIND)


def test_nvdimm_pool(guest, make_domain):
    domain = make_domain(guest, dax_pool(FIRST))
    is_on_device(domain, does_its_job(domain, KIND), path=FIRST)


def test_a_domain_on_two_nvdimms_survives_a_power_failure_and_swapped_names(guest, make_domain):
    """Off without a word. When the machine is up again its devices have each other's names: the domain finds them by
    their UUIDs, every object is there, and the whole is sound (the end of the domain checks that)."""
    domain = make_domain(guest, *(dax_pool(f"uuid:{uuid}", name=name) for name, uuid in zip("xy", uuids(guest))),
                         settings={"host": {"grace": "3s"}})
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=1200, size=60_000)
    engine.good("alloc", size=1)
    pools = {pool["name"]: pool for pool in domain.ask("pools")["pools"]}
    assert {name: pool["path"] for name, pool in pools.items()} == {"x": FIRST, "y": SECOND}
    assert all(pool["bytes"]["published"] > 16 * MIB for pool in pools.values()), pools
    uuid, stored = domain.status()["domain"]["uuid"], len(domain.ask("keys", "--limit", "2000")["keys"])

    guest.kill()
    guest.devices.reverse()
    guest.start()

    domain.rejoin()
    assert {pool["name"]: pool["path"] for pool in domain.ask("pools")["pools"]} == {"x": SECOND, "y": FIRST}
    assert domain.status()["domain"]["uuid"] == uuid
    batch = domain.engine("no_claim").good("retrieve_batch", prefix="k", count=1200)
    assert batch.right and batch.statuses.count(OK) == stored > 1000
    report.held(KIND, "a power failure loses no object")
    report.held(KIND, "devices are found by UUID under swapped names")


def test_two_devices_with_one_uuid_are_refused(guest):
    uuid, _other = uuids(guest)
    first, second = (device.memory for device in guest.devices)
    copied = first.read(KERNELS_OWN, 4096)
    if header_of(guest, SECOND)["uuid"] == uuid:  # the guest's order of the devices may be either
        first, second = second, first
    for memory in (first, second):
        memory.write(KERNELS_OWN, copied)
    for pool in (f"uuid:{header_of(guest, FIRST)['uuid']}", "any"):
        said = refused(guest, "--pool", f"devdax:{pool}")
        assert "two devices have UUID" in said and FIRST in said and SECOND in said, said
        assert "maructl device init --force" in said
    assert guest.good("ls /dev/shm") == ""


def test_a_device_of_another_domain_is_refused(guest, make_domain):
    for path in (FIRST, SECOND):
        assert make_domain(guest, dax_pool(path), start=False).maru("--format", "-y").code == 0
    both = make_domain(guest, dax_pool(FIRST, name="mine"), dax_pool(SECOND, name="theirs"), start=False)
    ended = both.maru()
    headers = [header_of(guest, path) for path in (FIRST, SECOND)]
    assert ended.code == 4, ended
    assert f"pool 'theirs': {SECOND} ({headers[1]['uuid']}) belongs to domain {headers[1]['domain']}" in ended.err
    assert f"this is {headers[0]['domain']}" in ended.err and "maructl device clear" in ended.err
    assert [header_of(guest, path) for path in (FIRST, SECOND)] == headers, "a refusal changes nothing"


# -- devices that come, go, or are somebody else's --------------------------------------------------------------------


def pools_of(domain):
    return {pool["path"]: pool for pool in domain.ask("pools")["pools"]}


def test_a_device_that_appears_is_taken_in_and_one_that_goes_is_told(guest, make_domain):
    """`path = "any"`, and a device that is bound to its driver after the daemon's start: within 5 s, by the guest's own
    clock and as slow as that runs, and a client that was there before stores in it. When it goes, the daemon and its clients live on."""
    guest.good("daxctl disable-device dax1.0")
    try:
        domain = make_domain(guest, dax_pool("any"), settings={"control": {"max_pool_bytes": "256MiB"}})
        assert list(pools_of(domain)) == [FIRST]
        engine = domain.engine(pool=8 * MIB, page=64 * KIB)
        enabled = guest.good("daxctl enable-device dax1.0 > /run/enabled 2>&1 && date -u +%FT%T.%3N+00:00").strip()
        wait_until(lambda: SECOND in pools_of(domain), "the device is taken in")
        added = re.search(r"(\S+) info pool 'kv-dax1.0' of [0-9.]+ MiB was added", domain.log_tail(1 << 20)).group(1)
        moments = [datetime.datetime.fromisoformat(moment) for moment in (added, enabled)]
        seconds = (moments[0] - moments[1]).total_seconds()
        assert seconds < 5 * SLOWER, (enabled, added)
        report.said(f"{KIND}: a device that appears is in the domain after {seconds:.1f} s")
        assert header_of(guest, SECOND)["domain"] == domain.status()["domain"]["uuid"]

        engine.good("put_many", prefix="k", count=1200, size=60_000)
        pools = pools_of(domain)
        assert all(pool["bytes"]["published"] > 16 * MIB for pool in pools.values()), pools
        regions = {row["region"]: row["pool"] for row in domain.ask("regions")["regions"]}
        keys = {regions[row["region"]]: row["key"] for row in domain.ask("keys", "--limit", "2000")["keys"]}
        on = {path: keys[pools[path]["pool"]] for path in (FIRST, SECOND)}
        assert all(engine.good("get", key=key).right for key in on.values())
        report.held(KIND, "a device that appears later is taken in")

        guest.good("daxctl disable-device dax1.0")
        wait_until(lambda: f"its device {SECOND} was disabled or has gone" in domain.log_tail(), "the daemon says so")
        lost = engine("get", key=on[SECOND])
        assert lost.status == POISONED and "memory of this value is bad" in lost.detail, lost
        assert engine.good("get", key=on[FIRST]).right and domain.status()
        engine.good("close")
        engine.quit()
        domain.engines.clear()
        guest.good("daxctl enable-device dax1.0")
        wait_until(lambda: f"its device {SECOND} is back, but not for who had it before" in domain.log_tail(),
                   "the daemon says so")
        assert domain.stop() == 0
        # Enabled while somebody had it: the kernel opens it for nobody afterwards.
        ended = domain.maru()
        assert ended.code == 4 and f"{SECOND}: the device has gone, or was disabled" in ended.err, ended
        [command] = re.findall(r"daxctl disable-device dax1\.0 and daxctl enable-device dax1\.0", ended.err)
        guest.good(command.replace(" and ", " && "))
    finally:
        guest.run("daxctl enable-device dax1.0")
    domain.start()
    batch = domain.engine("no_claim").good("retrieve_batch", prefix="k", count=1200)
    assert batch.right and batch.statuses.count(OK) >= 900, "what was on it is there, but for the one that was read"


def test_a_device_that_another_program_uses_is_not_taken(guest, make_domain):
    """As a virtual machine would use it. Who it is stands in each refusal; --force takes the device all the same."""
    program = ("import mmap, os; f = os.open('/dev/dax0.0', os.O_RDWR); m = mmap.mmap(f, 2 << 20); os.close(f);"
               "print('held', flush=True); input()")
    holder = guest.popen(["/usr/bin/python3", "-S", "-c", program])
    assert holder.connection.makefile().readline() == "held\n"
    who = f"in use by process {holder.pid} (python3)"
    blank = guest.devices[0].memory.read(KERNELS_OWN, 4096), guest.devices[1].memory.read(KERNELS_OWN, 4096)
    try:
        domain = make_domain(guest, dax_pool(FIRST), start=False)
        for arguments in ([], ["--format", "-y"]):
            ended = domain.maru(*arguments)
            assert ended.code == 4 and f"pool 'kv': {FIRST} is {who}" in ended.err and "--format --force" in ended.err, ended
        for command in (["init", FIRST], ["init", FIRST, "--json"]):
            ended = guest.run([MARUCTL, "device", *command])
            assert ended.code == 1 and who in ended.err and "--force" in ended.err, ended
        rows = json.loads(guest.good([MARUCTL, "--json", "device", "list"]))["devices"]
        assert {row["path"]: row["held_by"] for row in rows} == {FIRST: [{"pid": holder.pid, "program": "python3"}], SECOND: []}
        assert [row["in_use"] for row in rows] == [True, False]
        assert f"open in process {holder.pid} (python3)" in guest.good([MARUCTL, "device", "show", FIRST])
        other = make_domain(guest, dax_pool(SECOND, name="other"))
        ended = other.maructl("pool", "add", f"devdax:{FIRST}")
        assert ended.code == 1 and who in ended.err, ended
        assert other.stop() == 0
        other.expect_clean = False
        assert guest.devices[0].memory.read(KERNELS_OWN, 4096) in blank, "a refusal writes nothing"

        guest.good([MARUCTL, "device", "init", FIRST, "--force"])
        kept = guest.run([MARUCTL, "device", "clear", FIRST, "-y"])
        assert kept.code == 1 and who in kept.err, kept
        guest.good([MARUCTL, "device", "clear", FIRST, "-y", "--force"])
        assert domain.maru("--format", "-y", "--force").code == 0
        domain.start()  # it is the domain's now, and clients hold it as others may
        domain.engine(pool=8 * MIB, page=64 * KIB).good("put", key="k", id=1, size=60_000)
        domain.restart()
    finally:
        holder.kill()


def test_page_descriptors_on_the_device_are_refused_where_hosts_share_it(guest, make_domain):
    """A namespace made with --map=dev: alone on its machine it serves, with a warning."""
    make = ["ndctl", "create-namespace", "-f", "-e", "namespace0.0", "-m", "devdax", "-a", "2M"]
    guest.good([*make, "--map=dev"])
    try:
        shared = make_domain(guest, dax_pool(FIRST), start=False, settings={"control": {"coherence": "hardware"}})
        ended = shared.maru("--format", "-y")
        assert ended.code == 2 and "--map=dev" in ended.err and "--map=mem" in ended.err, ended
        assert guest.run([MARUCTL, "device", "show", FIRST]).text.count("blank") == 1
        alone = make_domain(guest, dax_pool(FIRST))
        assert "(namespace with --map=dev)" in alone.log_tail()
        assert alone.stop() == 0
        alone.expect_clean = False  # its namespace goes here
    finally:
        guest.good([*make, "--map=mem"])
