"""The kill campaign: real daemon, 4 to 16 real engines on mixed operations, SIGKILL at random under load.

MARU_FAULT_KILLS sets the number of kills (200), MARU_FAULT_SEED replays the choices of a run."""

import collections
import os
import pathlib
import random
import signal
import time

import linear
import shared_region
from harness import KIB, MIB, OK, Late, all_stopped, wait_until

KILLS = int(os.environ.get("MARU_FAULT_KILLS", "200"))
SEED = int(os.environ.get("MARU_FAULT_SEED", "0")) or random.SystemRandom().getrandbits(32)
ENGINES_MIN, ENGINES_MAX = 4, 16
KEYS = 2500  # more than there are pages, so that stores evict
CHECKED_KEYS = 12  # every so many keys have their history checked
PAGE = 16 * KIB
STALL_NS_MAX = 2_000_000_000
HOLD_US = 20_000
HISTORY_EVENTS = 1 << 18

# Where engines like to stand, so that a kill finds them there.
POINTS = ["alloc.after_reserve", "publish.after_publishing", "publish.after_place", "publish.after_commit",
          "retire.after_retiring", "retire.after_retired", "pin.after_lease", ""]
# What a sweep must have met at least once, by the daemon's own count; and what this test sees for itself.
STATES = {"reserved": "RESERVED", "publishing_tentative": "PUBLISHING tentative", "publishing_final": "PUBLISHING final",
          "retiring": "RETIRING", "retired": "RETIRED", "leases": "pin held (lease)", "key_pins": "pin held (key)"}
IN_SWEEP = "daemon in the sweep"


def describe(engine):
    """Where the threads of an engine stand, for a failure's text."""
    try:
        tasks = pathlib.Path(f"/proc/{engine.pid}/task").iterdir()
        stands = [(task / "syscall").read_text().split()[0] + " " + (task / "wchan").read_text() for task in tasks]
    except OSError as gone:
        stands = [str(gone)]
    return engine.name, engine.point, stands, engine.errors.read_text(errors="replace")[-300:]


def worn_out(engine, share=0.5):
    """So much of a thread's history is written: the engine will soon stop working."""
    for path in engine.history.parent.glob(engine.history.name + ".*"):
        with open(path, "rb") as file:
            file.seek(int(HISTORY_EVENTS * share) * linear.EVENT.size)
            if any(file.read(8)):
                return True
    return False


