"""maru on /dev/dax: the daemon by way of libdaxctl, engines by the descriptors that it hands them."""

import pytest
import report
from harness import KIB, MIB
from jobs import conforms, dax_pool, does_its_job, is_on_device, mapping_of, only_pool
from machine import Device

DAX = "/dev/dax0.0"
KIND = "devdax (hmem)"


@pytest.fixture(name="guest", scope="module")
def fixture_guest(make_guest, make_memory):
    """A guest with soft-reserved memory, as most CXL memory comes: the whole file is the device."""
    return make_guest("dax", [Device("hmem", make_memory())], modules=["kmem"])


@pytest.fixture(autouse=True)
def blank_device(guest):
    """Each test begins with a device that nobody has written on."""
    guest.devices[0].memory.write(0, bytes(64 * MIB))
    guest.good("rm -f /dev/shm/maru-*")


def test_devdax_conforms(guest):
    conforms(guest, f"devdax:{DAX}", KIND)


def test_chunks_are_shared_on_the_device(guest, make_domain):
    domain = make_domain(guest, dax_pool())
    pool = only_pool(domain)
    is_on_device(domain, does_its_job(domain, KIND))
    report.said(f"{KIND}: {pool['description']}, {pool['size'] // MIB} MiB")


def test_the_bytes_are_the_device(guest, make_domain):
    """What an engine wrote is in the memory behind the device, at the place that region and page name."""
    domain = make_domain(guest, dax_pool())
    domain.engine(pool=8 * MIB, page=64 * KIB).good("close")
    marker = b"these very bytes are on the device" * 10
    assert domain.maructl("put", "marker", "-", given=marker).code == 0
    whole = guest.devices[0].memory.read(0, 256 * MIB)
    assert whole.count(marker) == 1


def test_an_engine_needs_no_right_on_the_device(guest, make_domain):
    """The device is root's alone; a client of the daemon's group gets what it needs over the socket."""
    assert guest.good(f"stat -c '%U %a' {DAX}") == "root 600\n"
    domain = make_domain(guest, dax_pool())
    engine = domain.engine(pool=8 * MIB, page=64 * KIB, connect=False,
                           wrapper=["setpriv", "--reuid=65534", "--regid=0", "--clear-groups"])
    engine.connect(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    assert engine.good("get", key="k").right
    mapping_of(guest, engine.pid, DAX)
