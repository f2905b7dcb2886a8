"""The machines that the other tests rely on."""

import pathlib
import signal
import subprocess
import sys

import pytest
from harness import MIB, Late, wait_until
from machine import Device

HERE = pathlib.Path(__file__).parent


@pytest.fixture(name="memory", scope="module")
def fixture_memory(make_memory):
    return make_memory(64 * MIB)


@pytest.fixture(name="guest", scope="module")
def fixture_guest(make_guest, memory):
    return make_guest("machine", [Device("hmem", memory)])


def test_a_command_is_a_process_with_input_output_and_an_end(guest):
    ended = guest.run("cat; echo to-stderr >&2; exit 7", given=b"x" * 300_000)
    assert (ended.code, len(ended.out), ended.err) == (7, 300_000, "to-stderr\n")
    process = guest.popen(["sleep", "1000"])
    assert process.poll() is None
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_the_device_is_the_shared_memory(guest, memory):
    """/dev/dax0.0 by name and by major and minor number in sysfs; a byte written here is read there and back."""
    number = guest.good("stat -c %t:%T /dev/dax0.0").strip()
    major, minor = (int(part, 16) for part in number.split(":"))
    assert int(guest.good(f"cat /sys/dev/char/{major}:{minor}/size")) == memory.size
    memory.write(2 * MIB, b"from the host")
    program = ("import mmap, os; f = os.open('/dev/dax0.0', os.O_RDWR); m = mmap.mmap(f, 4 << 20);"
               "print(m[2 << 20:(2 << 20) + 13]); m[0:14] = b'from the guest'")
    assert guest.good(["/usr/bin/python3", "-S", "-c", program]).strip() == "b'from the host'"
    assert memory.read(0, 14) == b"from the guest"


def test_a_stopped_guest_stands_and_goes_on(guest):
    process = guest.popen("while read line; do echo $line; done")
    guest.stop()
    with pytest.raises(Late):
        guest.run("true", within_s=1)
    guest.resume()
    process.stdin.write(b"still here\n")
    assert process.connection.makefile().readline() == "still here\n"
    process.kill()


def test_a_killed_guest_comes_back_as_another_boot(guest, memory):
    boot = guest.good("cat /proc/sys/kernel/random/boot_id")
    memory.write(0, b"kept")
    process = guest.popen(["sleep", "1000"])
    guest.restart()
    assert process.wait() == -signal.SIGKILL
    assert guest.good("cat /proc/sys/kernel/random/boot_id") != boot
    assert memory.read(0, 4) == b"kept"


def test_no_guest_outlives_its_tests(image, tmp_path):
    """SIGKILL of the test process leaves nobody to clean up."""
    program = ("import sys, machine; guest = machine.Guest(*sys.argv[1:], 'orphan'); guest.power_on();"
               "print(guest.qemu.pid, flush=True); sys.stdin.read()")
    owner = subprocess.Popen([sys.executable, "-c", program, image, tmp_path / "orphan"], cwd=HERE,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    qemu = int(owner.stdout.readline())
    assert "qemu" in pathlib.Path(f"/proc/{qemu}/cmdline").read_text()
    owner.kill()
    owner.wait()
    wait_until(lambda: not pathlib.Path(f"/proc/{qemu}/exe").exists(), "QEMU is gone with it")
    owner.stdin.close()
    owner.stdout.close()
