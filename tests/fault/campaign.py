"""The kill campaign: a real daemon and 4 to 16 real clients under random, overlapping faults.

Nothing here waits: each turn of the loop takes what has happened, looks at the client slots in shared memory, and does
what is due."""

import collections
import dataclasses
import heapq
import itertools
import random
import select
import subprocess
import time

import faults
import linear
import shared_region
from client import Client
from daemon import Daemon
from harness import MARUCTL, wait_until

CLIENTS_MIN, CLIENTS_MAX = 4, 16
STALL_NS_MAX = 2_000_000_000  # no live client waits longer for anything
RECOVERY_S_MAX = 8.0  # of the daemon's serving time, until nothing of a dead client is left
GAP_S = 0.05  # between two events, on average
ROUND_EVENTS = 1000  # then all clients end, histories are checked, and new ones begin on other keys
SETTLE_EVENTS = 100  # then the events pause until all is back and the whole control region is checked
SETTLE_S = 30.0
LAST_EVENTS = 40  # told when it fails


@dataclasses.dataclass
class Event:
    kind: str
    about: str
    start_ns: int
    end_ns: int = 0  # when all that it upset was back


@dataclasses.dataclass
class Loss:
    """A client that has died and whose slot is not free yet."""

    client: Client
    event: Event
    clock: float  # the daemon's
    since: float


