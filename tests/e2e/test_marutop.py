"""marutop: live on a real terminal, and as text, CSV and JSON."""

import csv
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from harness import KIB, MARUCTL, MIB, SLOWER, run, wait_until
from terminal import Terminal

DONE, NO, CANNOT = 0, 1, 2
POOL_HEADER = "timestamp,dax_path,dax_type,total_bytes,free_bytes,used_bytes,usage_pct"
USAGE_HEADER = ("timestamp,instance_id,regions,allocated_bytes,used_bytes,slack_bytes,pool_total_bytes,"
                "pool_free_bytes")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def terminal(request):
    """Opens terminals; they are gone at the end."""
    opened = []

    def make(domain, *words, **size):
        opened.append(Terminal([MARUCTL, "--socket", domain.socket, "top", *words], **size))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def busy(domain):
    """A domain with two instances, one of which has stored and read."""
    writer = domain.engine(pool=16 * MIB, page=64 * KIB, id="writer")
    writer.good("put_many", prefix="k", count=100, size=40_000)
    for number in range(10):
        writer("get", key=f"k{number}")
    writer.good("retrieve", key="k1")
    domain.engine(pool=8 * MIB, page=256 * KIB, id="reader")
    return domain


# -- without a terminal


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_pool_as_csv(busy):
    told = busy.maructl("top", "pool", "--csv")
    assert told.code == DONE and told.text.splitlines()[0] == POOL_HEADER
    row, = rows_of(told.text)
    used = busy.status()["bytes"]
    total = used["total"]
    free = used["free"] + used["unclaimed"]
    assert TIMESTAMP.fullmatch(row["timestamp"]) and row["dax_path"] == str(busy.pool_path) and row["dax_type"] == "shm"
    assert int(row["total_bytes"]) == total and int(row["free_bytes"]) == free and int(row["used_bytes"]) == total - free
    assert row["usage_pct"] == f"{100 * (total - free) / total:.2f}"


def test_usage_as_csv(busy):
    told = busy.maructl("top", "usage", "--csv")
    assert told.code == DONE and told.text.splitlines()[0] == USAGE_HEADER
    rows = {row["instance_id"]: row for row in rows_of(told.text)}
    assert rows.keys() == {"writer", "reader"}
    client = busy.clients()["writer"]
    assert int(rows["writer"]["regions"]) == client["regions"]
    assert int(rows["writer"]["allocated_bytes"]) == client["region_bytes"] == 16 * MIB
    assert int(rows["writer"]["used_bytes"]) == 100 * 64 * KIB
    assert int(rows["writer"]["slack_bytes"]) == 16 * MIB - 100 * 64 * KIB
    assert int(rows["reader"]["used_bytes"]) == 0
    pool, = rows_of(busy.maructl("top", "pool", "--csv").text)
    assert all(row["pool_total_bytes"] == pool["total_bytes"] and row["pool_free_bytes"] == pool["free_bytes"]
               for row in rows.values())


def test_csv_goes_on_with_one_header(busy):
    told = busy.maructl("top", "pool", "--csv", "-w", "0.1", "-c", "3")
    assert told.code == DONE and told.text.splitlines().count(POOL_HEADER) == 1 and len(rows_of(told.text)) == 3


def test_names_in_csv_are_quoted(domain):
    name = 'a,"b";c'
    domain.engine(pool=4 * MIB, page=64 * KIB, id=name)
    assert [row["instance_id"] for row in rows_of(domain.maructl("top", "usage", "--csv").text)] == [name]


def test_tables_as_text(busy):
    told = busy.maructl("top")  # standard output is no terminal
    assert told.code == DONE and "\x1b" not in told.text
    once = busy.maructl("top", "--once")
    assert once.code == DONE
    for text in (told.text, once.text):
        assert "DEVICES" in text and "INSTANCES" in text and "100 objects, 2 clients" in text
        assert re.search(r"^test +shm +6\.2 MiB +55\.8 MiB +62\.0 MiB +0 B \[#+-+\]$", text, re.MULTILINE), text
        assert re.search(r"^writer +8 +16\.0 MiB +6\.2 MiB +9\.8 MiB +1 +[\d.k]+ +100\.0$", text, re.MULTILINE), text
        assert re.search(r"^reader +4 +8\.0 MiB +0 B +8\.0 MiB +0 +0\.0 +-$", text, re.MULTILINE), text
    assert "DEVICES" in busy.maructl("top", "pool").text and "INSTANCES" in busy.maructl("top", "usage").text


