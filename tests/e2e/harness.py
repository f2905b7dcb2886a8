"""Real daemons, real engines and maructl for tests: private paths, a deadline on everything, clean-up always."""

import contextlib
import dataclasses
import json
import os
import pathlib
import secrets
import select
import shutil
import signal
import subprocess
import tempfile
import time

import maructl_schema

BUILD = pathlib.Path(os.environ.get("MARU_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
MARU = BUILD / "src/daemon/maru"
MARUCTL = BUILD / "tools/maructl/maructl"
ENGINE = BUILD / "tests/e2e/engine/engine"
SANITIZED = bool(os.environ.get("MARU_SANITIZER"))
# How much longer everything may take. A slow machine, as an emulated one is, says so itself.
SLOWER = int(os.environ.get("MARU_TEST_SLOWER", 4 if SANITIZED else 1))

OK, EXISTS, MISS = 0, 1, 2
INVALID, TOO_LARGE, FULL, PINNED, NOT_RESERVED, FENCED, FORKED, UNAVAILABLE, TIMEOUT = range(-1, -10, -1)
CONTENDED, INDEX_FULL, DAMAGED, POISONED, DENIED, VERSION = range(-10, -16, -1)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SHM = pathlib.Path("/dev/shm")


class Late(AssertionError):
    """A deadline has passed."""


def wait_until(condition, what, within_s=10.0):
    """The first true value of `condition`, asked again and again until the deadline."""
    deadline = time.monotonic() + within_s * SLOWER
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Late(f"not within {within_s * SLOWER:.1f} s: {what}; last seen: {value!r}")
        time.sleep(0.005)


def as_argument(value):
    """Keys as bytes go to the engine as hexadecimal digits."""
    if isinstance(value, bytes):
        return "hex:" + value.hex()
    if isinstance(value, (list, tuple)):
        return ",".join(as_argument(item) for item in value)
    return str(value)


class Reply(dict):
    """An answer of an engine; its fields are attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as missing:
            raise AttributeError(f"no {name} in {dict(self)}") from missing


class Engine:
    """One client process. Calling it sends a command and waits for the answer."""

    def __init__(self, domain, name, environment=None, wrapper=(), wait=True):
        self.domain, self.name = domain, name
        self.errors = domain.folder / f"{name}.stderr"
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen([*wrapper, ENGINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors, env={**os.environ, **(environment or {})})
        self.pid = self.process.pid
        self.rest = b""
        if wait:
            assert "ready" in self.answer(within_s=10)

    def send(self, command, *flags, **arguments):
        words = [command, *flags, *(f"{name}={as_argument(value)}" for name, value in arguments.items())]
        self.process.stdin.write((" ".join(words) + "\n").encode())
        self.process.stdin.flush()

    def answer(self, within_s=20.0):
        deadline = time.monotonic() + within_s * SLOWER
        while (reply := self.answer_so_far(max(0.0, deadline - time.monotonic()))) is None:
            if time.monotonic() > deadline:
                raise Late(f"engine {self.name} did not answer within {within_s * SLOWER:.1f} s")
        return reply

    def answer_so_far(self, wait_s=0.0):
        """The next answer, or None when it has not come."""
        output = self.process.stdout.fileno()
        if b"\n" not in self.rest and select.select([output], [], [], wait_s)[0]:
            piece = os.read(output, 1 << 20)
            if not piece:
                raise AssertionError(f"engine {self.name} ended with {self.process.wait(10)}: "
                                     f"{self.errors.read_text(errors='replace')[-2000:]}")
            self.rest += piece
        if b"\n" not in self.rest:
            return None
        line, self.rest = self.rest.split(b"\n", 1)
        reply = Reply(json.loads(line))
        assert "unknown" not in reply, reply
        return reply

    def __call__(self, command, *flags, within_s=20.0, **arguments):
        self.send(command, *flags, **arguments)
        return self.answer(within_s)

    def connect(self, *flags, **arguments):
        reply = self("connect", *flags, **{"server": self.domain.socket, "id": self.name, **arguments})
        assert reply.status == OK, reply
        return reply

    def good(self, command, *flags, **arguments):
        """A command whose status must be OK."""
        reply = self(command, *flags, **arguments)
        assert reply.status == OK, (command, flags, arguments, reply)
        return reply

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def alive(self):
        return self.process.poll() is None

    def quit(self):
        """Ends as a program does that forgot to close its client."""
        if self.alive():
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(b"quit\n")
                self.process.stdin.flush()
        assert self.process.wait(20 * SLOWER) == 0, self.errors.read_text(errors="replace")[-3000:]

    def dispose(self):
        if self.alive():
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


@dataclasses.dataclass
class Ended:
    """How a program ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self):
        return self.out.decode(errors="replace")

    def json(self):
        return json.loads(self.out)


def run(*command, given=None, within_s=30.0, environment=None, preexec=None, user=None):
    done = subprocess.run([str(word) if not isinstance(word, bytes) else word for word in command], input=given,
                          capture_output=True, timeout=within_s * SLOWER, check=False, preexec_fn=preexec,
                          user=user, stdin=None if given is not None else subprocess.DEVNULL,
                          env={**os.environ, **(environment or {})})
    if command[0] == MARUCTL and "--json" in command and done.stdout:
        maructl_schema.check(command[1:], done.stdout)
    return Ended(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


class Domain:
    """A daemon with its own socket, pool and folder. `settings` are TOML sections: {"control": {"max_pins": 64}}."""

    engine_type = Engine
    engine_name = "engine"  # hosts of one domain see each other's: theirs differ

    def __init__(self, pool="64MiB", settings=None, environment=None, folder=None, namespaces=None):
        self.unique = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.folder = folder or pathlib.Path(tempfile.mkdtemp(prefix="maru-e2e-"))
        self.socket = self.folder / "m.sock"
        self.pool_path = SHM / f"maru-e2e-{self.unique}"
        self.pool = pool
        self.settings = settings or {}
        self.pool_keys = {"prefault": "none"}
        self.namespaces = namespaces or []  # of the config: {"name": "a", "quota": "4MiB"}
        self.environment = environment or {}
        self.config = self.folder / "maru.toml"
        self.log = self.folder / "daemon.log"
        self.process = None
        self.wrapper = []  # what the daemon is started through
        self.engines = []
        self.started = 0
        self.expect_clean = True
        self.write_config()

    # -- daemon

    def write_config(self):
        sections = {"daemon": {"socket": str(self.socket), "log_level": "debug", "group": None},
                    "control": {"key_pin_ttl": "0s"}, "metrics": {"listen": ""}}
        if os.environ.get("MARU_EVENT_BACKEND"):
            sections["daemon"]["event_backend"] = os.environ["MARU_EVENT_BACKEND"]
        for section, values in self.settings.items():
            sections.setdefault(section, {}).update(values)
        lines = []
        for section, values in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None]
        for keys in self.pool_sections():
            lines.append("[[pool]]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in keys.items()]
        for keys in self.namespaces:
            lines.append("[[namespace]]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in keys.items()]
        self.config.write_text("\n".join(lines) + "\n")

    def pool_sections(self):
        return [{"name": "test", "kind": "shm", "path": str(self.pool_path), "size": self.pool, **self.pool_keys}]

    def launch(self, preexec):
        with open(self.log, "ab") as log:
            return subprocess.Popen([*self.wrapper, MARU, "--config", self.config], stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=log, env={**os.environ, **self.environment}, preexec_fn=preexec)

    def start(self, wait=True, preexec=None):
        assert self.process is None or self.process.poll() is not None
        self.process = self.launch(preexec)
        self.started += 1
        if wait:
            self.wait_ready()
        return self

    def serves(self):
        if self.process.poll() is not None:
            raise AssertionError(f"daemon ended with {self.process.returncode}: {self.log_tail()}")
        return self.maructl("--json", "status").code == 0

    def wait_ready(self):
        wait_until(self.serves, "the daemon serves", within_s=20)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def stop(self):
        """An orderly stop; the daemon's exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20 * SLOWER)

    def pause(self):
        """Stops the daemon in its tracks; returns when the kernel says that it stands."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: process_state(self.process.pid) == "T", "the daemon is stopped")

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def restart(self):
        self.kill()
        return self.start()

    def socket_is_there(self):
        return self.socket.exists()

    def log_tail(self, characters=4000):
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    # -- others

    def engine(self, *flags, connect=True, environment=None, wrapper=(), **arguments):
        engine = self.engine_type(self, f"{self.engine_name}{len(self.engines) + 1}", environment, wrapper)
        self.engines.append(engine)
        if connect:
            engine.connect(*flags, **arguments)
        return engine

    def maructl(self, *arguments, given=None, within_s=30.0, user=None):
        return run(MARUCTL, "--socket", self.socket, *arguments, given=given, within_s=within_s, user=user)

    def ask(self, *arguments):
        """The JSON answer of a maructl command that must succeed."""
        ended = self.maructl("--json", *arguments)
        assert ended.code == 0, (arguments, ended)
        return ended.json()

    def status(self):
        return self.ask("status")

    def clients(self):
        """Connected engines, by their instance id."""
        return {row["instance_id"]: row for row in self.ask("clients")["clients"] if not row["is_daemon"]}

    def page_counts(self):
        """Pages by state, summed over all regions."""
        sums = {}
        for region in self.ask("regions")["regions"]:
            for state, count in region["pages"].items():
                sums[state] = sums.get(state, 0) + count
        return sums

    def keys(self):
        return self.ask("keys")["keys"]

    def check(self):
        return self.maructl("--json", "check", within_s=60)

    def check_clean(self, within_s=10.0):
        """Proves the whole control region; a sweep that is under way gets its time."""
        return wait_until(lambda: (ended := self.check()).code == 0 and ended.json()["clean"] and ended.json(),
                          f"maructl check is clean: {self.check()}", within_s)

    def nothing_held(self):
        counts = self.page_counts()
        return not self.clients() and not counts.get("reserved") and not counts.get("pinned") \
            and not counts.get("quarantined")

    # -- the end

    def finish(self):
        """What must hold after every test: no engine saw a wrong byte, everything held came back, the control region
        is sound, the daemon stops in order, and nothing stays behind."""
        try:
            for engine in self.engines:
                engine.dispose()
            for engine in self.engines:
                errors = engine.errors.read_text(errors="replace")
                assert "VIOLATION" not in errors and "Sanitizer" not in errors and "runtime error" not in errors, \
                    errors[-4000:]
            if self.expect_clean and self.process is not None:
                if self.running():
                    self.resume()
                else:
                    self.start()
                wait_until(self.nothing_held, "nothing is held any more", within_s=20)
                self.check_clean()
                assert self.stop() == 0, self.log_tail()
                assert not self.socket_is_there(), "the socket is left behind"
            log = self.log_tail(1 << 20)
            assert "Sanitizer" not in log and "runtime error" not in log and "terminate called" not in log, log
        except BaseException:
            print(f"---- the end of {self.log}:\n{self.log_tail()}")
            raise
        finally:
            if self.running():
                self.resume()
                self.kill()
            for path in SHM.glob(f"*{self.unique}*"):
                path.unlink()
            shutil.rmtree(self.folder, ignore_errors=True)


def process_state(pid):
    """The letter of /proc/PID/stat: R, S, D, T, Z."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None
    return text[text.rindex(")") + 2]


def all_stopped(pid):
    """Every thread of the process stands."""
    states = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        text = (task / "stat").read_text()
        states.add(text[text.rindex(")") + 2])
    return states == {"T"}


def descriptors_of(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))
