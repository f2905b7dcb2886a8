"""What systemd would do for maru.service, as far as packages ask for it: the maintainer scripts find /run/systemd/system
and a `systemctl` that hands their wishes to this process, which starts and stops the unit's own command line as the unit's
own user, with its folder, its notification socket and its capabilities. What needs the kernel's help of a real systemd
(cgroup, seccomp, mounts) it does not do."""

import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

START_S = 30
UNIT = "/lib/systemd/system/maru.service"
SYSTEMCTL = r"""#!/bin/sh
for word; do case $word in maru|maru.service) unit=1 ;; esac; done
[ -n "$unit" ] || exit 0
case " $* " in *" is-enabled "*) echo enabled; exit 0 ;; esac
exec 9> /run/manager/turn; flock 9
echo "$*" > /run/manager/wish
read -r status < /run/manager/answer
exit "$status"
"""


def read_unit(text):
    settings = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";", "[")):
            settings.setdefault(name, []).append(value)
    return settings


class Manager:
    def __init__(self, machine, log):
        self.machine, self.log, self.log_path = machine, open(log, "wb"), pathlib.Path(log)
        self.process, self.trace, self.history, self.enabled = None, None, [], False
        folder = machine.path("/run/manager")
        folder.mkdir()
        machine.path("/run/systemd/system").mkdir(parents=True)
        for name in ("wish", "answer"):
            os.mkfifo(folder / name)
        systemctl = machine.path("/usr/bin/systemctl")  # where the PATH that apt gives to dpkg finds it
        systemctl.unlink()
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)
        # Both ends are held open, so that no open waits.
        self.wishes = os.open(folder / "wish", os.O_RDWR)
        self.answers = os.open(folder / "answer", os.O_RDWR)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with os.fdopen(self.wishes, encoding="utf-8") as wishes:
            for line in wishes:
                status = 1
                try:
                    status = self.obey(line.split())
                except (AssertionError, OSError, subprocess.SubprocessError) as error:
                    self.history.append(f"failed: {error}")
                os.write(self.answers, f"{status}\n".encode())

    def obey(self, words):
        verb = [word for word in words if not word.startswith("-")][0]
        self.history.append(verb)
        if verb == "start" and not self.running():
            self.start()
        elif verb in ("stop", "restart", "try-restart"):
            was_running = self.running()
            self.stop()
            if verb == "restart" or (verb == "try-restart" and was_running):
                self.start()
        elif verb == "is-active":
            return 0 if self.running() else 3
        return 0

    def running(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        unit = read_unit(self.machine.path(UNIT).read_text())
        user, group, folder = unit["User"][0], unit["Group"][0], "/run/" + unit["RuntimeDirectory"][0]
        self.machine.run("install", "-d", "-o", user, "-g", group, "-m", "755", folder)
        notify = self.machine.path("/run/manager/notify")
        notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(notify))
            notify.chmod(0o777)
            ready.settimeout(START_S)
            command = ["env", "-i", "RUNTIME_DIRECTORY=" + folder, "NOTIFY_SOCKET=/run/manager/notify",
                       "PATH=/usr/bin:/bin", *unit["ExecStart"][0].split()]
            kept = "+" + unit["CapabilityBoundingSet"][0].lower().removeprefix("cap_")
            setpriv = ["setpriv", f"--reuid={user}", f"--regid={group}", "--init-groups", "--no-new-privs",
                       f"--inh-caps=-all,{kept}", f"--ambient-caps=-all,{kept}", f"--bounding-set=-all,{kept}"]
            tracer = ["strace", "-D", "-f", "-qq", "-o", str(self.trace)] if self.trace else []
            self.process = subprocess.Popen(tracer + self.machine.enter(*setpriv, *command), stdout=self.log,
                                            stderr=self.log, stdin=subprocess.DEVNULL, process_group=0)
            deadline = time.monotonic() + START_S
            while "READY=1" not in ready.recv(4096).decode():
                assert time.monotonic() < deadline, "the daemon did not say READY"

    def stop(self):
        if self.running():
            self.process.terminate()
            status = self.process.wait(30)
            assert status == 0, f"the daemon ended with {status}: {self.log_path.read_text()}"

    def close(self):
        if self.running():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        self.log.close()
