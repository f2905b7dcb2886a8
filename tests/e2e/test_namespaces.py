"""Namespaces as an administrator needs them: quotas, who may enter, flush, removal, and what a restart keeps."""

import json
import os
import signal

import pytest
from harness import DENIED, EXISTS, FULL, KIB, MARUCTL, MIB, MISS, OK, run, wait_until

PAGE = 64 * KIB
QUOTA = 3 * MIB  # one and a half regions: pages are counted
VALUE = PAGE - 64
GUEST, STAFF, AUDIT = 61001, 62001, 62002  # a user and two groups that nobody here has


def namespaces(domain):
    return {row["name"]: row for row in domain.ask("namespaces")["namespaces"]}


def present(engine, prefix, count):
    return engine.good("exists_batch", prefix=prefix, count=count).statuses.count(OK)


@pytest.fixture
def limited(make_domain):
    """A domain whose namespace "small" has a quota."""
    return make_domain(namespaces=[{"name": "small", "quota": QUOTA}])


def tenant(domain, name="small", **options):
    return domain.engine(**{"pool": 2 * MIB, "page": PAGE, "namespace": name, **options})


# -- quota


def test_a_full_namespace_evicts_its_own_and_nobody_elses(limited):
    other = tenant(limited, "other")
    other.good("put_many", prefix="o", count=100, size=VALUE)
    engine = tenant(limited)
    assert engine.good("put_many", prefix="k", count=300, size=VALUE).stored == 300
    row = namespaces(limited)["small"]
    assert row["quota"] == QUOTA and row["used_bytes"] <= QUOTA, row
    assert QUOTA <= row["claimed_bytes"] <= QUOTA + 2 * MIB, row
    assert 30 < present(engine, "k", 300) <= QUOTA // PAGE
    assert engine.good("get", key="k299").right
    assert present(other, "o", 100) == 100, "another namespace lost objects"


def test_memory_that_is_free_elsewhere_is_no_help(limited):
    """Nobody else stores anything, and the quota holds all the same."""
    engine = tenant(limited, pool=32 * MIB)
    engine.good("put_many", prefix="k", count=400, size=VALUE)
    row = namespaces(limited)["small"]
    assert row["used_bytes"] <= QUOTA and row["claimed_bytes"] < 2 * QUOTA, row


@pytest.mark.parametrize("policy", ["none", "clock"])
def test_nothing_to_evict_is_full_and_says_that_it_is_the_quota(make_domain, policy):
    domain = make_domain(namespaces=[{"name": "small", "quota": QUOTA}], settings={"eviction": {"policy": policy}})
    engine = tenant(domain)
    count = 0
    while (reply := engine("put", key=f"k{count}", id=1, size=VALUE)).status == OK:
        if policy == "clock":
            engine.good("pin", key=f"k{count}")
        count += 1
        assert count < 200
    assert count == QUOTA // PAGE
    assert reply.status == FULL and "quota of namespace 'small'" in reply.detail, reply
    assert str(QUOTA) in reply.detail and f"{count * PAGE} of" in reply.detail, reply
    assert present(engine, "k", count) == count, "what is there stays"
    assert engine("alloc", size=1).status == FULL
    tenant(domain, "other").good("put_many", prefix="o", count=100, size=VALUE)
    domain.ask("namespace", "set", "small", "--quota", "4MiB")
    engine.good("put", key="more", id=2, size=VALUE)
    engine.good("remove", key="more") if policy == "clock" else engine.good("remove", key="k0")


def test_a_page_that_is_larger_than_the_quota_is_refused(make_domain):
    domain = make_domain(namespaces=[{"name": "tiny", "quota": 32 * KIB}])
    reply = tenant(domain, "tiny")("put", key="k", id=1, size=100)
    assert reply.status == FULL and "quota of namespace 'tiny'" in reply.detail, reply
    assert str(PAGE) in reply.detail and str(32 * KIB) in reply.detail, reply


def test_a_lower_quota_loses_nothing_at_once_and_sinks(domain):
    engine = tenant(domain, "big")
    engine.good("put_many", prefix="k", count=200, size=VALUE)
    said = domain.maructl("namespace", "set", "big", "--quota", "1MiB")
    assert said.code == 0 and "more than that" in said.text, said
    assert present(engine, "k", 200) == 200
    claimed = namespaces(domain)["big"]["claimed_bytes"]
    assert engine.good("put_many", prefix="n", count=150, size=VALUE).stored == 150
    row = namespaces(domain)["big"]
    assert row["used_bytes"] <= 1 * MIB + PAGE and row["claimed_bytes"] <= claimed, row
    domain.ask("namespace", "set", "big", "--quota", "none")
    engine.good("put_many", prefix="m", count=100, size=VALUE)
    assert present(engine, "m", 100) == 100


