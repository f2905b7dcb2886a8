"""The packages of this checkout, twice (the second with a higher version), and a machine to install them on."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "vm"))

import pytest  # noqa: E402
from chroot import Machine  # noqa: E402
from disk import make_disk  # noqa: E402
from machine import MIB, Device, Guest, SharedMemory  # noqa: E402
from manager import Manager  # noqa: E402

FOLDER = pathlib.Path(os.environ["MARU_PACKAGE_DIR"])  # what tools/check package built
BOOT = bool(os.environ.get("MARU_PACKAGE_BOOT"))  # an emulated machine takes its time, so it is asked for
TRIXIE = bool(os.environ.get("MARU_PACKAGE_TRIXIE"))  # so is a second compiler
collect_ignore = ([] if BOOT else ["test_systemd.py"]) + ([] if TRIXIE else ["test_trixie.py"])
PACKAGES = ["maru", "libmaru-client0", "libmaru-client-dev", "python3-maru"]


def debs(name):
    folder = FOLDER / {"new": "new", "newer": "new/next"}[name]
    found = [path for path in sorted(folder.glob("*.deb")) if "-dbgsym_" not in path.name]
    assert sorted(path.name.split("_")[0] for path in found) == sorted(PACKAGES)
    return found


@pytest.fixture(scope="session", name="machine")
def fixture_machine():
    machine = Machine(FOLDER / "debian" / "root", FOLDER / "machine")
    for name in ("new", "newer"):
        (machine.path("/tmp") / name).mkdir()
        for deb in debs(name):
            (machine.path("/tmp") / name / deb.name).write_bytes(deb.read_bytes())
    yield machine
    machine.close()


@pytest.fixture(scope="session", name="manager")
def fixture_manager(machine):
    manager = Manager(machine, FOLDER / "daemon.log")
    yield manager
    manager.close()


@pytest.fixture(scope="session", name="fresh")
def fixture_fresh(machine):
    """What was there before anything of ours: files, and the lines of the user database."""
    return machine.files(), machine.run("getent", "passwd"), machine.run("getent", "group")


@pytest.fixture(scope="session", name="booting", autouse=BOOT)
def fixture_booting():
    """A virtual machine with a DAX device that is switched on at once, so that it boots beside the first tests."""
    folder = FOLDER / "guest"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    disk = make_disk(FOLDER / "debian" / "root", folder, {name: debs(name) for name in ("new", "newer")}, [HERE / "pace.c"])
    memory = SharedMemory(256 * MIB)
    guest = Guest(os.environ["MARU_VM_IMAGE"], folder / "machine", "booted", [Device("hmem", memory)], memory=1024 * MIB,
                  processors=2, disk=disk)
    guest.power_on()
    yield guest
    guest.dispose()
    memory.close()
    disk.unlink()


def counts(line):
    """What pace.c says of itself."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}"
    return done.stdout
