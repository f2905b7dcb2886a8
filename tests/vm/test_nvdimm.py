"""Persistent memory as DAX devices: two nvdimms in one machine."""

import pytest
from harness import MIB
from jobs import conforms, dax_pool, does_its_job, is_on_device
from machine import Device

FIRST = "/dev/dax0.0"
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


def test_nvdimm_conforms(guest):
    conforms(guest, f"devdax:{FIRST}", KIND)


def test_nvdimm_pool(guest, make_domain):
    domain = make_domain(guest, dax_pool(FIRST))
    is_on_device(domain, does_its_job(domain, KIND), path=FIRST)