def test_many_clients_take_few_pages_too_many(limited):
    engines = [tenant(limited) for _ in range(4)]
    for number, engine in enumerate(engines):
        engine.send("put_many", prefix=f"e{number}-", count=600, size=VALUE)
    replies = {}
    worst = 0
    while len(replies) < len(engines):
        worst = max(worst, namespaces(limited)["small"]["used_bytes"])
        for engine in engines:
            if engine.name not in replies and (reply := engine.answer_so_far()) is not None:
                replies[engine.name] = reply
    assert all(reply.status == OK and reply.stored == 600 for reply in replies.values()), replies
    assert worst <= QUOTA + 2 * len(engines) * PAGE, worst


def test_another_page_size_gets_its_share(limited):
    """Regions of pages that nobody uses any more are given up for a client of another page size."""
    first = tenant(limited)
    first.good("put_many", prefix="k", count=100, size=VALUE)
    first.quit()
    wait_until(lambda: not limited.clients(), "the first one has left")
    second = tenant(limited, page=16 * KIB)
    assert second.good("put_many", prefix="n", count=50, size=1000).stored == 50
    assert second.good("get", key="n49").right
    assert namespaces(limited)["small"]["used_bytes"] <= QUOTA + PAGE


def test_the_default_namespace_has_a_quota_too(make_domain):
    domain = make_domain(namespaces=[{"name": "default", "quota": QUOTA}])
    engine = domain.engine(pool=8 * MIB, page=PAGE)
    engine.good("put_many", prefix="k", count=200, size=VALUE)
    assert namespaces(domain)["default"]["used_bytes"] <= QUOTA


# -- what is kept, and what the config says


def test_what_maructl_made_survives_the_daemon(make_domain):
    domain = make_domain()
    made = domain.ask("namespace", "create", "team", "--quota", "5MiB", "--uid", "root", "--gid", str(STAFF),
                      "--readonly-gid", str(AUDIT))
    assert made["quota"] == 5 * MIB and made["uids"] == [0] and made["gids"] == [STAFF]
    domain.ask("namespace", "set", "team", "--quota", "6MiB", "--uid", "none")
    before = namespaces(domain)["team"]
    domain.restart()
    after = namespaces(domain)["team"]
    assert after == before and after["quota"] == 6 * MIB
    assert after["uids"] == [] and after["gids"] == [STAFF] and after["readonly_gids"] == [AUDIT]


def test_the_config_wins_and_says_so(limited):
    said = limited.maructl("namespace", "set", "small", "--quota", "9MiB")
    assert said.code == 0 and "the config lists it" in said.text, said
    assert namespaces(limited)["small"]["quota"] == 9 * MIB
    limited.restart()
    assert namespaces(limited)["small"]["quota"] == QUOTA
    assert "namespace 'small': what maructl namespace set (a quota of 9.0 MiB" in limited.log_tail()
    warnings = limited.log_tail().count("gives way to the config")
    limited.restart()
    assert limited.log_tail(1 << 20).count("gives way to the config") == warnings, "it is said once"


def test_a_reload_puts_namespaces_in_force(limited):
    engine = tenant(limited)
    engine.good("put_many", prefix="k", count=40, size=VALUE)
    limited.namespaces = [{"name": "small", "quota": "1MiB"}, {"name": "new", "readonly_gids": [AUDIT]}]
    limited.write_config()
    limited.process.send_signal(signal.SIGHUP)
    wait_until(lambda: namespaces(limited).get("small", {}).get("quota") == 1 * MIB, "the new quota")
    assert namespaces(limited)["new"]["readonly_gids"] == [AUDIT]
    assert present(engine, "k", 40) == 40
    limited.config.write_text(limited.config.read_text() + "[[namespace]]\nname = \"a b\"\n")
    limited.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the config is kept as it was" in limited.log_tail(), "the mistake is told")
    assert namespaces(limited)["small"]["quota"] == 1 * MIB
    limited.write_config()


def test_more_in_the_config_than_the_domain_has_room_for(make_domain):
    domain = make_domain(settings={"control": {"max_namespaces": 2}})
    domain.stop()
    domain.settings = {"control": {"max_namespaces": 9}}
    domain.namespaces = [{"name": "a"}, {"name": "b"}]
    domain.write_config()
    domain.start()
    assert set(namespaces(domain)) == {"default", "a"}
    assert "[[namespace]] 'b' of the config is not made: all 2 namespaces are made" in domain.log_tail()


