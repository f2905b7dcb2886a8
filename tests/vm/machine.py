"""Virtual machines for tests: QEMU without KVM, Debian's kernel, the host's own programs, shared DAX memory.

    memory = SharedMemory(256 << 20)
    guest = Guest(image, folder, "a", [Device("hmem", memory)])
    guest.start()
    print(guest.run("maru --version").text)
    process = guest.popen("cat")        # as subprocess.Popen: stdin, stdout, poll, wait, send_signal
    guest.stop(), guest.resume(), guest.kill(), guest.restart()

No guest outlives the process that started it, however that one ends, and the shared memory has no name that could stay.
"""

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import re
import secrets
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

from harness import MIB, Ended, Late, process_state, wait_until  # noqa: E402

AGENT_PORT = 7000  # as in agent.c
BOOT_LIMIT_S = 600  # seconds are enough where nobody else wants the processors
PR_SET_PDEATHSIG = 1
NICENESS = 10


class SharedMemory:
    """What several guests have in common, as behind one switch. An anonymous file: it goes with its last user."""

    def __init__(self, size):
        self.size = size
        self.descriptor = os.memfd_create("maru-vm", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        self.path = f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def read(self, offset, size):
        return os.pread(self.descriptor, size, offset)

    def write(self, offset, data):
        os.pwrite(self.descriptor, data, offset)

    def close(self):
        os.close(self.descriptor)


@dataclasses.dataclass(frozen=True)
class Device:
    """How a guest sees a SharedMemory.

    hmem: "soft reserved" memory, as firmware marks CXL memory: /dev/dax0.0 at once, offset 0 of the device is offset 0
          of the file. One a guest, on NUMA node 1, which has no processors.
    nvdimm: persistent memory; Guest.namespace makes a DAX device or a block device of it. Its first 2 MiB are the
          kernel's.
    """

    kind: str
    memory: SharedMemory


MODULES = {"hmem": ["device_dax", "dax_hmem"], "nvdimm": ["nfit", "nd_pmem", "dax_pmem", "device_dax"]}


class Guest:
    """One machine. `folder` keeps its console, its log and `share`, which the guest sees as /share. With a `disk`, the
    image of an ext4, the guest's files are what is on it and its own /sbin/init goes on as process 1."""

    def __init__(self, image, folder, name, devices=(), memory=512 * MIB, processors=1, kernel_options="", modules=(),
                 disk=None):
        self.image, self.folder, self.name = pathlib.Path(image), pathlib.Path(folder), name
        self.devices, self.memory, self.processors = list(devices), memory, processors
        self.kernel_options, self.modules, self.disk = kernel_options, list(modules), disk
        self.share, self.ctl = self.folder / "share", self.folder / "ctl"
        self.console = self.folder / "console.log"
        self.token = secrets.token_hex(16)
        self.qemu, self.port, self.boots, self.commands = None, None, 0, 0
        self.powered_on = self.boot_seconds = self.uptime_seconds = None
        self.share.mkdir(parents=True)

    # -- power

    def start(self):
        """Powers on; returns when commands can be run."""
        self.power_on()
        return self.wait_booted()

    def power_on(self):
        assert not self.alive()
        self.powered_on = time.monotonic()
        shutil.rmtree(self.ctl, ignore_errors=True)
        self.ctl.mkdir(mode=0o700)
        (self.ctl / "token").write_text(self.token)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        parent = os.getpid()
        libc = ctypes.CDLL(None)

        def before_exec():
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            os.nice(NICENESS)

        with open(self.folder / "qemu.log", "wb") as log:
            self.qemu = subprocess.Popen(self.command_line(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         preexec_fn=before_exec)

    def wait_booted(self):
        deadline = self.powered_on + BOOT_LIMIT_S
        while not self.has_booted():
            if not self.alive():
                if "Could not set up host forwarding" in (self.folder / "qemu.log").read_text():
                    self.power_on()  # another process took the port that was free just now
                    continue
                raise AssertionError(f"guest {self.name} ended with {self.qemu.returncode}: {self.said()}")
            if time.monotonic() > deadline:
                self.kill()
                raise Late(f"guest {self.name} is not up after {BOOT_LIMIT_S} s: {self.said()}")
            time.sleep(0.02)
        self.boots += 1
        self.boot_seconds = time.monotonic() - self.powered_on
        self.uptime_seconds = float((self.ctl / "ready").read_text().split()[0])
        return self

    def has_booted(self):
        ready = self.ctl / "ready"
        return ready.exists() and ready.read_text().strip()

    def alive(self):
        return self.qemu is not None and self.qemu.poll() is None

    def kill(self):
        """The machine is gone between two instructions; its shared memory stays."""
        if self.alive():
            self.qemu.kill()
        self.qemu.wait(20)

    def stop(self):
        """The machine stands still, all of it."""
        self.qemu.send_signal(signal.SIGSTOP)
        wait_until(lambda: process_state(self.qemu.pid) == "T", "the guest stands")

    def resume(self):
        self.qemu.send_signal(signal.SIGCONT)

    def restart(self):
        """Off without a word, and on again."""
        self.kill()
        return self.start()

    def dispose(self):
        if self.qemu is not None:
            self.kill()

    def said(self):
        """The end of what console and QEMU have said."""
        texts = [path.read_text(errors="replace")[-3000:] for path in (self.console, self.folder / "qemu.log")
                 if path.exists()]
        return "\n".join(texts)

    # -- hardware

    def hardware(self):
        """In words."""
        devices = [f"{device.kind} of {device.memory.size // MIB} MiB" for device in self.devices]
        return ", ".join([f"{self.memory // MIB} MiB", f"{self.processors} processors", *devices])

    def command_line(self):
        # Two processors are possible even if one is started: with a single possible one QEMU translates locked
        # instructions into plain ones, which are not atomic towards another guest.
        possible = max(2, self.processors)
        machine, extra, options = "q35", ["-m", f"{self.memory}B"], []
        kinds = {device.kind for device in self.devices}
        assert len(kinds) <= 1, "one kind of device a guest"
        backends = [f"memory-backend-file,id=dax{number},mem-path={device.memory.path},size={device.memory.size},"
                    "share=on,align=2M" for number, device in enumerate(self.devices)]
        for backend in backends:
            extra += ["-object", backend]
        if kinds == {"hmem"}:
            [device] = self.devices
            assert self.memory <= 2048 * MIB, "what is more lies above 4 GiB, where the device should"
            machine += f",max-ram-below-4g={self.memory}"
            extra = ["-m", f"{self.memory + device.memory.size}B", *extra[2:],
                     "-object", f"memory-backend-ram,id=ram,size={self.memory}",
                     "-numa", f"node,nodeid=0,cpus=0-{possible - 1},memdev=ram", "-numa", "node,nodeid=1,memdev=dax0"]
            options.append(f"memmap={device.memory.size // MIB}M%4G-1+0xefffffff")
        elif kinds == {"nvdimm"}:
            machine += ",nvdimm=on"
            total = self.memory * 4 + sum(device.memory.size for device in self.devices)
            extra[1] = f"{self.memory}B,slots={len(self.devices) + 1},maxmem={total}B"
            for number in range(len(self.devices)):
                extra += ["-device", f"nvdimm,memdev=dax{number},id=nv{number}"]
        for tag, path, more in (("ctl", self.ctl, ""), ("share", self.share, ""), ("host", "/", ",readonly=on")):
            extra += ["-fsdev", f"local,id=fs-{tag},path={path},security_model=none,multidevs=remap{more}",
                      "-device", f"virtio-9p-pci,fsdev=fs-{tag},mount_tag={tag},bus=pcie.0"]
        modules = [module for kind in kinds for module in MODULES[kind]] + self.modules
        if self.disk:
            extra += ["-drive", f"file={self.disk},format=raw,if=none,id=disk,cache=unsafe",
                      "-device", "virtio-blk-pci,drive=disk,bus=pcie.0"]
            modules += ["virtio_blk", "crc32c_generic", "ext4"]
            options.append("vm.disk=/dev/vda")
        options += [f"vm.name={self.name}", f"vm.modules={','.join(modules)}", self.kernel_options]
        return ["qemu-system-x86_64", "-machine", machine, "-accel", "tcg,thread=multi", "-cpu", "max",
                "-smp", f"cpus={self.processors},maxcpus={possible}", *extra,
                "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-kernel", str(self.image / "vmlinux"), "-initrd", str(self.image / "initramfs"),
                "-serial", f"file:{self.console}",
                "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:{AGENT_PORT}",
                "-device", "virtio-net-pci,netdev=net,romfile=,bus=pcie.0",
                "-append", "console=ttyS0 loglevel=4 panic=-1 nokaslr mitigations=off tsc=reliable no_timer_check "
                           "random.trust_cpu=on " + " ".join(options)]

    # -- commands

    def popen(self, command, environment=None, within_s=60.0):
        """Starts a command: shell text, or a list of words. As subprocess.Popen with pipes; see GuestProcess."""
        text = command if isinstance(command, str) else "exec " + shlex.join(str(word) for word in command)
        for name, value in (environment or {}).items():
            text = f"export {name}={shlex.quote(str(value))}\n{text}"
        return GuestProcess(self, text, within_s)

    def run(self, command, given=None, within_s=60.0, environment=None):
        """Runs a command to its end: code, out, err. A code below 0 is a signal, as with subprocess."""
        return self.popen(command, environment, within_s).communicate(given, within_s)

    def good(self, command, **options):
        """The output of a command that must succeed."""
        ended = self.run(command, **options)
        assert ended.code == 0, f"in guest {self.name}: {command}: {ended}"
        return ended.text

    def state_of(self, pid):
        """The letter of /proc/PID/stat; None when there is no such process."""
        found = re.search(r"\) (\w)", self.run(f"cat /proc/{int(pid)}/stat").text)
        return found and found.group(1)

    # -- memory devices

    def namespace(self, mode, number=0, align="2M"):
        """Makes a namespace of an nvdimm that has none; one that was made before is there by itself. The page
        structures lie in the guest's own memory (--map=mem): with --map=dev they would lie on the device, where the
        kernels of two guests would overwrite each other's."""
        alignment = ["-a", align] if mode == "devdax" else []
        return self.good(["ndctl", "create-namespace", "-f", "-e", f"namespace{number}.0", "-m", mode, "--map=mem",
                          *alignment])


class Pipe:
    """One direction of a connection, as the file of a subprocess."""

    def __init__(self, connection, direction):
        self.connection, self.direction = connection, direction

    def write(self, data):
        self.connection.sendall(data)

    def flush(self):
        pass

    def fileno(self):
        return self.connection.fileno()

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.shutdown(self.direction)


class GuestProcess:
    """A process in a guest, for code that knows subprocess.Popen. Standard error goes to the file `errors` of the host.
    A process whose guest is gone counts as killed."""

    def __init__(self, guest, text, within_s):
        self.guest, self.boot = guest, guest.boots
        guest.commands += 1
        number = f"{guest.boots}-{guest.commands}"
        self.errors, self.status = guest.ctl / f"{number}.err", guest.ctl / f"{number}.status"
        self.connection = socket.create_connection(("127.0.0.1", guest.port), timeout=within_s)
        data = text.encode()
        line = b""
        try:
            self.connection.sendall(f"{guest.token} {number} {len(data)}\n".encode() + data)
            while not line.endswith(b"\n"):
                byte = self.connection.recv(1)
                assert byte, f"guest {guest.name} closed the connection: {guest.said()}"
                line += byte
        except TimeoutError as timeout:
            self.connection.close()
            raise Late(f"guest {guest.name} did not start a command within {within_s} s: {guest.said()}") from timeout
        self.pid = int(line)
        self.connection.settimeout(None)
        self.stdin, self.stdout = Pipe(self.connection, socket.SHUT_WR), Pipe(self.connection, socket.SHUT_RD)
        self.returncode = None

    def poll(self):
        if self.returncode is None:
            text = self.status.read_text() if self.status.exists() else ""
            if text.endswith("\n"):
                self.returncode = int(text)
            elif not self.guest.alive() or self.guest.boots != self.boot:
                self.returncode = -signal.SIGKILL
        return self.returncode

    def wait(self, timeout=60.0):
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise Late(f"process {self.pid} of guest {self.guest.name} has not ended after {timeout} s")
            time.sleep(0.005)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            self.guest.run(f"kill -{int(number)} {self.pid}")

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, given=None, within_s=60.0):
        """Gives the input, takes the output until the process has ended."""

        def give():
            with contextlib.suppress(OSError):
                self.stdin.write(given or b"")
            self.stdin.close()

        giver = threading.Thread(target=give, daemon=True)
        giver.start()
        out, deadline = [], time.monotonic() + within_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Late(f"process {self.pid} of guest {self.guest.name} runs longer than {within_s} s; "
                           f"it said {b''.join(out)[-2000:]!r}, {self.said()!r}")
            if select.select([self.connection], [], [], left)[0]:
                try:
                    piece = self.connection.recv(1 << 20)
                except ConnectionResetError:
                    piece = b""
                if not piece:
                    break
                out.append(piece)
        giver.join()
        self.connection.close()
        return Ended(self.wait(), b"".join(out), self.said())

    def said(self):
        return self.errors.read_text(errors="replace") if self.errors.exists() else ""


def shell(kind):
    """Commands of the terminal, line by line, in a guest with one device of 256 MiB."""
    image = pathlib.Path(__file__).parents[2] / "build" / "vm"
    subprocess.run([pathlib.Path(__file__).with_name("make-image"), image], check=True)
    memory = SharedMemory(256 * MIB)
    with tempfile.TemporaryDirectory() as folder:
        guest = Guest(image, pathlib.Path(folder) / "guest", "guest", [] if kind == "none" else [Device(kind, memory)])
        try:
            guest.start()
            print(f"{guest.hardware()}; {guest.share} is /share; an empty line ends it")
            while line := input("guest# "):
                ended = guest.run(line, within_s=3600)
                print(ended.text + ended.err, end="" if ended.code == 0 else f"status {ended.code}\n")
        except EOFError:
            pass
        finally:
            guest.dispose()


if __name__ == "__main__":
    shell(sys.argv[1] if len(sys.argv) > 1 else "none")