class Campaign:
    def __init__(self, domain, seed):
        self.domain, self.seed = domain, seed
        self.random = random.Random(seed)
        self.region = shared_region.Region(domain.pool_path)
        self.daemon = Daemon(domain, self.random)
        self.daemon.await_answer("start")
        self.clients = []
        self.target = CLIENTS_MAX
        self.numbers = itertools.count(1)
        self.losses = {}  # by process id
        self.events = collections.deque(maxlen=LAST_EVENTS)
        self.recent = collections.deque(maxlen=5000)  # for telling which event a slow call fell into
        self.counts = collections.Counter()
        self.recovered = collections.defaultdict(list)
        self.longest_ns = collections.Counter()
        self.slowest = (0, "")
        self.met = collections.Counter()
        self.seen_slots = set()
        self.due = []  # (time, number, action)
        self.order = itertools.count()
        self.commands = []
        self.check = None
        self.checks = collections.Counter()
        self.quiet_since = 0.0
        self.history = []
        self.operations = 0
        self.round = 0
        self.next_event = 0.0
        self.looked = 0.0
        self.begun = time.monotonic()

    # -- the loop

    def total(self):
        return sum(self.counts.values())

    def turn(self, with_events=True):
        now = time.monotonic()
        self.daemon.pump()
        for client in self.clients:
            client.pump()
        self.look_at_slots()
        self.look_for_quiet()
        while self.due and self.due[0][0] <= now:
            heapq.heappop(self.due)[2]()
        self.pump_commands()
        self.pump_check()
        self.bury()
        if now - self.looked > 0.5:
            self.looked = now
            for client in self.clients:
                client.look_for_progress()
                if client.works() and client.worn_out():
                    client.end()
        if with_events:
            self.keep_up_clients()
            if now >= self.next_event and faults.one(self):
                self.next_event = now + self.random.expovariate(1 / GAP_S)
        select.select([client.process.stdout for client in self.clients if client.state != "over"], [], [], 0.001)

    def later(self, delay_s, action):
        heapq.heappush(self.due, (time.monotonic() + delay_s, next(self.order), action))

    def keep_up_clients(self):
        if len(self.clients) < self.target and sum(client.state == "starting" for client in self.clients) < 3:
            self.clients.append(Client(self.domain, next(self.numbers), self.random, f"r{self.round}-"))

    # -- events

    def note(self, kind, about=""):
        event = Event(kind, about, time.monotonic_ns())
        self.events.append(event)
        self.recent.append(event)
        self.counts[kind] += 1
        if self.random.random() < 0.02:
            self.target = self.random.randint(CLIENTS_MIN, CLIENTS_MAX)
        return event

    def lost(self, client, event):
        """A client's process has ended, or is what it was no more: its slot must become free."""
        client.is_lost = True
        self.losses[client.pid] = Loss(client, event, self.daemon.clock(), time.monotonic())

    def kill(self, client, kind, about=""):
        phase = client.phase(self.region)
        if phase != shared_region.FREE:
            self.met[f"killed in a slot {shared_region.PHASES[phase]}"] += 1
        client.process.kill()
        event = self.note(kind, f"{client.name} at {client.point} {about}")
        client.killed()
        self.lost(client, event)

    def command(self, *words, then):
        process = subprocess.Popen([MARUCTL, "--json", "--socket", self.domain.socket, *words],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.commands.append((process, words, then, time.monotonic()))

    def pump_commands(self):
        for item in [item for item in self.commands if item[0].poll() is not None]:
            self.commands.remove(item)
            process, words, then, _ = item
            out, errors = process.communicate()
            then(process.returncode, out, errors.decode(errors="replace"))
        for process, words, _, since in self.commands:
            assert time.monotonic() - since < 30, f"maructl {words} does not end"

    # -- looking

    def look_at_slots(self):
        pids = set()
        for slot in self.region.slots():
            if slot.is_daemon:
                continue
            pids.add(slot.pid)
            key = (slot.number, slot.generation, slot.phase)
            if key not in self.seen_slots:
                self.seen_slots.add(key)
                self.met[f"slot {shared_region.PHASES[slot.phase]}"] += 1
        if self.daemon.state == "serving" and self.region.is_forming():
            self.met["region FORMATTING"] += 1
        for pid in [pid for pid in self.losses if pid not in pids]:
            loss = self.losses.pop(pid)
            loss.event.end_ns = time.monotonic_ns()
            self.recovered[loss.event.kind].append(self.daemon.clock() - loss.clock)
            self.take_history(loss.client)
        for loss in self.losses.values():
            assert self.daemon.clock() - loss.clock < RECOVERY_S_MAX, \
                f"{loss.client.name} died {time.monotonic() - loss.since:.1f} s ago and its slot is still in use: " \
                f"{loss.client.slot(self.region)}; {loss.event}"

    def look_for_quiet(self):
        """Since when has nobody been dead and nobody stopped in the middle of something?"""
        if self.losses or any(client.stopped_at is not None for client in self.clients):
            self.quiet_since = float("inf")
        elif self.quiet_since == float("inf"):
            self.quiet_since = time.monotonic()

    def bury(self):
        """Clients that have ended in order, and those that the daemon killed on request."""
        for client in self.clients:
            if client.doom is not None and not client.is_over() and client.process.poll() is not None:
                client.killed()
                self.lost(client, client.doom)
        for client in [client for client in self.clients if client.is_over()]:
            self.clients.remove(client)
            if not client.is_lost:
                self.lost(client, Event("orderly end", client.name, time.monotonic_ns()))

    def take_history(self, client):
        events, slow = client.take_histories(time.monotonic_ns())
        self.history += events
        for start, end, own in slow:
            if own > self.slowest[0]:
                self.slowest = (own, f"{client.name}, which likes to stand at {client.point}")
            for event in self.recent:
                if event.start_ns < end and (event.end_ns or event.start_ns + 1_000_000_000) > start:
                    self.longest_ns[event.kind] = max(self.longest_ns[event.kind], own)
        assert self.slowest[0] < STALL_NS_MAX, f"a call took {self.slowest[0] / 1e9:.2f} s: {self.slowest[1]}"
        client.farewell()

    # -- checking

    def pump_check(self):
        """`maructl check` runs all the time; a finding while nobody was dead or stopped is a failure."""
        if self.check is None:
            if self.daemon.state == "serving":
                self.check = subprocess.Popen([MARUCTL, "--json", "--socket", self.domain.socket, "check"],
                                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                              stderr=subprocess.DEVNULL)
                self.check_began = time.monotonic()
            return
        if self.check.poll() is None:
            return
        out = self.check.communicate()[0]
        result = {0: "clean", 1: "finding while somebody was dead or stopped"}.get(self.check.returncode, "the daemon went away")
        if self.check.returncode == 1:
            assert self.quiet_since > self.check_began, f"maructl check, nobody being dead or stopped: {out.decode()}"
        self.checks[result] += 1
        self.check = None

    def resume_all(self):
        for client in self.clients:
            if client.stopped_at is not None:
                client.go_on()
        if self.daemon.state == "stopped":
            self.daemon.go_on()
        if self.daemon.state == "down":
            self.daemon.start("start")

    def turns_until(self, condition, what, within_s=SETTLE_S):
        deadline = time.monotonic() + within_s
        while not condition():
            self.turn(with_events=False)
            assert time.monotonic() < deadline, f"not within {within_s} s: {what}"

    def settle(self):
        """Everybody may go on; then all must be back and the whole control region sound."""
        self.turns_until(lambda: not self.due and not self.commands, "what was begun is done")
        self.resume_all()
        self.turns_until(lambda: self.daemon.state == "serving", "the daemon serves")
        self.turns_until(lambda: not self.losses, "nothing of the dead is left")
        self.turns_until(lambda: all(client.works() for client in self.clients), "every client works")
        living = sorted(client.pid for client in self.clients)

        def only_the_living():
            slots = [slot for slot in self.region.slots() if not slot.is_daemon]
            return sorted(slot.pid for slot in slots) == living and \
                all(slot.phase == shared_region.ACTIVE for slot in slots)

        self.turns_until(only_the_living, f"the slots are those of {living}: {self.region.slots()}")
        self.turns_until(lambda: self.domain.status()["daemon"]["sessions"] > len(living),
                         "every client is connected again")  # one session is the question's own
        self.domain.check_clean(within_s=20)
        self.checks["clean, with all events at rest"] += 1

    def end_round(self):
        """All clients end; nothing may be held, every value must be right, every history must have an order."""
        self.settle()
        while self.clients:
            for client in self.clients:
                if client.works():
                    client.end()
            self.turn(with_events=False)
        self.turns_until(lambda: not self.losses, "nothing is left of those that ended")
        wait_until(self.domain.nothing_held, "nothing is held any more")
        self.domain.check_clean()
        self.read_every_value()
        complaint = linear.check(self.history, count_pins=False)
        self.operations += len(self.history)
        self.history = []
        self.round += 1
        assert complaint is None, complaint

    def read_every_value(self):
        reader = self.domain.engine("no_claim")
        rows = [row for row in self.domain.keys() if row["key_complete"]]  # the listing keeps the first bytes only
        for row in rows:
            value = reader.good("get", key=bytes.fromhex(row["key_hex"]))
            assert value.right and value.size == row["size"], (row, value)
        assert len(rows) > 100
        reader.good("close")
        reader.quit()
        reader.dispose()
        self.domain.engines.remove(reader)

    # -- running

    def run(self, events=None, minutes=None):
        until = time.monotonic() + minutes * 60 if minutes else None
        settled = 0

        def over():
            return time.monotonic() >= until if until else self.total() >= events

        try:
            faults.kill_daemon_forming(self)  # while there is most to form
            while not over():
                begun = self.total()
                while not over() and self.total() < begun + ROUND_EVENTS:
                    self.turn()
                    if self.total() >= settled + SETTLE_EVENTS:
                        self.settle()
                        settled = self.total()
                self.end_round()
            self.met.update(self.daemon.met)
            never = [state for state in faults.MUST_BE_MET if self.met[state] == 0]
            assert not never or self.total() < ROUND_EVENTS, f"the campaign never met: {', '.join(never)}"
        except BaseException:
            self.tell_failure()
            raise
        finally:
            self.report()
            self.clean_up()

    def clean_up(self):
        for process, *_ in self.commands:
            process.kill()
            process.wait()
        if self.check is not None:
            self.check.kill()
            self.check.wait()
        for client in [*self.clients, *(loss.client for loss in self.losses.values())]:
            client.dispose()
            client.children_end()
        self.daemon.drop_probe()
        self.region.close()
        self.domain.environment.pop("MARU_FAULT", None)

    def tell_failure(self):
        now = time.monotonic_ns()
        print(f"\nFAILED with seed {self.seed} after {self.total()} events. The last of them, newest last:")
        for event in self.events:
            back = f"back after {(event.end_ns - event.start_ns) / 1e6:.0f} ms" if event.end_ns else ""
            print(f"  {(now - event.start_ns) / 1e9:8.3f} s ago  {event.kind:34} {event.about} {back}")
        print(f"  the daemon is {self.daemon.state}; clients: "
              f"{[(c.name, c.state, 'stopped' if c.stopped_at else '') for c in self.clients]}")
        print(f"---- the daemon's log:\n{self.daemon.last_log}")
        print(f"To make the same choices again: tests/fault/campaign --seed {self.seed} --events {self.total() + 100}\n"
              "(the moments are the machine's: a rare interleaving may need several runs)")

    def report(self):
        spent = time.monotonic() - self.begun
        print(f"\nkill campaign, seed {self.seed}: {self.total()} events in {spent:.0f} s, "
              f"{next(self.numbers) - 1} clients, {self.operations} operations in checked histories")
        print(f"  {'event':36} {'count':>6} {'until all was back, ms':>24} {'longest call of a live':>24}")
        print(f"  {'':36} {'':>6} {'median':>12} {'longest':>11} {'client meanwhile, ms':>24}")
        for kind in sorted({*self.counts, *self.recovered, *self.daemon.recoveries}):
            times = sorted(self.recovered.get(kind) or self.daemon.recoveries.get(kind) or [])
            middle, worst = (times[len(times) // 2] * 1000, times[-1] * 1000) if times else (0, 0)
            print(f"  {kind:36} {self.counts[kind]:6} {middle:12.0f} {worst:11.0f} {self.longest_ns[kind] / 1e6:24.1f}")
        print("  states met:")
        self.met.update({} if self.met.get("leases") else self.daemon.met)
        for state in sorted({*self.met, *faults.MUST_BE_MET}):
            print(f"    {state:48} {self.met[state]}")
        print(f"  maructl check: {dict(self.checks)}")
        print(f"  longest call of a live client: {self.slowest[0] / 1e6:.1f} ms ({self.slowest[1]})")