# -- who may enter


def as_user(user, group, *groups):
    return ["setpriv", f"--reuid={user}", f"--regid={group}", f"--groups={','.join(map(str, groups))}" if groups
            else "--clear-groups"]


@pytest.fixture
def open_domain(make_domain):
    """A domain that every user of this machine may connect to."""
    if os.geteuid() != 0:
        pytest.skip("other users are root's to become")
    domain = make_domain(start=False, settings={"daemon": {"socket_mode": "0666"}})
    domain.folder.chmod(0o755)
    return domain.start()


def guest(domain, name, *groups, group=GUEST, connect=True, **options):
    engine = domain.engine(connect=False, wrapper=as_user(GUEST, group, *groups))
    if connect:
        engine.connect(**{"pool": 2 * MIB, "page": PAGE, "namespace": name, **options})
    return engine


def refused(domain, name, *groups, group=GUEST):
    engine = guest(domain, name, *groups, group=group, connect=False)
    reply = engine("connect", server=domain.socket, id=engine.name, pool=2 * MIB, page=PAGE, namespace=name)
    assert reply.status == DENIED and f"user {GUEST} may not use namespace '{name}'" in reply.detail, reply


def test_rules_let_in_whom_they_name(open_domain):
    domain = open_domain
    domain.ask("namespace", "create", "staff", "--gid", str(STAFF))
    domain.ask("namespace", "create", "own", "--uid", str(GUEST))
    domain.ask("namespace", "create", "other", "--uid", str(GUEST + 1))
    domain.ask("namespace", "create", "all")
    refused(domain, "other")
    refused(domain, "staff")
    refused(domain, "staff", AUDIT)
    guest(domain, "own").good("put", key="k", id=1, size=100)
    guest(domain, "all").good("put", key="k", id=1, size=100)
    guest(domain, "unheard-of").good("put", key="k", id=1, size=100)
    guest(domain, "staff", AUDIT, STAFF).good("put", key="by-supplementary", id=1, size=100)
    guest(domain, "staff", group=STAFF).good("put", key="by-primary", id=1, size=100)
    root = tenant(domain, "other")
    root.good("put", key="root-may-always", id=1, size=100)
    domain.ask("namespace", "set", "other", "--uid", "none")
    guest(domain, "other").good("get", key="root-may-always")


def assert_reads_only(reader, key):
    assert reader.good("get", key=key).right and reader("exists", key=key).status == OK
    reader.good("retrieve", key=key, v="v")
    assert reader.good("verify", v="v").right
    reader.good("release", v="v")
    for call, arguments in [("alloc", {"size": 1}), ("put", {"key": "new", "id": 1, "size": 1}),
                            ("remove", {"key": key}), ("pin", {"key": key})]:
        reply = reader(call, **arguments)
        assert reply.status == DENIED and "readonly_gids" in reply.detail, (call, reply)


def test_readers_read_and_do_no_more(open_domain):
    domain = open_domain
    domain.ask("namespace", "create", "team", "--gid", str(STAFF), "--readonly-gid", str(AUDIT))
    writer = guest(domain, "team", AUDIT, STAFF)  # both: the group of writers counts
    writer.good("put", key="k", id=7, size=5000)
    reader = guest(domain, "team", AUDIT)
    assert domain.clients()[reader.name]["read_only"] and not domain.clients()[writer.name]["read_only"]
    assert_reads_only(reader, "k")
    assert writer.good("get", key="k").id == 7
    assert not domain.clients()[reader.name]["regions"], "a reader holds no memory"


def test_a_change_of_rules_reaches_who_is_connected(open_domain):
    domain = open_domain
    engine = guest(domain, "team", STAFF)
    engine.good("put", key="k", id=1, size=100)
    domain.ask("namespace", "set", "team", "--readonly-gid", str(STAFF))
    assert_reads_only(engine, "k")
    domain.restart()  # the next daemon asks the kernel again who it is
    wait_until(lambda: engine.name in domain.clients() and engine("ping").status == OK, "the session goes on")
    assert_reads_only(engine, "k")
    # Not let in any more: reads on until it ends, and does not come in again.
    domain.ask("namespace", "set", "team", "--readonly-gid", "none", "--uid", str(GUEST + 1))
    assert_reads_only(engine, "k")
    refused(domain, "team", STAFF)
    domain.ask("namespace", "set", "team", "--uid", str(GUEST))
    engine.good("put", key="again", id=2, size=100)


