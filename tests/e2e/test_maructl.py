"""maructl: every command, JSON that parses, exit codes, pipes, keys with any bytes."""

import json
import os
import pty
import re
import subprocess

import pytest
from harness import KIB, MARUCTL, MIB, OK, run, wait_until

YES, NO, WRONG = 0, 1, 2
LISTINGS = ["status", "pools", "regions", "clients", "keys", "check"]


@pytest.mark.parametrize("command", LISTINGS)
def test_listings_as_table_and_json(domain, engine, command):
    engine.good("put_many", prefix="k", count=5, size=1000)
    engine.good("alloc", size=1)
    table = domain.maructl(command)
    assert table.code == YES and table.text.strip(), table
    document = domain.maructl("--json", command)
    assert document.code == YES
    assert isinstance(json.loads(document.out), (dict, list))
    assert not document.err
    engine.good("free")


@pytest.mark.parametrize("command", [*LISTINGS, "get", "put", "rm", "exists"])
def test_without_a_daemon(make_domain, command):
    domain = make_domain(start=False)
    arguments = {"get": ["k"], "put": ["k", "/dev/null"], "rm": ["k"], "exists": ["k"]}.get(command, [])
    ended = domain.maructl(command, *arguments, within_s=10)
    assert ended.code == WRONG and str(domain.socket) in ended.err, ended


@pytest.mark.parametrize("words", [[], ["frobnicate"], ["status", "--frobnicate"], ["get"], ["put", "k"], ["rm"],
                                   ["exists"], ["keys", "--limit", "many"], ["get", "k", "extra"]])
def test_wrong_use(domain, words):
    ended = domain.maructl(*words)
    assert ended.code == WRONG and (ended.err + ended.text).strip(), ended


def test_help_and_version():
    shown = run(MARUCTL, "--help")
    assert shown.code == YES
    for command in (*LISTINGS, "get", "put", "rm", "exists"):
        assert command in shown.text
    assert "0.1" in run(MARUCTL, "--version").text


def test_put_get_exists_rm(domain, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    content = os.urandom(300_000)
    source.write_bytes(content)
    assert domain.maructl("exists", "k").code == NO
    assert domain.maructl("get", "k").code == NO
    assert domain.maructl("put", "k", source).code == YES
    assert domain.maructl("exists", "k").code == YES
    assert domain.maructl("get", "k", "-o", target).code == YES
    assert target.read_bytes() == content
    again = domain.maructl("put", "k", source)
    assert again.code == NO, "the first value stays"
    assert domain.maructl("rm", "k").code == YES
    assert domain.maructl("rm", "k").code == NO
    assert domain.maructl("exists", "k").code == NO


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 65_537, 1_000_003])
def test_pipes(domain, size):
    content = os.urandom(size)
    assert domain.maructl("put", "piped", "-", given=content).code == YES
    got = domain.maructl("get", "piped")
    assert got.code == YES and got.out == content


def test_values_of_engines_come_out_whole(domain, engine):
    engine.good("put", key="k", id=5, size=40_000)
    value = domain.maructl("get", "k").out
    assert len(value) == 40_000 and int.from_bytes(value[:8], "little") == 5
    assert domain.maructl("put", "from-shell", "-", given=b"hello").code == YES
    assert engine("get", key="from-shell").size == 5


def test_a_failed_get_leaves_no_file(domain, tmp_path):
    target = tmp_path / "out"
    assert domain.maructl("get", "absent", "-o", target).code == NO
    assert not target.exists()
    assert domain.maructl("put", "k", "-", given=b"x").code == YES
    assert domain.maructl("get", "k", "-o", tmp_path / "no" / "such" / "folder").code in (NO, WRONG)
    assert domain.maructl("put", "k2", tmp_path / "absent").code in (NO, WRONG)
    assert domain.maructl("exists", "k2").code == NO


def test_a_value_larger_than_any_page(domain, tmp_path):
    source = tmp_path / "large"
    with open(source, "wb") as file:
        file.truncate(40 * MIB)
    refused = domain.maructl("put", "k", source)
    assert refused.code == NO and refused.err.strip(), refused
    assert domain.maructl("exists", "k").code == NO


def test_a_full_device_is_an_error(domain, engine):
    engine.good("put", key="k", id=1, size=60_000)
    ended = domain.maructl("get", "k", "-o", "/dev/full")
    assert ended.code != YES and ended.err.strip(), ended


