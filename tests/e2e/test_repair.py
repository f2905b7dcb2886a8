"""maructl check --repair: on what SIGKILLed processes left, over damage, killed itself, and never beside a client."""

import json
import os
import random
import signal
import subprocess
import time

from harness import KIB, MARUCTL, MIB, SLOWER, run, wait_until
from test_offline import offline, scribble

DONE, REFUSED, CANNOT = 0, 1, 2
ROUNDS = int(os.environ.get("MARU_REPAIR_ROUNDS", 6 // SLOWER or 1))
PLACES = ["pools", "hosts", "clients", "client_stats", "namespaces", "regions", "records", "pin_chunks", "index",
          "overflow_claims", "granule_claims", "hints"]


def places_of(domain):
    """Where the tables lie, as the superblock says, by name; and the end of each: where the next one begins."""
    with open(domain.pool_path, "rb") as pool:
        head = pool.read(4096)
    at = {name: int.from_bytes(head[104 + 8 * n:112 + 8 * n], "little") for n, name in enumerate(PLACES)}
    ends = sorted([*at.values(), int.from_bytes(head[32:40], "little")])
    return {name: (start, next(end for end in ends if end > start)) for name, start in at.items()}


def fill(domain, keys=30):
    """Objects of two sizes, and a client that dies in the middle of its work."""
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=keys, size=20_000)
    worker = domain.engine(pool=4 * MIB, page=16 * KIB)
    worker.send("mix", seed=7, client=9, threads=2, run_ms=60_000, keys=40, size_max=16 * KIB)
    wait_until(lambda: domain.page_counts()["published"] > keys + 5, "there is load")
    for process in (worker.process, domain.process, engine.process):
        process.send_signal(signal.SIGKILL)
        process.wait(10)


def read_back(domain, keys=30):
    """How many of the keys are there; each that is has its own bytes."""
    engine = domain.engine(pool=4 * MIB, page=64 * KIB)
    present = 0
    for number in range(keys):
        got = engine("get", key=f"k{number}")
        if got.status == 0:
            assert got.right, f"k{number} has other bytes than its own"
            present += 1
    return present


def works(domain):
    engine = domain.engines[-1]
    engine.good("put", key="after", id=77, size=30_000)
    assert engine.good("get", key="after").right
    engine.good("remove", key="after")


def test_nothing_to_repair(domain, engine):
    engine.good("put_many", prefix="k", count=5, size=5000)
    engine.quit()
    domain.stop()
    before = domain.pool_path.read_bytes()
    ended = offline(domain, "check", "--repair")
    assert ended.code == DONE and "nothing to repair" in ended.text, ended
    assert domain.pool_path.read_bytes() == before


def test_refused_while_a_daemon_or_a_client_lives(domain, engine):
    engine.good("put_many", prefix="k", count=5, size=5000)
    served = domain.maructl("check", "--repair")
    assert served.code == REFUSED and "a daemon serves the domain" in served.err, served
    assert offline(domain, "check", "--repair").code == REFUSED
    domain.kill()
    ended = offline(domain, "check", "--repair")
    assert ended.code == REFUSED and "engine1" in ended.err and "end it first" in ended.err, ended
    domain.start()
    assert engine.good("get", key="k0").right


def test_damage_is_repaired_and_every_untouched_object_is_kept(make_domain):
    domain = make_domain()
    fill(domain)
    start, end = places_of(domain)["index"]
    scribble(domain, start, bytes(end - start))
    start, end = places_of(domain)["regions"]
    scribble(domain, start, b"\xff" * (end - start))
    assert offline(domain, "check").code == REFUSED
    ended = offline(domain, "--json", "check", "--repair")
    assert ended.code == DONE, ended
    report = ended.json()
    assert report["repaired"] and report["clean"] and report["kept"] >= 30 and not report["lost"], report
    assert offline(domain, "check").code == DONE
    domain.start()
    assert read_back(domain) == 30
    works(domain)


def test_any_table_at_random(make_domain):
    domain = make_domain()
    for number in range(ROUNDS):
        seed = int(os.environ.get("MARU_REPAIR_SEED", 1)) + number
        dice = random.Random(seed)
        fill(domain)
        name, (start, end) = dice.choice(sorted(places_of(domain).items()))
        at = dice.randrange(start, end) & ~7
        scribble(domain, at, dice.choice([bytes(64), b"\xff" * 64, dice.randbytes(32)])[:end - at])
        checked = offline(domain, "--json", "check")
        ended = offline(domain, "--json", "check", "--repair")
        assert ended.code == DONE, (seed, name, at, checked, ended)
        domain.start()
        # 64 bytes of the record table are at most two objects'.
        assert read_back(domain) >= (28 if name == "records" else 30), (seed, name, at, ended)
        works(domain)
        domain.engines[-1].quit()


def test_a_killed_repair_is_run_again(make_domain):
    domain = make_domain()
    fill(domain)
    start, end = places_of(domain)["index"]
    scribble(domain, start, bytes(end - start))
    dice, killed = random.Random(5), 0
    for _ in range(15):
        repair = subprocess.Popen([MARUCTL, "check", "--repair", "--config", domain.config],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + dice.random() * 0.02
        while time.monotonic() < deadline and repair.poll() is None:
            time.sleep(0.0005)
        repair.kill()
        killed += repair.wait(10) == -signal.SIGKILL
    assert killed > 0
    ended = offline(domain, "check", "--repair")
    assert ended.code == DONE, ended
    domain.start()
    assert read_back(domain) == 30
    works(domain)


def test_an_unfinished_repair_is_served_by_nobody(domain, engine):
    engine.good("put_many", prefix="k", count=5, size=5000)
    engine.quit()
    domain.stop()
    magic = bytes(domain.pool_path.read_bytes()[:8])
    scribble(domain, 7, bytes([magic[7] + 2]))
    domain.start(wait=False)
    assert domain.process.wait(20) != 0
    assert "maructl check --repair" in domain.log_tail()
    assert offline(domain, "check", "--repair").code == DONE
    domain.start()
    assert len(domain.keys()) == 5


def test_what_cannot_be_repaired_says_why(domain, engine):
    engine.good("put_many", prefix="k", count=5, size=5000)
    engine.quit()
    domain.stop()
    domain.expect_clean = False
    scribble(domain, 40, os.urandom(8))
    ended = offline(domain, "--json", "check", "--repair")
    assert ended.code == REFUSED and "hash seed" in ended.err, ended
    assert json.loads(ended.out)["refused"]
    gone = run(MARUCTL, "check", "--repair", "--pool", "shm:no-such-pool-anywhere")
    assert gone.code == CANNOT, gone


def test_a_daemon_on_a_damaged_region_serves_or_says_why(make_domain):
    """Each table scribbled over at rest: the daemon that starts on it serves or ends with a reason, it does not crash or
    stand still; neither does an engine that connects; afterwards it can be repaired."""
    domain = make_domain()
    domain.expect_clean = False
    fill(domain)
    whole = domain.pool_path.read_bytes()
    dice = random.Random(int(os.environ.get("MARU_REPAIR_SEED", 1)))
    for name, (start, end) in sorted(places_of(domain).items()):
        scribble(domain, 0, whole)
        for _ in range(6):
            at = dice.randrange(start, end) & ~7
            scribble(domain, at, dice.choice([bytes(256), b"\xff" * 256, dice.randbytes(64)])[:end - at])
        size = domain.log.stat().st_size
        domain.start(wait=False)
        try:
            domain.wait_ready()
        except AssertionError:
            assert domain.process.returncode > 0, (name, domain.process.returncode, domain.log_tail())
            assert domain.log.stat().st_size > size + 20, (name, "ended without a word")
            continue
        engine = domain.engine(connect=False)
        engine("connect", pool=4 * MIB, page=64 * KIB)
        for number in range(10):
            engine("get", key=f"k{number}")
            engine("put", key=f"n{name}{number}", id=number, size=1000)
        assert engine.alive() and domain.running(), (name, domain.log_tail())
        engine.kill()
        domain.kill()
        ended = offline(domain, "--json", "check", "--repair")
        assert ended.code == DONE, (name, ended)


def test_damage_while_engines_run_ends_nobody(make_domain):
    """Scribbles under a running daemon and engines: errors, no crash, no standstill."""
    domain = make_domain()
    domain.expect_clean = False
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=30, size=20_000)
    dice = random.Random(11)
    for name, (start, end) in sorted(places_of(domain).items()):
        for _ in range(4):
            at = dice.randrange(start, end) & ~7
            scribble(domain, at, dice.choice([bytes(256), b"\xff" * 256, dice.randbytes(64)])[:end - at])
        for number in range(10):
            engine("get", key=f"k{number}")
            engine("exists", key=f"k{number}")
            engine("put", key=f"n{name}{number}", id=number, size=1000)
            engine("remove", key=f"k{number}")
        assert engine.alive() and domain.running(), (name, domain.log_tail())
        for command in ("status", "regions", "clients", "keys", "dump", "check"):
            ended = domain.maructl(command, within_s=60)
            assert ended.code in (0, 1), (name, command, ended)
    late = domain.engine(connect=False)
    late("connect", pool=4 * MIB, page=64 * KIB)
    assert late.alive() and domain.running()
    engine.kill()
    late.kill()
    domain.kill()
    ended = offline(domain, "--json", "check", "--repair")
    assert ended.code == DONE, ended
    domain.start()
    assert domain.check().code == DONE