def test_only_administrators_change_namespaces(open_domain):
    open_domain.ask("namespace", "create", "team")
    for words in (["namespace", "create", "x"], ["namespace", "set", "team", "--quota", "1G"],
                  ["namespace", "rm", "team"], ["flush", "--namespace", "team", "-y"]):
        ended = open_domain.maructl(*words, user=GUEST)
        assert ended.code == 1 and f"this is user {GUEST}" in ended.err, (words, ended)
    assert namespaces(open_domain)["team"]["epoch"] == 0


# -- flush


def test_flush_takes_all_of_one_namespace(domain):
    engine, other = tenant(domain, "a"), tenant(domain, "b")
    engine.good("put_many", prefix="k", count=50, size=VALUE)
    other.good("put_many", prefix="k", count=50, size=VALUE)
    dry = domain.ask("flush", "--namespace", "a", "--dry-run")
    assert dry["objects"] == 50 and dry["bytes"] == 50 * PAGE and dry["held"] is None and dry["dry_run"]
    assert present(engine, "k", 50) == 50
    asked = domain.maructl("flush", "--namespace", "a")  # no terminal to ask on
    assert asked.code == 1 and "50 objects" in asked.err and "-y" in asked.err, asked
    flushed = domain.ask("flush", "--namespace", "a", "-y")
    assert flushed["objects"] == 50 and flushed["held"] == 0 and flushed["bytes"] == 50 * PAGE, flushed
    assert present(engine, "k", 50) == 0 and present(other, "k", 50) == 50
    rows = namespaces(domain)
    assert rows["a"]["objects"] == 0 and rows["a"]["used_bytes"] == 0 and not rows["a"]["flushing"]
    engine.good("put", key="k1", id=9, size=100)
    assert engine.good("get", key="k1").id == 9 and present(engine, "k", 50) == 1
    assert domain.ask("flush", "--namespace", "a", "-y")["objects"] == 1


def test_a_flush_spares_who_reads(domain):
    engine = tenant(domain, "a")
    engine.good("put_many", prefix="k", count=20, size=VALUE)
    engine.good("retrieve", key="k3", v="v")
    engine.good("pin", key="k4")
    flushed = domain.ask("flush", "--namespace", "a", "-y")
    assert flushed["objects"] == 20 and flushed["held"] == 2 and flushed["held_bytes"] == 2 * PAGE, flushed
    assert present(engine, "k", 20) == 0, "hidden at once, whoever reads"
    assert engine.good("verify", v="v").right
    assert namespaces(domain)["a"]["flushing"]
    engine.good("put", key="k3", id=5, size=100)  # the same key again, beside the bytes that are still read
    assert engine.good("verify", v="v").right and engine.good("get", key="k3").id == 5
    engine.good("release", v="v")
    engine.quit()
    wait_until(lambda: not namespaces(domain)["a"]["flushing"], "what was held has come back")
    assert domain.ask("flush", "--namespace", "a", "--dry-run")["objects"] == 1


def test_stores_go_on_while_a_namespace_is_flushed(domain):
    engine = tenant(domain, "a", pool=16 * MIB)
    engine.send("put_many", prefix="k", count=4000, size=5000)
    flushes = 0
    while (reply := engine.answer_so_far()) is None:
        domain.ask("flush", "--namespace", "a", "-y")
        flushes += 1
    assert reply.status == OK and reply.stored == 4000 and flushes > 0
    domain.ask("flush", "--namespace", "a", "-y")
    assert present(engine, "k", 4000) == 0
    assert namespaces(domain)["a"]["used_bytes"] <= 2 * PAGE  # one that was stored into the epoch before


def test_the_default_namespace_can_be_flushed(domain, engine):
    engine.good("put_many", prefix="k", count=10, size=100)
    said = domain.maructl("flush", "--namespace", "default", "-y")
    assert said.code == 0 and said.text.startswith("flushed 10 objects ("), said
    assert domain.keys() == []


# -- create, set, rm