def test_rates_are_those_of_the_interval(busy):
    """Of two looks the second tells what happened between them."""
    told = busy.maructl("--json", "top", "-w", "0.2", "-c", "2")
    first, second = [json.loads(line) for line in told.text.splitlines()]
    rate = {row["instance_id"]: row["operations_per_second"] for row in first["instances"]}
    assert rate["writer"] > 0
    assert all(row["operations_per_second"] == 0 and row["hit_percent"] is None for row in second["instances"])


def test_stats(busy):
    told = busy.maructl("top", "stats")
    assert told.code == DONE and told.text.splitlines()[0].split() == \
        ["OPERATION", "COUNT", "HITS", "BYTES", "AVERAGE", "P50", "P99"]
    rows = {row["operation"]: row for row in json.loads(busy.maructl("--json", "top", "stats").text)["operations"]}
    counters = busy.status()["counters"]
    assert rows["lookup"]["count"] == counters["lookups"] and rows["lookup"]["hits"] == counters["hits"]
    assert rows["store"]["count"] == counters["stores"] == 100 and rows["store"]["bytes"] == 100 * 40_000
    assert rows["lookup"]["p99_s"] is None, "nothing times what happens in shared memory"
    hello = rows["request hello"]
    assert hello["count"] == 2 and 0 < hello["p50_s"] <= hello["p99_s"] < 10 and 0 < hello["average_s"] < 10
    assert rows["request resume"]["count"] == 0 and rows["request resume"]["p50_s"] is None


def test_called_as_marutop(busy, tmp_path):
    program = tmp_path / "marutop"
    program.symlink_to(MARUCTL)
    told = run(program, "pool", "--csv", "--socket", busy.socket)
    assert told.code == DONE and told.text.startswith(POOL_HEADER)
    assert run(program, "--once", "--socket", busy.socket).code == DONE
    assert "--once" in run(program, "--help").text
    assert run(program, "status", "--socket", busy.socket).code == CANNOT, "marutop is no maructl"


def test_device_commands(busy, tmp_path):
    shown = busy.maructl("top", "device", "show", tmp_path / "absent")
    assert shown.code == NO and "absent" in shown.err
    assert busy.maructl("top", "device").code == CANNOT


@pytest.mark.parametrize("words", [["-w", "0"], ["-w", "soon"], ["-w", "-1"], ["-c", "0"], ["-c", "x"], ["extra"],
                                   ["stats", "--csv"], ["--csv"]])
def test_wrong_use(domain, words):
    ended = domain.maructl("top", *words)
    assert ended.code == CANNOT and (ended.err + ended.text).strip(), ended


def test_without_a_daemon(make_domain, terminal):
    domain = make_domain(start=False)
    for words in ([], ["--once"], ["pool"], ["usage", "--csv"], ["stats"]):
        ended = domain.maructl("top", *words)
        assert ended.code == CANNOT and str(domain.socket) in ended.err, ended
    screen = terminal(domain).wait_for_text("ended with 2")
    assert any("no daemon answers" in line for line in screen)


def test_an_unknown_terminal(domain):
    # What libtinfo had made of a terminal it then does not know is not freed by it.
    environment = {**os.environ, "TERM": "abacus", "ASAN_OPTIONS": "detect_leaks=0"}
    master, slave = pty.openpty()
    try:
        done = subprocess.run([MARUCTL, "--socket", domain.socket, "top"], stdin=slave, stdout=slave,
                              stderr=subprocess.PIPE, env=environment, timeout=20, check=False)
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == CANNOT and b"abacus" in done.stderr and b"--once" in done.stderr, done


# -- on a terminal


