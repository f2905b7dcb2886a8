"""Persistent memory as DAX devices: two nvdimms in one machine, over power failures and under changing names."""

import pytest
import report
from harness import KIB, MARUCTL, MIB, OK
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