def test_removal(domain):
    engine = tenant(domain, "a")
    engine.good("put_many", prefix="k", count=5, size=100)
    ended = domain.maructl("namespace", "rm", "a", "-y")
    assert ended.code == 1 and "1 clients use namespace 'a'" in ended.err and engine.name in ended.err, ended
    engine.quit()
    wait_until(lambda: not domain.clients(), "it has left")
    assert domain.ask("namespace", "rm", "a", "--dry-run")["objects"] == 5
    ended = domain.maructl("namespace", "rm", "a")
    assert ended.code == 1 and "holds 5 objects" in ended.err and "-y" in ended.err, ended
    assert "a" in namespaces(domain)
    removed = domain.ask("namespace", "rm", "a", "-y")
    assert removed["removed"] and removed["objects"] == 5
    assert "a" not in namespaces(domain)
    assert all(row["namespace"] != "a" for row in domain.ask("regions")["regions"]), "its memory is back"
    # The id comes again and meets none of the old keys.
    again = tenant(domain, "b")
    assert present(again, "k", 5) == 0
    domain.ask("namespace", "create", "empty")
    assert domain.maructl("namespace", "rm", "empty").text == "removed namespace empty\n"


def test_one_of_the_config_comes_back(limited):
    said = limited.maructl("namespace", "rm", "small")
    assert said.code == 0 and "the config still lists it" in said.text, said
    assert "small" not in namespaces(limited)
    limited.restart()
    assert namespaces(limited)["small"]["quota"] == QUOTA


@pytest.mark.parametrize("words, code, texts", [
    (["namespace", "create", "default"], 1, ["is there already", "namespace set"]),
    (["namespace", "create", "a b"], 1, ["1 to 63 bytes without blanks"]),
    (["namespace", "create", "x" * 64], 1, ["1 to 63 bytes", "64"]),
    (["namespace", "create", "x", "--quota", "much"], 2, ["--quota", "much"]),
    (["namespace", "create", "x", "--uid", "no-such-user"], 2, ["--uid", "no-such-user", "getent passwd"]),
    (["namespace", "create", "x", "--gid", "4294967295"], 2, ["--gid", "0 to 4294967294"]),
    (["namespace", "create", "x", *(word for n in range(17) for word in ("--uid", str(n)))], 1, ["at most 16", "17"]),
    (["namespace", "set", "nobody", "--quota", "1G"], 1, ["no namespace \"nobody\"", "maructl namespaces"]),
    (["namespace", "set", "default"], 2, ["nothing to set"]),
    (["namespace", "rm", "default", "-y"], 1, ["'default'", "stays"]),
    (["namespace", "rm", "nobody"], 1, ["no namespace \"nobody\""]),
    (["flush", "--namespace", "nobody", "-y"], 1, ["no namespace \"nobody\""]),
    (["flush"], 2, ["--namespace"]),
    (["namespace"], 2, []),
    (["namespace", "create"], 2, ["NAME"]),
])
def test_what_cannot_be_is_refused(domain, words, code, texts):
    before = namespaces(domain)
    ended = domain.maructl(*words)
    assert ended.code == code, ended
    for text in texts:
        assert text in ended.err + ended.text, (text, ended)
    assert namespaces(domain) == before


def test_without_a_daemon_it_is_wrong_use(tmp_path):
    for words in (["namespace", "create", "x"], ["namespace", "rm", "x"], ["flush", "--namespace", "x", "-y"]):
        assert run(MARUCTL, "--socket", tmp_path / "none.sock", *words).code == 2


def test_all_are_made(make_domain):
    domain = make_domain(settings={"control": {"max_namespaces": 3}})
    domain.ask("namespace", "create", "a")
    domain.ask("namespace", "create", "b")
    ended = domain.maructl("namespace", "create", "c")
    assert ended.code == 1 and "control.max_namespaces" in ended.err, ended
    domain.ask("namespace", "rm", "a")
    domain.ask("namespace", "create", "c")


def test_the_table_shows_it(limited):
    limited.ask("namespace", "create", "team", "--uid", "0", "--readonly-gid", str(AUDIT))
    lines = limited.maructl("namespaces").text.splitlines()
    assert {"NAMESPACE", "USED", "QUOTA", "CLIENTS", "ACCESS"} <= set(lines[0].split())
    small, team = (next(line for line in lines if line.startswith(name)) for name in ("small", "team"))
    assert "3.0 MiB" in small and small.endswith("everybody")
    assert "none" in team and team.endswith(f"uid:0 read:{AUDIT}")
    dumped = [row for row in map(json.loads, limited.maructl("dump").text.splitlines())
              if row["table"] == "namespaces" and row["name"] == "team"]
    assert dumped[0]["uids"] == [0] and dumped[0]["readonly_gids"] == [AUDIT] and dumped[0]["by_administrator"]


def test_a_duplicate_store_is_no_matter_of_the_quota(limited):
    engine = tenant(limited)
    engine.good("put_many", prefix="k", count=200, size=VALUE)
    assert engine("put", key="k199", id=5, size=100).status == EXISTS
    assert engine("get", key="absent").status == MISS