class Campaign:
    """One domain under fire."""

    def __init__(self, domain, seed):
        self.domain = domain
        self.random = random.Random(seed)
        self.kills = collections.Counter()
        self.met = collections.Counter()
        self.before = {}  # the daemon's counters at the last look
        self.running = []
        self.stopped = set()  # engines that a SIGSTOP held: their calls took as long as that
        self.number = 0
        self.events = []
        self.slowest_ns, self.slowest = 0, ""
        self.operations = 0
        self.recovered_s = []

    # -- engines

    def start_engine(self):
        self.number += 1
        point = POINTS[self.number % len(POINTS)]
        # At one of so many passages; more where others soon help the state away.
        share = {"": 1000, "publish.after_commit": 300_000}.get(point, 30_000)
        engine = self.domain.engine(connect=False, environment={
            "MARU_FAULT": f"ppm={share},us={HOLD_US},seed={self.random.randrange(1, 1 << 30)},at={point}"})
        engine.number, engine.point = self.number, point or "anywhere"
        engine.history = self.domain.folder / f"history.{self.number}"
        wait_until(lambda: engine("connect", "no_expand", server=self.domain.socket, id=engine.name,
                                  pool=self.random.choice([MIB, 2 * MIB]), page=PAGE).status == OK,
                   "an engine connects")
        engine.send("mix", "until_told", seed=self.random.getrandbits(30), client=self.number,
                    threads=self.random.choice([1, 2]), keys=KEYS, size_max=PAGE, hold=6, history=engine.history,
                    history_events=HISTORY_EVENTS)
        self.running.append(engine)

    def finished(self, engine, dead_ns):
        """Takes an engine's history into account, killed or not."""
        for path in engine.history.parent.glob(engine.history.name + ".*"):
            events, count, slowest = linear.read_some(path, CHECKED_KEYS, dead_ns)
            self.events += events
            self.operations += count
            if slowest is not None and engine not in self.stopped and slowest.spent_ns > self.slowest_ns:
                self.slowest_ns, self.slowest = slowest.spent_ns, f"{engine.name}: {slowest}"
            path.unlink()

    def retire_engine(self, engine):
        """An orderly end in the middle of the fire."""
        engine.process.stdin.write(b"stop\n")
        engine.process.stdin.flush()
        report = engine.answer(within_s=20)
        assert report.violations == 0, report
        if engine not in self.stopped and report.slowest_ns > self.slowest_ns:
            self.slowest_ns, self.slowest = report.slowest_ns, f"{engine.name}: {report.slowest_call}"
        engine.good("close")
        engine.quit()
        self.running.remove(engine)
        self.finished(engine, linear.FOREVER)

    # -- looking

    def look(self):
        """Adds what the sweeps of this daemon met since the last look."""
        sweeps = self.domain.status()["daemon"]["sweeps"]
        for state in STATES:
            self.met[STATES[state]] += sweeps[state] - self.before.get(state, 0)
        self.before = sweeps

    def under_load(self):
        """Every engine has done something since it was asked."""
        start = {name: row["counters"] for name, row in self.domain.clients().items()}

        def idle():
            rows = self.domain.clients()
            return [f"{engine.name} at {engine.point}" for engine in self.running
                    if (engine.name not in rows or rows[engine.name]["counters"] == start.get(engine.name))
                    and not worn_out(engine, 0.9)]

        try:
            wait_until(lambda: not idle(), "every engine works", within_s=30)
        except Late as late:
            raise Late(f"{late}: {[describe(engine) for engine in self.running if idle()]}; idle: {idle()}") from late

    # -- killing

    def kill_engines(self, count):
        victims = self.random.sample(self.running, count)
        for engine in victims:
            engine.process.kill()
        for engine in victims:
            engine.process.wait(10)
            self.kills[engine.point] += 1
            self.running.remove(engine)
        return victims

    def kill_daemon(self):
        self.domain.kill()
        self.kills["daemon"] += 1
        self.before = {}
        if shared_region.dead_clients(self.domain.pool_path):
            self.met[IN_SWEEP] += 1

    def moment(self):
        """A random short while, spent asking: the kills that follow meet no common rhythm."""
        until = time.monotonic() + self.random.random() * 0.03
        while time.monotonic() < until:
            os.sched_yield()

    def batch(self):
        """Kills some engines and perhaps the daemon, before, between or after them, and proves that all is well."""
        for engine in [engine for engine in self.running if worn_out(engine)]:
            self.retire_engine(engine)
        while len(self.running) < self.random.randint(ENGINES_MIN, ENGINES_MAX):
            self.start_engine()
        self.under_load()
        self.look()
        stopped = [engine for engine in self.random.sample(self.running, 1) if self.random.random() < 0.3]
        for engine in stopped:
            engine.signal(signal.SIGSTOP)
            self.stopped.add(engine)
        victims = self.kill_engines(self.random.randint(1, max(1, len(self.running) // 2)))
        if self.random.random() < 0.4:
            self.moment()
            self.kill_daemon()
            self.moment()
            if self.random.random() < 0.5:
                victims += self.kill_engines(self.random.randint(0, len(self.running) - 1))
            while self.random.random() < 0.3:
                self.domain.start(wait=False)
                wait_until(self.domain.socket.exists, "the next daemon begins")
                self.moment()
                self.kill_daemon()
            self.domain.start()
        begun = time.monotonic()
        living = {engine.name for engine in self.running}
        wait_until(lambda: set(self.domain.clients()) == living, f"only the living are left: {sorted(living)}", 20)
        self.recovered_s.append(time.monotonic() - begun)
        swept_ns = time.monotonic_ns()
        self.look()
        for engine in stopped:
            if engine in self.running:
                wait_until(lambda engine=engine: all_stopped(engine.pid), "it stands")
                engine.signal(signal.SIGCONT)
        self.domain.check_clean(within_s=20)
        for engine in victims:
            self.finished(engine, swept_ns)
            engine.dispose()
        for engine in self.running:
            assert engine.alive(), (engine.name, engine.process.poll(), engine.errors.read_text()[-2000:])
        if self.random.random() < 0.3 and self.running:
            self.retire_engine(self.random.choice(self.running))

    def end(self):
        while self.running:
            self.retire_engine(self.running[0])
        wait_until(self.domain.nothing_held, "nothing is held any more")
        self.domain.check_clean()
        reader = self.domain.engine("no_claim")
        keys = self.domain.keys()
        right = sum(self.read(reader, bytes.fromhex(row["key_hex"]), row) for row in keys)
        assert len(keys) > 100 and right > 100
        reader.good("close")

    @staticmethod
    def read(reader, key, row):
        if not row["key_complete"]:  # the listing keeps the first bytes only
            return 0
        value = reader.good("get", key=key)
        assert value.right and value.size == row["size"], (row, value)
        return 1

    def report(self):
        print(f"\nkill campaign, seed {SEED}: {sum(self.kills.values())} kills under {self.operations} operations of "
              f"{self.number} engines")
        for place, count in sorted(self.kills.items()):
            print(f"  killed, held {'at ' + place if '.' in place else place}: {count}")
        print("  found by the sweeps:")
        for state in [*STATES.values(), IN_SWEEP]:
            print(f"    {state:24} {self.met[state]}")
        print(f"  longest call of an engine that was not stopped: {self.slowest_ns / 1e6:.1f} ms ({self.slowest})")
        if self.recovered_s:
            ordered = sorted(self.recovered_s)
            print(f"  until the dead were swept: median {ordered[len(ordered) // 2] * 1000:.0f} ms, longest "
                  f"{ordered[-1] * 1000:.0f} ms")


def test_kills_at_random_under_load(make_domain):
    domain = make_domain(pool="32MiB", environment={
        "MARU_FAULT": f"ppm=20000,us={HOLD_US},seed={SEED % 1000 + 1},at=sweep."})
    campaign = Campaign(domain, SEED)
    try:
        while sum(campaign.kills.values()) < KILLS:
            campaign.batch()
        campaign.end()
    finally:
        campaign.report()
    complaint = linear.check(campaign.events, count_pins=False)
    assert complaint is None, complaint
    assert campaign.slowest_ns < STALL_NS_MAX, campaign.slowest
    never = [state for state in [*STATES.values(), IN_SWEEP] if campaign.met[state] == 0]
    assert not never, f"the campaign never met: {', '.join(never)} (seed {SEED})"


test_kills_at_random_under_load.limit_s = max(300, KILLS * 2)
