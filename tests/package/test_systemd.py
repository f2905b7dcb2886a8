"""The packages on a machine of their own, where systemd is process 1 on Debian's kernel: what a chroot cannot show, which is
the unit's sandbox, restarts after a crash with the descriptors that systemd keeps, DAX devices by udev, and a reboot. In this
order; the tests build on one another (pytest -x)."""

import re

import pytest
from conftest import counts

RATE = 200  # operations a second of the engine that goes on through the upgrade, on an emulated processor
KEPT = """[[pool]]
name = "pages"
kind = "hugetlb"
size = "128MiB"
"""
HUGE_PAGES = 72  # of 2 MiB: that pool and a rest
DAX = """[[pool]]
name = "dax"
kind = "devdax"
path = "/dev/dax0.0"
"""
# Without --no-download, under which apt takes no package by its path; all that it needs is on the disk.
APT = "DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -y --no-install-recommends"


@pytest.fixture(scope="module", name="guest")
def fixture_guest(booting):
    booting.wait_booted()
    print(f"systemd: {booting.boot_seconds:.1f} s from power to the first command")
    return booting


def state(guest):
    """What systemd says of the unit, as a dictionary."""
    wanted = "Type,ActiveState,SubState,MainPID,NRestarts,NFileDescriptorStore,Result,UnitFileState"
    return dict(line.split("=", 1) for line in guest.good(f"systemctl show -p {wanted} maru").splitlines())


def wait_for(guest, condition, what, within_s=120):
    """A shell condition of the guest, looked at there, so that an emulated processor is not kept busy by questions."""
    ended = guest.run(f"for turn in $(seq {within_s * 2}); do if {condition}; then exit 0; fi; sleep 0.5; done; exit 1", within_s=within_s * 10)
    assert ended.code == 0, f"{what}: {state(guest)}\n" + guest.run("journalctl -b --no-pager -n 40").text


def put(guest, key, text):
    guest.good(f"echo '{text}' | maructl put {key} -")


def get(guest, key):
    return guest.good(f"maructl get {key} -o -").strip()


def configure(guest, text):
    guest.good(["sh", "-c", f"cat > /etc/maru/maru.toml << 'END'\n{text}END\n"])


def test_systemd_is_process_1_and_installing_starts_the_service(guest):
    assert guest.good("cat /proc/1/comm") == "systemd\n"
    guest.good("systemctl is-system-running --wait || true", within_s=600)
    guest.good(f"{APT} install /srv/new/*.deb", within_s=1200)
    now = state(guest)
    assert (now["Type"], now["ActiveState"], now["SubState"], now["UnitFileState"]) == \
        ("notify", "active", "running", "enabled"), guest.run("journalctl -b --no-pager -u maru").text
    assert guest.good("systemctl --failed --no-legend --plain") == ""


