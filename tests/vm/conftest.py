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

harness.SLOWER = int(os.environ.get("MARU_TEST_SLOWER", 10))  # an emulated processor

# Fixtures are found by their names here.
from domain import GuestDomain  # noqa: E402
from fixtures import termination_cleans_up, within_limit  # noqa: E402, F401
from machine import Guest, SharedMemory  # noqa: E402


@pytest.fixture(scope="session")
def image():
    """The folder of kernel and initramfs, made when they are not there or not of these sources."""
    folder = pathlib.Path(os.environ.get("MARU_VM_IMAGE", harness.BUILD.parent / "vm"))
    subprocess.run([HERE / "make-image", folder], check=True, stdin=subprocess.DEVNULL, timeout=600)
    return folder


@pytest.fixture(scope="module")
def make_guest(image, tmp_path_factory):
    """Boots guests for the tests of a module: make_guest(name, devices, ...), see machine.Guest."""
    guests = []

    def make(name, *arguments, **options):
        guest = Guest(image, tmp_path_factory.mktemp("guest") / name, name, *arguments, **options)
        guests.append(guest)
        guest.start()
        print(f"\nvm: guest {name} ({guest.hardware()}): {guest.boot_seconds:.1f} s to its first command")
        return guest

    yield make
    for guest in guests:
        guest.dispose()


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
    domains = []

    def make(guest, *pools, start=True, **options):
        domain = GuestDomain(guest, *pools, **options)
        domains.append(domain)
        return domain.start() if start else domain

    yield make
    failures = []
    for domain in domains:
        try:
            domain.finish()
        except Exception as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
