"""maru inside a guest: the daemon, engines and maructl of tests/e2e as processes there, with the same names and checks."""

import pathlib
import signal

import harness
from harness import wait_until


TIMEOUT_MS = 2000 * harness.SLOWER  # of a client that waits for the daemon


class GuestEngine(harness.Engine):
    """An engine in a guest."""

    def __init__(self, domain, name, environment=None, wrapper=()):
        self.domain, self.name, self.rest = domain, name, b""
        self.process = domain.guest.popen([*wrapper, harness.ENGINE], environment)
        self.errors, self.pid = self.process.errors, self.process.pid
        assert "ready" in self.answer(within_s=10)

    def connect(self, *flags, **arguments):
        return super().connect(*flags, **{"timeout": TIMEOUT_MS, **arguments})

    def dispose(self):
        if self.alive():
            super().dispose()


class GuestDomain(harness.Domain):
    """A daemon in `guest`. `pools` are the keys of its [[pool]] sections: {"kind": "devdax", "path": "/dev/dax0.0"}."""

    engine_type = GuestEngine

    def __init__(self, guest, *pools, settings=None):
        self.guest, self.pools = guest, pools
        self.engine_name = f"{guest.name}-engine"
        folder = guest.share / f"domain{guest.boots}-{guest.commands}"
        folder.mkdir()
        super().__init__(settings=settings, folder=folder)
        self.there = pathlib.Path("/share", folder.name)  # how the guest calls the folder
        self.socket = pathlib.Path(f"/run/maru-{self.unique}.sock")  # in the guest's memory
        self.write_config()

    def pool_sections(self):
        return self.pools

    def maru(self, *arguments):
        """The daemon's program with this domain's config, to its end: --format -y, --remove -y, or a refusal."""
        return self.guest.run([harness.MARU, "--config", self.there / self.config.name, *arguments],
                              within_s=30 * harness.SLOWER)

    def rejoin(self):
        """Starts the daemon in a guest that was switched off and on: no process of before is left."""
        self.engines.clear()
        return self.start()

    def launch(self, preexec):
        assert preexec is None
        return self.guest.popen(
            f"exec {harness.MARU} --config {self.there / self.config.name} >> {self.there / self.log.name} 2>&1")

    def maructl(self, *arguments, given=None, within_s=30.0):
        return self.guest.run([harness.MARUCTL, "--socket", self.socket, *arguments], given, within_s * harness.SLOWER)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: self.guest.state_of(self.process.pid) == "T", "the daemon is stopped")

    def socket_is_there(self):
        return self.guest.run(["test", "-e", self.socket]).code == 0

    def finish(self):
        if not self.guest.alive():  # a test of the end of a machine: nothing there can be asked
            self.expect_clean, self.engines = False, []
        super().finish()


class Demo:
    """maru-prefill or maru-decode in a guest: lines in, lines out up to "ok" or "failed"."""

    def __init__(self, domain, program, *options):
        self.process = domain.guest.popen([harness.BUILD / "tools/demo" / program, "--socket", domain.socket,
                                           "--timeout-ms", TIMEOUT_MS, *options])
        self.lines = self.process.connection.makefile("r")
        self.greeting = self.hear()

    def hear(self):
        lines = []
        for line in self.lines:
            lines.append(line.strip())
            if lines[-1] == "ok" or lines[-1].startswith("failed"):
                return lines
        raise AssertionError(f"the program ended with {self.process.wait(10)}: {lines}, {self.process.said()}")

    def __call__(self, *lines):
        """The answers to all lines."""
        answers = []
        for line in lines:
            self.process.stdin.write(line.encode() + b"\n")
            answers += self.hear()
        return answers

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0, self.process.said()