KEYS = {"text": ("plain/key", b"plain/key"), "hex": ("hex:00ff0a", b"\x00\xff\n"), "spaces": ("a b  c", b"a b  c"),
        "long": ("k" * 4096, b"k" * 4096)}


@pytest.mark.parametrize("shell, key", KEYS.values(), ids=KEYS.keys())
def test_keys_on_the_command_line(domain, engine, shell, key):
    engine.good("put", key=key, id=1, size=100)
    assert domain.maructl("exists", shell).code == YES
    assert len(domain.maructl("get", shell).out) == 100
    assert domain.maructl("rm", shell).code == YES
    assert engine("exists", key=key).status != OK


@pytest.mark.parametrize("key", ["", "hex:0", "hex:zz", "hex:", "k" * 4097])
def test_keys_that_are_none(domain, key):
    ended = domain.maructl("exists", key)
    assert ended.code == WRONG and ended.err.strip(), ended


NASTY = [b"\x1b[2J\x1b[31mred", b"line\nbreak", b"tab\there", b"nul\0inside", b"\xff\xfe\x80", b"quote\"back\\slash",
         "snowman \u2603".encode(), b"\x7f\x9b31m", b"x" * 300]


def test_keys_of_any_bytes_are_printed_safely(domain, engine):
    for number, key in enumerate(NASTY):
        engine.good("put", key=key, id=number, size=100)
    table = domain.maructl("keys")
    assert table.code == YES
    control = set(range(32)) - {10} | {127}
    assert not control & set(table.out), "a terminal would act on this"
    table.out.decode("utf-8")
    document = domain.maructl("--json", "keys")
    assert len(document.json()["keys"]) == len(NASTY)
    assert not control & set(document.out)


def test_what_keys_prints_can_be_given_back(domain, engine):
    """A key from the listing names the same object on the command line."""
    for number, key in enumerate(NASTY[:-1]):
        engine.good("put", key=key, id=number, size=100)
    for row in domain.keys():
        assert domain.maructl("exists", row["key"]).code == YES, row
        assert domain.maructl("rm", row["key"]).code == YES, row
    assert domain.keys() == []


def test_keys_with_prefix_and_limit(domain, engine):
    engine.good("put_many", prefix="a-", count=30, size=100)
    engine.good("put_many", prefix="b-", count=10, size=100)
    assert len(domain.ask("keys", "--prefix", "a-")["keys"]) == 30
    assert len(domain.ask("keys", "--limit", "7")["keys"]) == 7
    assert len(domain.ask("keys", "--prefix", "c-")["keys"]) == 0
    assert len(domain.keys()) == 40


def test_a_long_list_that_goes_into_a_file_says_how_far_it_is(make_domain, tmp_path):
    domain = make_domain(pool="64MiB", settings={"control": {"max_objects": 8192}})
    domain.engine(pool=16 * MIB, page=4 * KIB).good("put_many", prefix="k", count=3000, size=100)
    words = [MARUCTL, "--socket", domain.socket, "keys"]
    terminal, other = pty.openpty()
    with (tmp_path / "keys").open("wb") as file:
        subprocess.run(words, stdout=file, stderr=other, check=True, timeout=30)
    shown = os.read(terminal, 64 * KIB)
    os.close(terminal)
    os.close(other)
    assert re.fullmatch(rb"(\rkeys: \d+ %\x1b\[K){2,}\r\x1b\[K", shown), shown
    assert len((tmp_path / "keys").read_bytes().splitlines()) == 3001
    silent = subprocess.run(words, capture_output=True, check=True, timeout=30)
    assert not silent.stderr and len(silent.stdout.splitlines()) == 3001


def test_keys_of_one_namespace(domain, engine):
    engine.good("put_many", prefix="a-", count=5, size=100)
    other = domain.engine(namespace="team-b")
    other.good("put_many", prefix="a-", count=3, size=100)
    assert {row["namespace"] for row in domain.ask("keys", "--namespace", "team-b")["keys"]} == {"team-b"}
    assert len(domain.ask("keys", "--namespace", "team-b", "--prefix", "a-")["keys"]) == 3
    assert len(domain.ask("keys", "--namespace", "default")["keys"]) == 5
    nobody = domain.maructl("keys", "--namespace", "team-c")
    assert nobody.code == NO and 'there is no namespace "team-c"' in nobody.err


