"""Fixtures: guests and the domains in them. Each domain is proven sound and each guest is off at the end."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "e2e"))
sys.path.insert(0, str(HERE))

import harness  # noqa: E402
import pytest  # noqa: E402
import report  # noqa: E402

harness.SLOWER = int(os.environ.get("MARU_TEST_SLOWER", 10))  # an emulated processor

# What takes long is asked for.
collect_ignore = [] if os.environ.get("MARU_VM_LONG") else ["test_end_to_end.py"]

# Fixtures are found by their names here.
from domain import GuestDomain  # noqa: E402
from fixtures import finished_domains, termination_cleans_up, within_limit  # noqa: E402, F401
from machine import Guest, SharedMemory  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def reported():
    yield
    print(f"\n{report.text()}", end="")


@pytest.fixture(scope="session")
def image():
    """The folder of kernel and initramfs, made when they are not there or not of these sources."""
    folder = pathlib.Path(os.environ.get("MARU_VM_IMAGE", harness.BUILD.parent / "vm"))
    subprocess.run([HERE / "make-image", folder], check=True, stdin=subprocess.DEVNULL, timeout=600)
    return folder


@pytest.fixture(scope="module")
def make_guests(image, tmp_path_factory):
    """Boots guests at the same time for the tests of a module; each is told by the options of machine.Guest."""
    guests = []

    def make(wanted):
        made = [Guest(image, tmp_path_factory.mktemp("guest") / options["name"], **options) for options in wanted]
        guests.extend(made)
        for guest in made:
            guest.power_on()
        for guest in made:
            guest.wait_booted()
            report.said(f"guest {guest.name} ({guest.hardware()}): {guest.boot_seconds:.1f} s to its first command")
        return made

    yield make
    for guest in guests:
        guest.dispose()


@pytest.fixture(scope="module")
def make_guest(make_guests):
    """Boots one guest: make_guest(name, devices, ...)."""
    return lambda name, devices=(), **options: make_guests([{"name": name, "devices": devices, **options}])[0]


@pytest.fixture(scope="module")
def make_memory():
    """Makes memory that guests share."""
    memories = []

    def make(size=256 * harness.MIB):
        memories.append(SharedMemory(size))
        return memories[-1]

    yield make
    for memory in memories:
        memory.close()


@pytest.fixture
def make_domain():
    """Starts daemons in guests: make_domain(guest, {"kind": ...}, settings={...}); `start=False` leaves that to the test."""
    with finished_domains() as domains:

        def make(guest, *pools, start=True, **options):
            domains.append(GuestDomain(guest, *pools, **options))
            return domains[-1].start() if start else domains[-1]

        yield make