def test_the_sandbox_holds(guest):
    pid = state(guest)["MainPID"]
    status = dict(re.findall(r"^(\w+):\s*(.*)$", guest.good(f"cat /proc/{pid}/status"), re.M))
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    kill = f"{1 << 5:016x}"
    assert [status[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")] == [kill] * 4
    assert status["Uid"].split()[0] == guest.good("id -u maru").strip()
    inside = f"nsenter --mount=/proc/{pid}/ns/mnt --root=/proc/{pid}/root"
    for folder in ("/etc", "/usr", "/var", "/sys"):
        assert guest.run(f"{inside} touch {folder}/probe").code != 0, folder
    assert guest.run(f"{inside} touch /dev/shm/probe && rm /dev/shm/probe").code == 0
    journal = guest.good("journalctl -b --no-pager -u maru")
    assert "epoll" not in journal, journal  # io_uring passes the filter of system calls
    rated = guest.good("systemd-analyze security --no-pager maru", within_s=300)
    score = re.search(r"Overall exposure level for maru.service: ([\d.]+) (\w+)", rated)
    assert score and float(score.group(1)) < 3.0, rated
    print(f"systemd: security of the running service: exposure {score.group(1)} {score.group(2)} (0 is least, 10 is most)")


def test_killed_it_is_back_with_everything_systemd_kept(guest):
    guest.good(f"echo {HUGE_PAGES} > /proc/sys/vm/nr_hugepages")
    assert guest.good("cat /proc/sys/vm/nr_hugepages") == f"{HUGE_PAGES}\n"
    configure(guest, KEPT)
    guest.good("systemctl restart maru", within_s=300)
    assert not guest.run("ls /dev/hugepages/*").text, "the pool has no name, or systemd kept nothing"
    put(guest, "kept", "in nameless pages")
    before = state(guest)
    assert before["NFileDescriptorStore"] == "1"  # the pool
    guest.good(f"kill -9 {before['MainPID']}")
    wait_for(guest, "test $(systemctl show -P NRestarts maru) = 1 && systemctl is-active -q maru", "systemd starts it again")
    after = state(guest)
    assert after["MainPID"] != before["MainPID"]
    assert get(guest, "kept") == "in nameless pages"
    guest.good("systemctl restart maru", within_s=300)
    assert get(guest, "kept") == "in nameless pages"
    print("systemd: killed, it was started again and kept its objects in nameless huge pages; restarted, too")


def test_an_upgrade_costs_no_operation_and_keeps_objects(guest):
    first = state(guest)["MainPID"]
    guest.good("echo before > /tmp/phase")
    engine = guest.popen(f"exec pace 3600 {RATE} /tmp/phase /tmp/end > /tmp/said")
    wait_for(guest, "grep -Eq 'before=[0-9]{3}' /tmp/said", "the engine is under way")
    guest.good("echo during > /tmp/phase")
    guest.good(f"{APT} install /srv/newer/*.deb", within_s=1200)
    guest.good("echo after > /tmp/phase")
    wait_for(guest, "grep -Eq 'after=[0-9]{3}' /tmp/said", "the engine goes on")
    guest.good("touch /tmp/end")
    status = engine.wait(300)
    said = guest.good("tail -n 2 /tmp/said").splitlines()
    assert status == 0, guest.good("tail -n 20 /tmp/said")
    done = counts(said[0])
    now = state(guest)
    print(f"systemd: upgrade: {done['before']} operations before, {done['during']} during, {done['after']} after, "
          f"{done['failed']} failed; process {first}, then {now['MainPID']}; {said[1]}")
    assert done["failed"] == 0 and done["during"] > 0 and "connected=1" in said[1]
    assert now["MainPID"] != first and now["ActiveState"] == "active"
    assert get(guest, "kept") == "in nameless pages"
    assert "+1" in guest.good("dpkg-query -W -f '${Version}' maru")


def test_a_dax_device_is_opened_and_survives_a_reboot(guest):
    assert guest.good("stat -c '%G %a' /dev/dax0.0") == "maru 660\n"
    configure(guest, DAX)
    # What systemd keeps for the pool of the other domain goes with a stop.
    guest.good("systemctl stop maru && systemctl start maru", within_s=300)
    put(guest, "lasting", "on the device")
    boot = guest.good("cat /proc/sys/kernel/random/boot_id")
    guest.run("systemctl reboot")
    guest.qemu.wait(600)
    guest.start()
    assert guest.good("cat /proc/sys/kernel/random/boot_id") != boot
    wait_for(guest, "systemctl is-active -q maru", "the service is up by itself")
    assert get(guest, "lasting") == "on the device"
    print(f"systemd: rebooted in {guest.boot_seconds:.1f} s; the service is up by itself, the object on the DAX device is there")


def test_purged_nothing_is_left(guest):
    guest.good(f"{APT} purge maru libmaru-client0 libmaru-client-dev python3-maru", within_s=1200)
    assert guest.run("systemctl cat maru").code != 0
    assert guest.run("getent passwd maru").text == guest.run("getent group maru").text == ""
    assert guest.good("ls -A /dev/shm") == ""
    assert guest.good("find / -xdev -not -path '/srv/*' -not -path '/tmp/*' -not -path '/var/log/*' "
                      "-iname '*maru*'; find /run -path /run/systemd -prune -o -iname '*maru*' -print", within_s=300) == ""
    assert guest.good("systemctl --failed --no-legend --plain") == ""
    print("systemd: purged, nothing of maru is left")