def test_rows_are_sorted_and_filtered(domain, engine):
    engine.good("put_many", prefix="k", count=5, size=1000)
    second = domain.engine()
    second.good("put_many", prefix="other", count=50, size=1000)
    rows = domain.ask("clients", "--sort", "counters.stores")["clients"]
    assert [row["counters"]["stores"] for row in rows] == [0, 5, 50]
    assert domain.ask("clients", "--sort", "counters.stores", "--reverse")["clients"] == rows[::-1]
    assert domain.ask("clients", "--filter", f"instance_id={second.name}")["clients"] == rows[2:]
    both = domain.ask("clients", "--filter", "is_daemon=false", "--filter", "counters.stores=5")["clients"]
    assert both == rows[1:2]
    assert domain.ask("clients", "--filter", "state=DEAD")["clients"] == []
    table = domain.maructl("clients", "--sort", "counters.stores", "--reverse").text.splitlines()
    assert second.name in table[1] and len(table) == 4
    pools = domain.ask("pools", "--filter", "kind=shm", "--sort", "bytes.free")["pools"]
    assert pools == domain.ask("pools")["pools"]


@pytest.mark.parametrize("words, said", [(["--sort", "age"], 'no row has a field "age"; there are: '),
                                         (["--filter", "pid"], '"pid" is not FIELD=VALUE'),
                                         (["--filter", "=5"], '"=5" is not FIELD=VALUE'),
                                         (["--filter", "counters=5", "--filter", "no.such=1"], '"no.such"')])
def test_a_field_that_no_row_has(domain, words, said):
    ended = domain.maructl("clients", *words)
    assert ended.code == WRONG and said in ended.err and not ended.text


def test_many_keys_come_whole(make_domain):
    domain = make_domain(settings={"control": {"max_objects": 15_000}})
    engine = domain.engine(pool=50 * MIB, page=4 * KIB)
    engine.good("put_many", prefix="k", count=12_000, size=16)
    keys = {row["key"] for row in domain.keys()}
    assert keys == {f"k{number}" for number in range(12_000)}


def test_counts_add_up(domain, engine):
    engine.good("put_many", prefix="k", count=10, size=1000)
    for number in range(5):
        engine.good("alloc", size=1, p=f"p{number}")
    engine.good("retrieve", key="k0")
    status = domain.status()
    pages = domain.page_counts()
    assert pages["published"] == 10 and pages["reserved"] == 5 and pages["pinned"] == 1
    assert status["bytes"]["published"] == 10 * 64 * KIB and status["bytes"]["reserved"] == 5 * 64 * KIB
    row = domain.clients()[engine.name]
    assert row["pid"] == engine.pid and row["reserved_bytes"] == 5 * 64 * KIB and row["leases"] == 1
    assert domain.ask("check")["pages"]["RESERVED" if "RESERVED" in domain.ask("check")["pages"] else "reserved"] == 5
    assert domain.ask("check")["objects"] == 10


def test_check_finds_damage(make_domain):
    """The proof can fail: a record scribbled over is a finding, and the exit code says so."""
    domain = make_domain()
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=10, size=1000)
    domain.check_clean()
    domain.expect_clean = False
    with open(domain.pool_path, "r+b") as pool:
        head = pool.read(4096)
        records_at = int.from_bytes(head[152:160], "little")
        for number in range(1, 3000):
            pool.seek(records_at + number * 192)
            state = pool.read(8)
            if state[0] & 15 == 4:  # published
                pool.seek(records_at + number * 192)
                pool.write(b"\x0f" + state[1:])
                break
        else:
            pytest.fail("no published record found")
    found = domain.maructl("--json", "check")
    assert found.code == NO and not found.json()["clean"] and found.json()["findings"]
    assert domain.maructl("check").code == NO


def test_get_under_a_daemon_that_goes_away(domain, engine):
    engine.good("put", key="k", id=1, size=100)
    domain.kill()
    ended = domain.maructl("get", "k", within_s=15)
    assert ended.code == WRONG and ended.err.strip()
    domain.start()
    wait_until(lambda: engine("ping").status == OK, "back")
    assert domain.maructl("get", "k").code == YES
