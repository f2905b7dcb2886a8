"""The packages of this checkout, twice (the second with a higher version), and a machine to install them on."""

import os
import pathlib
import subprocess

import pytest
from machine import Machine
from manager import Manager

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = pathlib.Path(os.environ["MARU_PACKAGE_DIR"])  # what tools/check package built
PACKAGES = ["maru", "libmaru-client0", "libmaru-client-dev", "python3-maru"]


def debs(name):
    found = [path for path in sorted((FOLDER / name).glob("*.deb")) if "-dbgsym_" not in path.name]
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


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}"
    return done.stdout
