"""Daemon and engines in namespaces of their own, as in containers: what one needs of the other is a socket."""

import os
import pathlib
import signal
import subprocess

import pytest
from harness import KIB, MIB, OK, PINNED, TIMEOUT, UNAVAILABLE, Domain, all_stopped, wait_until

# Without root the kernel wants a user namespace for the others; as root it is one more that must do no harm.
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
INSIDE = "/mnt/m.sock"
# Process 1 of the container: /dev/shm is empty, the daemon's folder is not to be seen, one thing of it is mounted.
# $1 is what is mounted, $2 the daemon's folder, $3 "exec" or "child": whether the program becomes process 1.
ENTRY = """set -e
mount -t tmpfs none /dev/shm
mount -t tmpfs none /mnt
if [ -d "$1" ]; then mkdir /mnt/run && mount --bind "$1" /mnt/run; else touch /mnt/m.sock && mount --bind "$1" /mnt/m.sock; fi
mount -t tmpfs none "$2"
how=$3
shift 3
if [ "$how" = exec ]; then exec "$@"; fi
"$@" || exit $?
"""


@pytest.fixture(autouse=True, scope="module")
def namespaces():
    """As root namespaces must be there; another user may be forbidden to make them."""
    tried = subprocess.run([*UNSHARE, "--ipc", "--net", "true"], capture_output=True, text=True, check=False, timeout=20)
    if tried.returncode != 0 and os.geteuid() != 0:
        pytest.skip(f"this user may not make namespaces: {tried.stderr.strip()}")
    assert tried.returncode == 0, tried.stderr


def child_of(pid):
    """The only child of a process."""
    def look():
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    children = wait_until(look, f"process {pid} has a child")
    assert len(children) == 1
    return int(children[0])


def namespaces_of(pid):
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("user", "mnt", "pid", "ipc", "net")}


class Contained:
    """An engine in a container. `init` is its process 1, `pid` the engine, both as seen from outside."""

    def __init__(self, domain, mounted, how="exec"):
        wrapper = (*UNSHARE, "--ipc", "--net", "sh", "-c", ENTRY, "sh", str(mounted), str(domain.folder), how)
        self.engine = domain.engine(connect=False, wrapper=wrapper)
        self.name = self.engine.name
        self.init = child_of(self.engine.pid)
        self.pid = self.init if how == "exec" else child_of(self.init)
        own, ours = namespaces_of(self.pid), namespaces_of(os.getpid())
        assert not set(own.values()) & set(ours.values()), (own, ours)
        seen = pathlib.Path(f"/proc/{self.pid}/root")  # what it sees as /
        assert not list((seen / "dev/shm").iterdir())
        assert not list((seen / domain.folder.relative_to("/")).iterdir())

    def connect(self, server=INSIDE, **arguments):
        return self.engine.connect(server=server, pool=8 * MIB, page=64 * KIB, **arguments)

    def kill(self, pid):
        """SIGKILL to its engine or to its process 1; returns when the container has ended."""
        os.kill(pid, signal.SIGKILL)
        self.engine.process.wait(10)


def hold(engine):
    """A view, a page that is reserved, a pin by name."""
    engine.good("retrieve", key="outside", v="held")
    engine.good("alloc", size=60_000, p="reserved")
    engine.good("pin", key="outside")


def maps_the_pool(pid, path):
    status = path.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    return any(line.split()[3:5] == [device, str(status.st_ino)]
               for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines())


@pytest.mark.parametrize("victim", ["engine", "init"])
def test_an_engine_in_a_container(domain, victim):
    """User, mount, pid, ipc and network namespaces of its own, nothing in its /dev/shm: one socket is enough to read in
    place what an engine outside stored, and the other way round; and when it is killed, all it held comes back."""
    outside = domain.engine(pool=8 * MIB, page=64 * KIB)
    outside.good("put", key="outside", id=1, size=60_000)
    there = outside.good("retrieve", key="outside", v="mine")
    inside = Contained(domain, domain.socket, how="child")
    inside.connect()

    hold(inside.engine)
    here = inside.engine.good("retrieve", key="outside", v="again")
    assert (here.region, here.page) == (there.region, there.page), "another copy"
    assert inside.engine.good("verify", v="held").id == 1
    assert maps_the_pool(inside.pid, domain.pool_path)
    inside.engine.good("put", key="inside", id=2, size=60_000)
    assert outside.good("get", key="inside").id == 2
    row = domain.clients()[inside.name]
    assert row["pid"] == inside.pid and row["key_pins"] == 1 and row["leases"] >= 2
    outside.good("release", v="mine")
    assert outside("remove", key="outside").status == PINNED

    inside.kill(inside.pid if victim == "engine" else inside.init)
    wait_until(lambda: set(domain.clients()) == {outside.name}, "it is swept")
    wait_until(lambda: domain.page_counts()["reserved"] == 0, "its page is free")
    outside.good("remove", key="outside")
    assert outside.good("get", key="inside").id == 2
    domain.check_clean()