def instances_on(lines):
    """Names in the table INSTANCES, from above."""
    begin = next(number for number, line in enumerate(lines) if line.startswith("INSTANCES"))
    return [line.split()[0] for line in lines[begin + 1:-1] if line.strip()]


def test_the_screen(busy, terminal):
    screen = terminal(busy, "-w", "0.2")
    lines = screen.wait_for_text("INSTANCES")
    assert len(lines) == 24 and all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("maru ") and str(busy.socket) in lines[0]
    assert any(re.match(r"test +shm +6\.2 MiB +55\.8 MiB +62\.0 MiB +0 B \[#", line) for line in lines), lines
    assert instances_on(lines) == ["writer", "reader"]
    assert lines[-1].startswith("arrows select") and "q quit" in lines[-1]
    screen.press("q")
    after = screen.wait_for_text("ended with 0")
    assert not any("INSTANCES" in line for line in after), "the terminal is as it was before"


def test_it_is_live(busy, terminal):
    screen = terminal(busy, "-w", "0.2")
    screen.wait_for_text("reader")
    third = busy.engine(pool=4 * MIB, page=64 * KIB, id="third")
    screen.wait_for_text("third")
    third.good("put_many", prefix="t", count=10, size=1000)
    screen.wait_for_text("110 objects, 3 clients")
    third.good("close")
    screen.wait_for(lambda lines: "third" not in instances_on(lines), "who left is gone")
    busy.engines[0].send("mix", "until_told", seed=1, client=1, threads=1, keys=16, size_max=4 * KIB)
    screen.wait_for(lambda lines: any(re.match(r"writer .*\s[1-9][\d.]*[kM]\s", line) for line in lines),
                    "thousands of operations a second")
    busy.engines[0].process.stdin.write(b"mix-stop\n")
    busy.engines[0].process.stdin.flush()
    assert busy.engines[0].answer().violations == 0


def test_keys(busy, terminal):
    screen = terminal(busy, "-w", "0.2")
    screen.wait_for_text("s sort (allocated)")
    for name in ("used", "slack", "pinned", "ops/s", "hit %", "name"):
        screen.press("s")
        screen.wait_for_text(f"s sort ({name})")
    assert instances_on(screen.lines()) == ["reader", "writer"]
    screen.press("i")
    screen.wait_for_text("every 0.5 s")
    screen.press("Up", "Enter")  # what was chosen stays chosen, wherever the order puts it
    lines = screen.wait_for_text("INSTANCE reader")
    assert any(line.startswith("process") and str(busy.engines[1].pid) in line for line in lines)
    screen.press("Enter")
    screen.wait_for_text("DEVICES")
    screen.press("Down", "Enter")
    lines = screen.wait_for_text("INSTANCE writer")
    assert any(re.match(r"lookups +\d+, 11 hits", line) for line in lines), lines
    assert any(re.match(r"leases +1$", line) for line in lines), lines
    screen.press("Escape")
    screen.wait_for_text("DEVICES")
    screen.press("z", "F5", "Down", "Down", "Up")  # what means nothing does nothing
    screen.wait_for_text("DEVICES")
    screen.press("q")
    screen.wait_for_text("ended with 0")


def test_the_shown_instance_leaves(busy, terminal):
    screen = terminal(busy, "-w", "0.2")
    screen.wait_for_text("reader")
    screen.press("Down", "Enter")
    screen.wait_for_text("INSTANCE reader")
    busy.engines[1].good("close")
    screen.wait_for_text("this instance has left")
    screen.press("Enter")
    screen.wait_for(lambda lines: any("INSTANCES" in line for line in lines) and instances_on(lines) == ["writer"],
                    "the others are shown")


def test_sizes(busy, terminal):
    screen = terminal(busy, "-w", "0.2")
    screen.wait_for_text("INSTANCES")
    for width, height in ((120, 40), (40, 10), (200, 50), (20, 3), (10, 1), (80, 24)):
        screen.resize(width, height)
        screen.wait_for(lambda lines: len(lines) == height and lines[-1][:6] in ("arrows", "enter "),
                        f"the view fills {width}x{height}")
    lines = screen.lines()
    assert instances_on(lines) == ["writer", "reader"] and any(line.startswith("DEVICES") for line in lines)
    screen.press("q")
    screen.wait_for_text("ended with 0")


