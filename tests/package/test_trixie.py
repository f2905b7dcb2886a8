"""The source package on Debian 13, with its newer compiler and libraries: built there, warnings as errors, installed there,
and used while the daemon is killed. In this order; the tests build on one another (pytest -x)."""

import os
import signal
import subprocess
import time

import pytest
from chroot import Machine
from conftest import FOLDER, PACKAGES
from engines import AS_ENGINE, share_chunks
from manager import Manager

BUILD = """
set -e
cd /tmp
dpkg-source -x maru_*.dsc source
cd source
export MARU_AS_TESTED=1 CCACHE_DIR=/var/cache/ccache CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=/tmp/source CC="ccache gcc" CXX="ccache g++"
export DEB_BUILD_OPTIONS="nocheck noautodbgsym" DEB_BUILD_PROFILES=nocheck
dpkg-buildpackage --no-sign --build=binary --jobs=$(nproc)
"""


@pytest.fixture(scope="module", name="trixie")
def fixture_trixie():
    machine = Machine(FOLDER / "trixie" / "root", FOLDER / "trixie-machine")
    cache = subprocess.run(["ccache", "--get-config", "cache_dir"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    os.makedirs(cache, exist_ok=True)
    machine.show(cache, "/var/cache/ccache")
    for part in FOLDER.glob("new/maru_*.dsc"), FOLDER.glob("new/maru_*.tar.*"):
        for path in part:
            (machine.path("/tmp") / path.name).write_bytes(path.read_bytes())
    yield machine
    machine.close()


@pytest.fixture(scope="module", name="service")
def fixture_service(trixie):
    manager = Manager(trixie, FOLDER / "trixie.log")
    yield manager
    manager.close()


def test_it_builds_without_a_warning(trixie):
    begin = time.monotonic()
    said = trixie.run("sh", "-c", BUILD, timeout=3000)
    assert " -Werror " in said
    built = {path.name.split("_")[0] for path in trixie.path("/tmp").glob("*.deb")}
    assert built == set(PACKAGES)
    print(f"trixie: built with {trixie.run('gcc', '--version').splitlines()[0]} in {time.monotonic() - begin:.0f} s")


def test_it_installs_and_the_service_starts(trixie, service):
    trixie.run("sh", "-c", "apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends /tmp/*.deb")
    assert not [entry for entry in service.history if entry.startswith("failed")], service.history
    assert service.running(), service.log_path.read_text()
    verified = trixie.run("systemd-analyze", "verify", "--man=no", "/lib/systemd/system/maru.service")
    assert "maru" not in verified, verified


def test_engines_share_chunks_while_the_daemon_is_killed(trixie, service):
    trixie.run("useradd", "-m", "-G", "maru", "engine")

    def kill_and_restart():
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait(30)
        assert not service.running()
        service.start()

    share_chunks(trixie, kill_and_restart)
    said = trixie.run(*AS_ENGINE, "python3", "-W", "error", "-c", "import maru, sys; print(maru.__name__, sys.version.split()[0])")
    print(f"trixie: two engines share chunks while the daemon is killed; {said.strip()} imports")


def test_purged_nothing_is_left(trixie, service):
    trixie.run("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0", "purge", "-y", *PACKAGES)
    assert not service.running()
    assert trixie.run("ls", "-A", "/dev/shm") == ""
    assert not trixie.run("find", "/", "-xdev", "-not", "-path", "/tmp/*", "-not", "-path", "/var/cache/*", "-iname", "*maru*").split()
