"""One client of the campaign: a real engine that is driven without ever being waited for."""

import os
import pathlib
import signal
import time

import linear
import shared_region
from harness import FENCED, KIB, MIB, OK, TIMEOUT, UNAVAILABLE, Engine, process_state

PAGE = 16 * KIB
KEYS = 2500  # more than there are pages, so that stores evict
KEY_STEP = 24  # every so many keys have their history recorded and checked
HISTORY_EVENTS = 1 << 17
HOLD_US = 20_000  # how long a client stands at its fault point
TIMEOUT_MS = 400  # of its slow path
ANSWER_S = 20  # within which it must have answered anything
STILL_S = 6  # within which a client under load must have done something

# Where clients like to stand, so that a kill or a stop finds them there, and at one of how many million passages.
POINTS = {"alloc.after_reserve": 30_000, "publish.after_publishing": 30_000, "publish.after_place": 30_000,
          "publish.after_commit": 300_000, "retire.after_retiring": 30_000, "retire.after_retired": 30_000,
          "pin.after_lease": 30_000, "connect.welcomed": 1_000_000, "": 1000}


class Client(Engine):
    """States: starting, connecting, working, ending, closing, refused, leaving, over.

    A working client that is told to end answers with its report; one that was fenced answers unasked."""

    def __init__(self, domain, number, random, prefix):
        self.number, self.random, self.prefix = number, random, prefix
        point = list(POINTS)[number % len(POINTS)]
        self.point = point or "anywhere"
        super().__init__(domain, f"client{number}", wait=False, environment={
            "MARU_FAULT": f"ppm={POINTS[point]},us={HOLD_US},seed={random.randrange(1, 1 << 30)},at={point}"})
        os.set_blocking(self.process.stdout.fileno(), True)
        self.history = domain.folder / f"history.{number}"
        self.mixes = 0
        self.state, self.since = "starting", time.monotonic()
        self.stopped_at = None
        self.stops = []  # (from, to) in ns: its own time in the kernel's stop
        self.may_be_fenced = self.must_be_fenced = False
        self.was_fenced = False
        self.children = []
        self.progress = {}
        self.moved = time.monotonic()
        self.retry_at = 0.0
        self.execed = self.is_lost = False
        self.is_doomed = False  # the daemon is being asked to kill it
        self.doom = None  # the event that did

    # -- state

    def become(self, state):
        self.state, self.since = state, time.monotonic()

    def works(self):
        return self.state == "working" and self.stopped_at is None and not self.execed and not self.is_doomed

    def is_over(self):
        return self.state == "over"

    def pump(self):
        """Takes whatever answer there is; never waits."""
        if self.state == "over" or self.stopped_at is not None or self.execed or self.is_doomed:
            return
        if self.state == "leaving":
            if self.process.poll() is not None:
                assert self.process.returncode == 0, (self.name, self.process.returncode, self.said())
                self.become("over")
        elif self.state == "connecting" and self.retry_at:
            if time.monotonic() > self.retry_at:
                self.connect()
        else:
            self.listen()
        if self.state != "working" and not self.retry_at and self.state != "over":
            assert time.monotonic() - self.since < ANSWER_S, f"{self.name} is {self.state}: no answer; {self.stand()}"

    def listen(self):
        try:
            reply = self.answer_so_far()
        except AssertionError:
            if self.doom is None:
                raise
            return  # the daemon was asked to kill it, and died before it could say that it did
        if reply is not None:
            self.since = time.monotonic()
            getattr(self, f"when_{self.state}")(reply)

    def when_starting(self, reply):
        assert "ready" in reply
        self.become("connecting")
        self.connect()

    def connect(self):
        self.retry_at = 0.0
        self.since = time.monotonic()
        flags = ["no_expand"] if self.number % 3 else []
        self.send("connect", *flags, server=self.domain.socket, id=self.name, timeout=TIMEOUT_MS,
                  page=2 * PAGE if self.number % 3 == 0 else PAGE,  # so that regions change from one size to another
                  pool=self.random.choice([MIB, 2 * MIB]))

    def when_connecting(self, reply):
        if reply.status != OK:  # the daemon is away, or was stopped or killed meanwhile
            assert reply.status in (UNAVAILABLE, TIMEOUT, FENCED) and reply.detail, (self.name, reply)
            self.retry_at = time.monotonic() + 0.02
            return
        self.become("working")
        self.moved = time.monotonic()
        self.mixes += 1
        self.may_be_fenced = self.must_be_fenced = False
        self.send("mix", "until_told", seed=self.random.getrandbits(30), client=self.number * 8 + self.mixes,
                  threads=self.random.choice([1, 2]), keys=KEYS, size_max=PAGE, hold=6, prefix=self.prefix,
                  history=f"{self.history}.{self.mixes}", history_events=HISTORY_EVENTS, history_step=KEY_STEP)

    def when_working(self, reply):
        if "child" in reply:
            self.children.append(reply.child)
            return
        self.check_report(reply)
        if str(FENCED) in reply.statuses:
            assert self.may_be_fenced, f"{self.name} was fenced and nobody had asked for that: {reply}"
            self.was_fenced = True
            self.become("refused")
            self.send("put", key="of a fenced client", size=8)
            return
        assert self.worn_out(), f"{self.name} ended its work unasked: {reply}"
        self.become("closing")
        self.send("close")

    def when_refused(self, reply):
        """What a fenced client is told must say so, and what to do."""
        assert reply.status == FENCED and "fenced" in reply.detail and "connect" in reply.detail, reply
        self.become("closing")
        self.send("close")

    def when_ending(self, reply):
        if "child" in reply:
            self.children.append(reply.child)
            return
        self.check_report(reply)
        self.was_fenced = self.was_fenced or str(FENCED) in reply.statuses
        if self.random.random() < 0.3:  # a program that forgets to close its client
            self.leave()
            return
        self.become("closing")
        self.send("close")

    def when_closing(self, reply):
        assert reply.status == OK, (self.name, reply)
        if self.was_fenced and self.random.random() < 0.5:  # the same process comes back as a new client
            self.was_fenced = False
            self.become("connecting")
            self.connect()
            return
        self.leave()

    def leave(self):
        self.become("leaving")
        self.process.stdin.write(b"quit\n")
        self.process.stdin.flush()

    def check_report(self, reply):
        assert reply.violations == 0, (self.name, reply)

    # -- what is done to it

    def tell(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def end(self):
        self.become("ending")
        self.tell(b"mix-stop")

    def stop(self):
        self.stopped_at = time.monotonic_ns()
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.signal(signal.SIGCONT)
        # The time until all its threads run again is its own as well.
        self.stops.append((self.stopped_at, time.monotonic_ns() + 20_000_000))
        self.stopped_at = None
        self.since = self.moved = time.monotonic()

    def killed(self):
        self.process.wait(10)
        self.become("over")

    # -- looking

    def histories(self):
        return sorted(self.history.parent.glob(self.history.name + ".*"))

    def worn_out(self):
        """A thread's history is nearly full: the mix stops by itself then."""
        return any(count > HISTORY_EVENTS * 0.6 for count in self.progress.values())

    def look_for_progress(self):
        """Looks how far its histories go; a client that works and does not move is held up by somebody."""
        for path in self.histories():
            if not path.name.startswith(f"{self.history.name}.{self.mixes}."):
                continue
            count = self.progress.get(path.name, 0)
            with open(path, "rb") as file:
                while count < HISTORY_EVENTS:
                    file.seek(count * linear.EVENT.size)
                    if not any(file.read(8)):
                        break
                    count += 64
            if count != self.progress.get(path.name, 0):
                self.moved = time.monotonic()
            self.progress[path.name] = count
        if self.works():
            assert time.monotonic() - self.moved < STILL_S, f"{self.name} is held up at {self.point}: {self.stand()}"

    def stand(self):
        """Where its threads stand."""
        try:
            tasks = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
            return [(task / "syscall").read_text().split()[0] + " " + (task / "wchan").read_text() for task in tasks]
        except OSError as gone:
            return [str(gone)]

    def said(self):
        return self.errors.read_text(errors="replace")[-2000:]

    def own_waiting(self, start, end):
        """How long a call took without the time in which this client itself was stopped."""
        return end - start - sum(max(0, min(end, to) - max(start, since)) for since, to in self.stops)

    def children_end(self):
        for child in self.children:
            if process_state(child) not in (None, "Z"):
                os.kill(child, signal.SIGKILL)

    def take_histories(self, dead_ns):
        """Its events on the recorded keys, and the slow calls that were not its own doing; the files go."""
        events, slow = [], []
        for path in self.histories():
            of_thread, calls = linear.read_with_slow_calls(path, dead_ns)
            events += of_thread
            slow += [(start, end, self.own_waiting(start, end)) for start, end in calls]
            path.unlink()
        return events, slow

    def farewell(self):
        """What must hold for every client at its end."""
        said = self.errors.read_text(errors="replace")
        assert "VIOLATION" not in said and "Sanitizer" not in said and "runtime error" not in said, said[-4000:]
        self.children_end()
        self.dispose()
        self.errors.unlink()

    def slot(self, region):
        return region.slot_of(self.pid)

    def phase(self, region):
        slot = self.slot(region)
        return shared_region.FREE if slot is None else slot.phase
