"""The daemon under fire: started, stopped and killed without ever being waited for, and timed."""

import collections
import re
import signal
import socket
import time

import raw

START_S = 15  # within which a daemon must serve
LOG_BYTES_MAX = 4 << 20
HOLD_US = 10_000
# What the daemon holds still at, one prefix for each of its lives.
POINTS = {"sweep.": 20_000, "region.": 700_000, "": 2_000}

SWEPT = re.compile(r"(\d+) (reserved|publishing \(tentative\)|publishing \(final\)|retiring|retired|leases|key pins)")
VERDICT = re.compile(r" is dead, | left without a goodbye ")


class Probe:
    """One ping, asked and waited for without blocking."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.asked = False
        try:
            self.socket.connect(str(path))
            self.socket.send(raw.frame(raw.ADMIN, raw.admin("ping")))
            self.asked = True
        except OSError:
            self.close()

    def answered(self):
        """True: it serves. None: no word yet. False: it hung up or was not there."""
        if not self.asked:
            return False
        try:
            return bool(self.socket.recv(4096))
        except BlockingIOError:
            return None
        except OSError:
            return False

    def close(self):
        self.socket.close()
        self.asked = False


class Daemon:
    """`clock` counts the seconds in which it served: what only it can do is timed by that."""

    def __init__(self, domain, random):
        self.domain, self.random = domain, random
        self.state, self.since = "down", time.monotonic()  # down, starting, serving, stopped
        self.probe = None
        self.served = 0.0  # before the present spell
        self.met = collections.Counter()
        self.recoveries = collections.defaultdict(list)  # seconds by kind, until it answers again
        self.why = "start"
        self.log_at = 0
        self.last_log = ""

    def clock(self):
        return self.served + (time.monotonic() - self.since if self.state == "serving" else 0.0)

    def become(self, state):
        self.served = self.clock()
        self.state, self.since = state, time.monotonic()

    def start(self, why):
        point = self.random.choice(list(POINTS))
        self.domain.environment["MARU_FAULT"] = \
            f"ppm={POINTS[point]},us={HOLD_US},seed={self.random.randrange(1, 1 << 30)},at={point}"
        self.domain.start(wait=False)
        self.await_answer(why)

    def await_answer(self, why):
        self.why = why
        self.become("starting")

    def kill(self, region):
        """What it was in the middle of is read before its successor mends it."""
        self.drop_probe()
        self.domain.kill()
        self.become("down")
        if region.dead_clients():
            self.met["daemon killed in its sweep"] += 1
        if region.is_forming():
            self.met["region FORMATTING"] += 1
            self.met["daemon killed while a region is FORMATTING"] += 1

    def stop(self):
        self.drop_probe()
        self.domain.process.send_signal(signal.SIGSTOP)
        self.become("stopped")

    def go_on(self):
        self.domain.resume()
        self.await_answer("stop of the daemon")

    def drop_probe(self):
        if self.probe is not None:
            self.probe.close()
        self.probe = None

    def pump(self):
        if self.state in ("down", "stopped"):
            return
        assert self.domain.running(), f"the daemon ended with {self.domain.process.returncode}"
        self.read_log()
        if self.state != "starting":
            return
        if self.probe is None:
            self.probe = Probe(self.domain.socket)
        answered = self.probe.answered()
        if answered is not None:
            self.drop_probe()
        if answered:
            self.recoveries[self.why].append(time.monotonic() - self.since)
            self.become("serving")
        assert time.monotonic() - self.since < START_S or self.state == "serving", \
            f"the daemon does not answer {START_S} s after: {self.why}"

    def read_log(self):
        """Counts what its sweeps found, as it says itself."""
        with open(self.domain.log, "rb") as log:
            log.seek(self.log_at)
            text = log.read()
        whole = text[:text.rfind(b"\n") + 1]
        self.log_at += len(whole)
        text = whole.decode(errors="replace")
        if text:
            self.last_log = (self.last_log + text)[-6000:]
        for line in text.splitlines():
            if VERDICT.search(line):
                for count, what in SWEPT.findall(line):
                    self.met[what] += int(count)
        if self.log_at > LOG_BYTES_MAX:  # the daemon appends: what has been read can go
            with open(self.domain.log, "ab") as log:
                log.truncate(0)
            self.log_at = 0
