"""Whose slot is it? A process is more than its number."""

import contextlib
import os
import pathlib
import signal
import struct

import pytest
import shared_region
from harness import KIB, MIB, OK, wait_until


def start_time(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


def hold_something(domain):
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    engine.good("retrieve", key="k")
    engine.good("alloc", size=100)
    return engine


def become_another_program(engine):
    """The same process id, start time and parent; nothing else is left of the client."""
    engine.send("mix", "until_told", keys=4, client=9)
    engine.process.stdin.write(b"mix-exec\n")
    engine.process.stdin.flush()
    wait_until(lambda: pathlib.Path(f"/proc/{engine.pid}/comm").read_text() == "sleep\n", "it runs another program")


def is_over(domain, engine):
    assert engine.alive(), "the process lives on"
    wait_until(domain.nothing_held, "what the former program held is back")
    domain.check_clean()
    assert domain.engine(pool=4 * MIB, page=64 * KIB).good("get", key="k").right


def test_exec_while_the_daemon_serves(domain):
    engine = hold_something(domain)
    become_another_program(engine)
    is_over(domain, engine)


def test_exec_before_the_daemon_is_back(domain):
    engine = hold_something(domain)
    domain.kill()
    become_another_program(engine)
    domain.start()
    is_over(domain, engine)


def test_exec_after_a_restart_that_the_client_did_not_see(domain):
    """It was stopped while the daemon changed, and execs before it ever speaks to the new one."""
    engine = hold_something(domain)
    engine.signal(signal.SIGSTOP)
    domain.restart()
    assert domain.clients()[engine.name]["state"] == "ACTIVE"
    engine.send("mix", "until_told", keys=4, client=9)
    engine.process.stdin.write(b"mix-exec\n")
    engine.process.stdin.flush()
    engine.signal(signal.SIGCONT)
    wait_until(lambda: pathlib.Path(f"/proc/{engine.pid}/comm").read_text() == "sleep\n", "it runs another program")
    is_over(domain, engine)


def test_a_lost_lock_file_makes_nobody_dead(domain):
    """The lock says nothing when its file was taken away: the same process, the same program, so it lives."""
    engine = hold_something(domain)
    domain.kill()
    pathlib.Path(f"{domain.pool_path}.lock").unlink()
    domain.start()
    wait_until(lambda: engine("ping").status == OK, "it is back")
    assert engine("verify").right
    engine.good("release")
    engine.good("free")


def forge(domain, slot, pid=None, started=None, stamp=None):
    with open(domain.pool_path, "r+b") as file:
        for at, form, value in ((12, "<I", pid), (24, "<Q", started), (32, "<Q", stamp)):
            if value is not None:
                file.seek(slot.at + at)
                file.write(struct.pack(form, value))


@pytest.fixture
def left_behind(make_domain):
    """A slot whose client and daemon have died. After another boot the next daemon waits for the grace: the least."""
    domain = make_domain(settings={"host": {"grace": "3s"}})
    engine = hold_something(domain)
    domain.kill()
    engine.kill()
    with contextlib.closing(shared_region.Region(domain.pool_path)) as region:
        return domain, region.slot_of(engine.pid)


def test_its_number_belongs_to_an_unrelated_process(left_behind):
    """tox-dev/filelock 660: a number that was used again kept a dead owner alive."""
    domain, slot = left_behind
    bystander = domain.engine(connect=False)
    forge(domain, slot, pid=bystander.pid)
    domain.start()
    wait_until(lambda: not domain.clients(), "it is swept")
    assert domain.page_counts()["reserved"] == 0 and bystander.alive()


def test_its_number_belongs_to_the_new_daemon(left_behind):
    """Also 660: as process 1 of one container after the other."""
    domain, slot = left_behind
    domain.start(preexec=lambda: forge(domain, slot, pid=os.getpid()))
    wait_until(lambda: not domain.clients(), "it is swept")
    assert domain.page_counts()["reserved"] == 0


def test_another_program_since_then(left_behind):
    """Number and start time are those of a living process, the stamp of its program is not."""
    domain, slot = left_behind
    bystander = domain.engine(connect=False)
    forge(domain, slot, pid=bystander.pid, started=start_time(bystander.pid))
    domain.start()
    wait_until(lambda: not domain.clients(), "it is swept")
    assert bystander.alive()


def test_the_machine_was_restarted_since(left_behind):
    """Number, start time and lock file may all fit by chance: after another boot nobody of then lives."""
    domain, slot = left_behind
    bystander = domain.engine(connect=False)
    forge(domain, slot, pid=bystander.pid, started=start_time(bystander.pid), stamp=0)
    domain.start()
    assert list(domain.clients()), "as far as anybody can tell, that is the client"
    domain.kill()
    with open(domain.pool_path, "r+b") as file:
        file.seek(shared_region.host_at(domain.pool_path) + 16)
        file.write(os.urandom(16))
    domain.start()
    wait_until(lambda: not domain.clients(), "it is swept")
    assert domain.page_counts()["reserved"] == 0 and bystander.alive()
