"""maructl check and dump on a domain that no daemon serves."""

import json

from harness import KIB, MARUCTL, MIB, run

CLEAN, FINDINGS, CANNOT = 0, 1, 2



def offline(domain, *arguments):
    return run(MARUCTL, *arguments, "--config", domain.config)


def scribble(domain, offset, data):
    with open(domain.pool_path, "r+b") as pool:
        pool.seek(offset)
        pool.write(data)


def rows_of(ended):
    assert ended.code == CLEAN, ended
    return [json.loads(line) for line in ended.out.splitlines()]


def index_at(domain):
    """Where the superblock says that the index lies: the ninth of the twelve places behind the counts."""
    with open(domain.pool_path, "rb") as pool:
        pool.seek(8 + 8 + 16 + 8 * 4 + 10 * 4 + 8 * 8)
        return int.from_bytes(pool.read(8), "little")


def test_check_without_a_daemon_sees_what_the_daemon_saw(domain, engine):
    engine.good("put_many", prefix="k", count=20, size=5000)
    online = offline(domain, "--json", "check")
    assert online.code == CLEAN and online.json()["objects"] == 20, "through the daemon that holds the lock"
    engine.quit()
    assert domain.stop() == 0
    before = domain.pool_path.read_bytes()
    ended = offline(domain, "--json", "check")
    assert ended.code == CLEAN, ended
    assert ended.json()["objects"] == 20 and ended.json()["clean"]
    assert domain.pool_path.read_bytes() == before, "a check only looks"
    assert "clean" in offline(domain, "check").text


def test_check_while_clients_live_without_a_daemon(domain, engine):
    engine.good("put_many", prefix="k", count=5, size=5000)
    domain.kill()
    ended = offline(domain, "--json", "check")
    assert ended.code == CLEAN and ended.json()["clients"] >= 1, ended


def test_check_finds_damage_without_a_daemon(domain, engine):
    engine.good("put_many", prefix="k", count=20, size=5000)
    engine.quit()
    domain.stop()
    domain.expect_clean = False
    scribble(domain, index_at(domain), bytes(1 * MIB // 8))
    ended = offline(domain, "check")
    assert ended.code == FINDINGS and "object has no slot in the index" in ended.text, ended


def test_check_names_what_it_cannot_look_at(domain, engine):
    engine.quit()
    domain.stop()
    domain.expect_clean = False
    scribble(domain, 0, b"\xff" * 64)
    ended = offline(domain, "check")
    assert ended.code == CANNOT and "magic" in ended.err and str(domain.pool_path) in ended.err, ended
    assert offline(domain, "dump").code == CANNOT
    nothing = run(MARUCTL, "check", "--pool", "shm:no-such-pool-anywhere")
    assert nothing.code == CANNOT and "no-such-pool-anywhere" in nothing.err, nothing
    wrong = run(MARUCTL, "check", "--pool", "paper:x")
    assert wrong.code == CANNOT and "paper" in wrong.err, wrong


def test_the_lock_of_a_served_domain_is_respected(make_domain):
    domain = make_domain()
    other = make_domain()
    ended = run(MARUCTL, "--socket", other.socket, "check", "--config", domain.config)
    assert ended.code == CANNOT and "serves another domain" in ended.err, ended


def test_dump_is_the_same_with_and_without_a_daemon(domain, engine):
    engine.good("put_many", prefix="k", count=20, size=5000)
    engine.good("put", key="hex:00ff1b5b", id=1, size=64 * KIB)
    online = rows_of(domain.maructl("dump"))
    engine.quit()
    domain.stop()
    found = rows_of(offline(domain, "dump"))
    assert {row["table"] for row in found} >= {"superblock", "pools", "regions", "granules", "records", "index",
                                               "clients", "namespaces"}
    objects = [row for row in found if row["table"] == "records" and row["phase"] == "PUBLISHED"]
    assert len(objects) == 21
    assert objects == [row for row in online if row["table"] == "records" and row["phase"] == "PUBLISHED"]
    slots = [slot for row in found if row["table"] == "index" for slot in row["slots"] if slot]
    assert {slot["record"] for slot in slots} == {row["number"] for row in objects}


def test_dump_of_damaged_text_is_safe_for_a_terminal(domain, engine):
    engine.quit()
    domain.stop()
    domain.expect_clean = False
    scribble(domain, 4096 + 16 + 8 + 24, b"\x1b[2J\xff\xfe\x07" + b"a" * 20)  # the first pool's name
    ended = offline(domain, "dump")
    assert all(byte in (10, *range(32, 127)) for byte in ended.out), "only printable ASCII and line ends"
    name = next(row["name"] for row in rows_of(ended) if row["table"] == "pools")
    assert name.startswith("\\x1b[2J\\xff\\xfe\\x07aaa")