def test_a_daemon_that_restarts_beside_a_container(domain):
    """The folder of the socket is mounted: the next daemon's socket is found there. Who was killed meanwhile is swept by
    its lock alone, who was stopped is not."""
    outside = domain.engine(pool=8 * MIB, page=64 * KIB)
    outside.good("put", key="outside", id=1, size=60_000)
    killed, stopped, lives = (Contained(domain, domain.folder) for _ in range(3))
    for inside in (killed, stopped, lives):
        inside.connect(server="/mnt/run/m.sock")
        hold(inside.engine)
    os.kill(stopped.pid, signal.SIGSTOP)
    wait_until(lambda: all_stopped(stopped.pid), "it stands")
    domain.kill()
    killed.kill(killed.pid)
    assert lives.engine.good("verify", v="held").right
    lives.engine.good("put", key="meanwhile", id=3, size=60_000)

    domain.start()
    wait_until(lambda: set(domain.clients()) == {outside.name, stopped.name, lives.name}, "the dead one is swept")
    wait_until(lambda: lives.engine("ping").status == OK, "it is connected again")
    assert domain.clients()[stopped.name]["state"] == "ACTIVE"
    os.kill(stopped.pid, signal.SIGCONT)
    wait_until(lambda: stopped.engine("ping").status == OK, "it goes on")
    for inside in (stopped, lives):
        assert inside.engine.good("verify", v="held").id == 1
        inside.engine.good("free", p="reserved")
    assert outside.good("get", key="meanwhile").id == 3


def test_a_mounted_socket_does_not_see_the_next_daemon(domain):
    """A mount of the socket itself stays the old daemon's: the engine reads and stores on, and what needs a daemon says
    that there is none."""
    inside = Contained(domain, domain.socket)
    inside.connect()
    inside.engine.good("put", key="k", id=1, size=60_000)
    domain.restart()
    assert inside.engine("ping").status in (UNAVAILABLE, TIMEOUT)
    inside.engine.good("put", key="l", id=2, size=60_000)
    assert inside.engine.good("get", key="k").id == 1
    assert domain.clients()[inside.name]["state"] == "ACTIVE"
    inside.kill(inside.pid)
    wait_until(lambda: not domain.clients(), "it is swept")


class ContainedDaemon(Domain):
    """A daemon as process 1 of a pid namespace: it sees nobody outside."""

    def launch(self, preexec):
        self.wrapper = UNSHARE
        started = super().launch(preexec)
        self.daemon = child_of(started.pid)
        return started

    def kill(self):
        os.kill(self.daemon, signal.SIGKILL)
        self.process.wait(10)

    def stop(self):
        os.kill(self.daemon, signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture
def contained(make_domain):
    return make_domain(kind=ContainedDaemon)


def test_a_daemon_in_a_container(contained):
    """It cannot see any client's process: a lock that is free, or the kernel's own handle, proves a death, before and
    after a restart, and an idle client that lives is not taken for dead."""
    assert os.readlink(f"/proc/{contained.daemon}/ns/pid") != os.readlink("/proc/self/ns/pid")
    first, second, lives = (contained.engine(pool=8 * MIB, page=64 * KIB) for _ in range(3))
    lives.good("put", key="outside", id=1, size=60_000)
    for engine in (first, second, lives):
        hold(engine)
    first.kill()
    wait_until(lambda: set(contained.clients()) == {second.name, lives.name}, "it is swept")
    lives.signal(signal.SIGSTOP)
    wait_until(lambda: all_stopped(lives.pid), "it stands")
    contained.restart()
    assert contained.clients()[lives.name]["state"] == "ACTIVE"
    lives.signal(signal.SIGCONT)
    wait_until(lambda: second("ping").status == OK and lives("ping").status == OK, "both are connected again")
    contained.kill()
    second.kill()
    contained.start()
    wait_until(lambda: set(contained.clients()) == {lives.name}, "it is swept by its lock")
    wait_until(lambda: lives("ping").status == OK, "it is connected again")
    assert lives.good("verify", v="held").id == 1
    lives.good("free", p="reserved")
    assert contained.page_counts()["reserved"] == 0


def test_each_is_process_1_of_its_own_container(contained):
    """tox-dev/filelock 660: process 1 in two containers kept a stale owner alive. Here daemon and engines all are."""
    dead, lives = (Contained(contained, contained.folder) for _ in range(2))
    lives.connect(server="/mnt/run/m.sock")
    lives.engine.good("put", key="outside", id=1, size=60_000)
    dead.connect(server="/mnt/run/m.sock")
    for inside in (dead, lives):
        hold(inside.engine)
    contained.kill()
    dead.kill(dead.pid)
    contained.start()
    wait_until(lambda: set(contained.clients()) == {lives.name}, "the dead one is swept")
    wait_until(lambda: lives.engine("ping").status == OK, "the other is connected again")
    assert lives.engine.good("verify", v="held").id == 1
    lives.kill(lives.pid)
    wait_until(contained.nothing_held, "nothing is held")
