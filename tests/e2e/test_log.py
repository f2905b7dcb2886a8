"""What the daemon writes to its log when it is asked to: its state, its requests, more or less of everything."""

import json
import re
import signal

import pytest
from harness import KIB, MIB, wait_until

TRACE = re.compile(r" info trace: (?P<what>[\w ]+) of (?P<who>.*): (?P<result>ok|refused \(.*\)), (?P<us>\d+) us$", re.MULTILINE)


def log_of(domain):
    return domain.log_tail(1 << 22)


def traced(domain):
    return [match.groupdict() for match in TRACE.finditer(log_of(domain))]


def quiet(make_domain, level="info"):
    return make_domain(settings={"daemon": {"log_level": level}})


def test_sigusr1_writes_the_state(domain):
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=10)
    domain.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: " info regions: {" in log_of(domain), "the state is in the log")
    said = {}
    for name in ("status", "pools", "clients", "regions"):
        found = re.findall(rf" info {name}: (\{{.*\}})$", log_of(domain), re.MULTILINE)
        assert len(found) == 1, (name, found)
        said[name] = json.loads(found[0])
    assert said["status"]["objects"]["count"] == 1
    assert said["pools"]["pools"][0]["name"] == "test"
    assert engine.name in [client["instance_id"] for client in said["clients"]["clients"]]
    assert len(said["regions"]["regions"]) == said["status"]["regions"]
    assert engine.good("ping")


def test_requests_are_traced_while_it_is_on(make_domain):
    domain = quiet(make_domain)
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    assert domain.status()["daemon"]["trace"] is False
    assert domain.ask("trace", "on") == {"trace": True, "log_level": "info"}
    assert domain.status()["daemon"]["trace"] is True
    assert "requests traced" in domain.maructl("status").text
    engine.good("ping")
    other = domain.engine(pool=2 * MIB, page=64 * KIB)
    other.good("close")
    assert domain.maructl("client", "disconnect", "nobody").code == 1
    domain.check_clean()
    assert domain.ask("trace", "off")["trace"] is False
    rows = traced(domain)
    kinds = [row["what"] for row in rows]
    for kind in ("admin status", "ping", "hello", "claim", "bye", "admin check", "admin disconnect"):
        assert kind in kinds, (kind, kinds)
    ping = next(row for row in rows if row["what"] == "ping")
    assert f"process {engine.pid}, user " in ping["who"] and f"'{engine.name}'" in ping["who"], ping
    assert "client slot " in ping["who"] and ping["result"] == "ok" and int(ping["us"]) < 10_000_000
    refused = next(row for row in rows if row["what"] == "admin disconnect")
    assert "no client is called" in refused["result"], refused
    count = len(traced(domain))
    engine.good("ping")
    domain.status()
    assert len(traced(domain)) == count, "off is off"


def test_the_trace_ends_with_the_daemon(make_domain):
    domain = quiet(make_domain)
    domain.ask("trace", "on")
    domain.restart()
    assert domain.status()["daemon"]["trace"] is False


def test_a_trace_that_the_level_hides_says_so(make_domain):
    domain = quiet(make_domain, "warn")
    said = domain.maructl("trace", "on")
    assert said.code == 0 and "log level is warn" in said.text and "maructl log-level info" in said.text, said
    domain.status()
    assert not traced(domain)
    domain.ask("log-level", "info")
    domain.status()
    assert traced(domain)


def test_the_level_changes_at_run_time_and_a_reload_says_what_the_config_says(make_domain):
    domain = quiet(make_domain)
    debug = lambda: log_of(domain).count(" debug ")
    domain.engine("no_claim").quit()
    assert debug() == 0 and domain.status()["daemon"]["log_level"] == "info"
    assert domain.ask("log-level", "DEBUG") == {"log_level": "debug", "before": "info"}
    assert domain.status()["daemon"]["log_level"] == "debug" and "level debug" in domain.maructl("status").text
    domain.engine("no_claim").quit()
    wait_until(debug, "more is logged")
    domain.ask("log-level", "warning")
    assert domain.status()["daemon"]["log_level"] == "warn"
    assert "changed the log level from debug to warn" in log_of(domain)
    domain.process.send_signal(signal.SIGHUP)
    wait_until(lambda: domain.status()["daemon"]["log_level"] == "info", "the config's level is back")


@pytest.mark.parametrize("words, code, said", [
    (["log-level", "loud"], 1, '"loud" is not a log level'), (["log-level"], 2, "LEVEL"), (["trace"], 2, "subcommand"),
    (["trace", "perhaps"], 2, "subcommand"), (["log-level", "info", "debug"], 2, "debug")],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_what_is_no_level_or_switch_is_refused(domain, words, code, said):
    ended = domain.maructl(*words)
    assert ended.code == code and said in ended.err, ended
    assert domain.status()["daemon"]["log_level"] == "debug" and domain.status()["daemon"]["trace"] is False


def test_other_users_may_not_set_either(domain):
    for path in (domain.socket, domain.folder):
        path.chmod(0o777)
    for words in (["trace", "on"], ["log-level", "error"]):
        ended = domain.maructl(*words, user=65534)
        assert ended.code == 1 and "only root and the daemon's own user" in ended.err, ended
    assert domain.status()["daemon"]["log_level"] == "debug" and domain.status()["daemon"]["trace"] is False