def test_many_instances_scroll(domain, terminal):
    names = [f"engine-{number:02}" for number in range(30)]
    engine = domain.engine(connect=False)
    for name in names:
        engine.good("connect", "no_claim", server=domain.socket, id=name, c=name)
    screen = terminal(domain, "-w", "0.2")
    lines = screen.wait_for_text("engine-00")
    assert "engine-29" not in instances_on(lines)
    screen.press(*["Down"] * 29)
    lines = screen.wait_for_text("engine-29")
    assert "engine-00" not in instances_on(lines) and len(lines) == 24
    screen.press("Enter")
    screen.wait_for_text("INSTANCE engine-29")
    screen.press("Enter", "PageUp", "PageUp", "PageUp")
    screen.wait_for_text("engine-00")


def test_colours_by_load(domain, terminal):
    def colour_of(lines, name):
        line = next(line for line in lines if name in line)
        found = re.findall(r"\x1b\[(?:[\d;]*;)?(3[0-7])[;m]", line.split(name)[0])
        return found[-1] if found else None

    screen = terminal(domain, "-w", "0.2")
    screen.wait_for_text("INSTANCES")
    engine = domain.engine(pool=60 * MIB, page=64 * KIB)
    begin = 0
    for used, colour in ((300, "32"), (800, "33"), (940, "31")):  # of 992 pages: green, yellow, red
        engine.good("put_many", prefix=f"f{used}-", count=used - begin, size=60_000)
        begin = used
        wait_until(lambda: colour_of(screen.lines(colours=True), "test ") == colour, f"{used} pages are {colour}")


def test_the_daemon_goes_and_comes_back(busy, terminal):
    screen = terminal(busy, "-w", "0.2")
    screen.wait_for_text("reader")
    busy.kill()
    screen.wait_for_text("trying again")
    busy.start()
    screen.wait_for(lambda lines: lines[0].startswith("maru ") and any("reader" in line for line in lines),
                    "the view goes on", within_s=20)
    screen.press("q")
    screen.wait_for_text("ended with 0")


def test_names_cannot_act_on_the_terminal(domain, terminal):
    domain.engine(pool=4 * MIB, page=64 * KIB, id="\x1b[2J\x1b]0;title\x07evil")
    screen = terminal(domain, "-w", "0.2")
    screen.wait_for_text("\\x1b[2J")
    assert "INSTANCES" in screen.text()


def test_it_ends_after_the_count_and_at_an_interrupt(busy, terminal):
    screen = terminal(busy, "-w", "0.1", "-c", "3")
    screen.wait_for_text("ended with 0")
    interrupted = terminal(busy, "-w", "0.2")
    interrupted.wait_for_text("INSTANCES")
    interrupted.press("C-c")
    interrupted.wait_for(lambda lines: not any("INSTANCES" in line for line in lines), "the terminal is given back")


def test_nothing_flickers(busy):
    """After the first screen only what changed is sent: no clearing, and few bytes."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(MARUCTL, [str(MARUCTL), "--socket", str(busy.socket), "top", "-w", "0.1"])
    try:
        def take(within_s):
            return os.read(master, 1 << 16) if select.select([master], [], [], within_s)[0] else b""

        shown = b""
        deadline = time.monotonic() + 10 * SLOWER
        while b"q quit" not in shown and time.monotonic() < deadline:
            shown += take(1)
        assert b"q quit" in shown
        while take(0.05):
            pass
        later = b""
        end = time.monotonic() + 2
        while time.monotonic() < end:
            later += take(0.1)
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        os.close(master)
    assert later, "the clock on the screen moves"
    assert b"\x1b[2J" not in later and b"\x1b[J" not in later and b"\x1b[H" not in later, later
    assert len(later) < 2000, f"{len(later)} bytes in 2 s: {later[:500]}"
