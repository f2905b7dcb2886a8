"""The metrics endpoint: what it says is true, whoever asks and however."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import threading
import time

import pytest
from harness import KIB, MARU, MIB, SLOWER, Late, descriptors_of, run, wait_until
from scraping import METRICS, SOURCE, Scrape, address_of, get, promtool, send_raw

FAILURE = 1


@pytest.fixture
def scraped(make_domain):
    """A daemon with metrics on a port of its own."""
    return make_domain(settings=METRICS)


def counts_of(scrape):
    return {"lookups": scrape.value("maru_domain_lookups_total"), "hits": scrape.value("maru_domain_hits_total"),
            "stores": scrape.value("maru_stores_total"), "duplicates": scrape.value("maru_duplicates_total"),
            "deletes": scrape.value("maru_deletes_total", result="removed"),
            "evictions": scrape.total("maru_evictions_total"),
            "rescues": scrape.value("maru_rescues_total")}


def same_counts(domain):
    """The scrape and `maructl status` count alike; returns the scrape."""
    told = domain.status()["counters"]

    def look():
        scrape = Scrape(domain)
        return scrape if counts_of(scrape) == {name: told[name] for name in counts_of(scrape)} else None

    return wait_until(look, f"the metrics count what status tells: {told}")


def test_a_value_that_changed_is_counted(make_domain):
    domain = make_domain(settings={**METRICS, "checksum": {"mode": "verify"}})
    engine = domain.engine(pool=4 * MIB, page=64 * KIB)
    value = os.urandom(5000)
    assert domain.maructl("put", "changed", "-", given=value).code == 0
    engine.good("put", key="right", id=1, size=5000)
    assert Scrape(domain).value("maru_checksum_failures_total") == 0
    with open(domain.pool_path, "r+b") as pool:
        place = pool.read().index(value)
        pool.seek(place + 4999)
        pool.write(bytes([value[4999] ^ 1]))
    assert domain.maructl("get", "changed").code == 1 and domain.maructl("exists", "changed").code == 1
    assert engine.good("get", key="right").right
    assert Scrape(domain).value("maru_checksum_failures_total") == 1
    assert domain.status()["counters"]["checksum_failures"] == 1


def test_metrics_say_what_status_says(scraped):
    engine = scraped.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=20, size=1000)
    engine("put", key="k0", id=1, size=10)
    for key in ("k0", "k1", "absent"):
        engine("get", key=key)
    engine.good("remove", key="k7")
    engine.good("retrieve", key="k1")
    engine.good("pin", key="k2")
    scrape = same_counts(scraped)
    status = scraped.status()
    assert status["counters"]["stores"] == 20 and status["counters"]["lookups"] > status["counters"]["hits"] > 0
    assert scrape.value("maru_lookups_total", namespace="default", instance="engine1") == status["counters"]["lookups"]
    assert scrape.value("maru_hits_total", namespace="default", instance="engine1") == status["counters"]["hits"]
    assert scrape.value("maru_objects", namespace="default") == status["objects"]["count"] == 19
    for state in ("reserved", "published", "retired", "quarantined"):
        assert scrape.value("maru_pool_bytes", pool="test", state=state) == status["bytes"][state], state
    assert scrape.value("maru_pool_bytes", pool="test", state="free") == \
        status["bytes"]["free"] + status["bytes"]["unclaimed"]
    assert scrape.value("maru_pool_pinned_bytes", pool="test") == status["bytes"]["pinned"]
    assert scrape.value("maru_pins", kind="lease") == status["pins"]["leases"] >= 1
    assert scrape.value("maru_pins", kind="key") == status["pins"]["key_pins"] == 1
    assert scrape.total("maru_regions") == status["regions"]
    assert scrape.total("maru_clients", state="active") == status["clients"]["active"] == 1
    assert scrape.value("maru_hosts", state="active") == 1
    assert scrape.total("maru_build_info", version=status["daemon"]["version"]) == 1
    assert scrape.value("maru_requests_total", kind="hello", result="ok") == 1
    assert scrape.value("maru_request_seconds_count", kind="claim") == scrape.total("maru_requests_total", kind="claim") > 0
    assert 0 < scrape.value("maru_request_seconds_sum", kind="hello") < 10
    engine.good("release")
    engine.good("unpin", key="k2")


def test_promtool_finds_nothing_to_say(scraped):
    engine = scraped.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=5, size=1000)
    engine("get", key="absent")
    checked = promtool("check", "metrics", given=Scrape(scraped).text.encode())
    assert checked.code == 0 and not checked.text.strip() and not checked.err.strip(), checked


def test_names_of_clients_cannot_break_the_format(scraped):
    hostile = 'a"b\\c{d}=,\u2603'
    engine = scraped.engine(pool=4 * MIB, page=64 * KIB, id=hostile)
    engine("get", key="absent")
    scrape = Scrape(scraped)
    assert scrape.labels("maru_lookups_total", "instance") == {hostile.replace("\\", "\\\\")}
    assert promtool("check", "metrics", given=scrape.text.encode()).code == 0


def test_counts_go_on_when_clients_die_and_daemons_restart(scraped):
    seen = {}

    def never_less(scrape):
        for row, value in scrape.counters().items():
            assert value >= seen.get(row, 0), row
        seen.update(scrape.counters())
        return scrape

    first = scraped.engine(pool=8 * MIB, page=64 * KIB)
    first.good("put_many", prefix="k", count=10, size=1000)
    first("get", key="k0")
    never_less(same_counts(scraped))
    first("get", key="absent")
    reserved = first.good("alloc", size=1000)
    assert reserved
    first.kill()
    wait_until(lambda: not scraped.clients(), "the dead client is swept")
    scrape = never_less(same_counts(scraped))
    assert scrape.value("maru_sweeps_total", cause="dead") == 1 and scrape.value("maru_sweep_seconds_count") == 1
    assert scrape.value("maru_reclaimed_pages_total", state="reserved") == 1
    before = scrape.value("maru_lookups_total", namespace="default", instance="engine1")
    assert before == scraped.status()["counters"]["lookups"]
    # The same name again: its row goes on.
    again = scraped.engine(pool=8 * MIB, page=64 * KIB, id="engine1")
    again("get", key="k1")
    again.good("close")
    scrape = never_less(same_counts(scraped))
    assert scrape.value("maru_lookups_total", namespace="default", instance="engine1") == before + 1
    assert scrape.value("maru_sweeps_total", cause="goodbye") == 1
    # The next daemon begins its own counts at zero, and goes on with those of the domain.
    domain_counts = counts_of(scrape)
    scraped.restart()
    scrape = same_counts(scraped)
    assert counts_of(scrape) == domain_counts
    assert not scrape.rows.get("maru_lookups_total") and scrape.value("maru_sweeps_total", cause="goodbye") == 0


def test_a_client_that_came_before_the_daemon_is_counted_on(scraped):
    engine = scraped.engine(pool=8 * MIB, page=64 * KIB)
    engine("get", key="absent")
    scraped.restart()
    for _ in range(3):
        engine("get", key="absent")
    scrape = same_counts(scraped)
    assert scrape.value("maru_domain_lookups_total") == 4
    assert scrape.value("maru_lookups_total", namespace="default", instance="engine1") == 3
    wait_until(lambda: Scrape(scraped).value("maru_reconnects_total") == 1, "the client is back")


def test_namespaces_count_apart(scraped):
    for number, name_space in enumerate(("red", "blue"), 1):
        engine = scraped.engine(pool=4 * MIB, page=64 * KIB, namespace=name_space)
        engine.good("put_many", prefix="k", count=number, size=100)
        for _ in range(number):
            engine("get", key="k0")
    scrape = Scrape(scraped)
    for number, name_space in enumerate(("red", "blue"), 1):
        assert scrape.value("maru_objects", namespace=name_space) == number
        assert scrape.value("maru_hits_total", namespace=name_space, instance=f"engine{number}") == number
    assert scrape.labels("maru_objects", "namespace") == {"default", "red", "blue"}


def test_quotas(scraped):
    scraped.ask("namespace", "create", "red", "--quota", "3MiB")
    engine = scraped.engine(pool=2 * MIB, page=64 * KIB, namespace="red")
    engine.good("put_many", prefix="k", count=2, size=100)
    engine.good("alloc", size=1)
    scrape = Scrape(scraped)
    assert scrape.value("maru_namespace_quota_bytes", namespace="red") == 3 * MIB
    assert scrape.labels("maru_namespace_quota_bytes", "namespace") == {"red"}, "others have none"
    assert scrape.value("maru_namespace_used_bytes", namespace="red") == 3 * 64 * KIB
    assert scrape.value("maru_namespace_used_bytes", namespace="default") == 0


def test_key_pins_that_expire_count_for_their_instance(make_domain):
    domain = make_domain(settings=METRICS | {"control": {"key_pin_ttl": "1s"}})
    engine = domain.engine(pool=4 * MIB, page=64 * KIB)
    engine.good("put_many", prefix="k", count=3, size=100)
    assert "maru_expired_key_pins_total" not in Scrape(domain).rows
    for number in range(3):
        engine.good("pin", key=f"k{number}")
    wait_until(lambda: Scrape(domain).total("maru_expired_key_pins_total", instance="engine1") == 3,
               "the pins by key have ended", within_s=20)


# -- under load, and at no cost to it


def test_answers_under_load_and_never_counts_down(scraped):
    address = address_of(scraped)
    engines = [scraped.engine(pool=8 * MIB, page=64 * KIB) for _ in range(2)]
    for number, engine in enumerate(engines, 1):
        engine.send("mix", "until_told", seed=number, client=number, threads=2, keys=64, size_max=16 * KIB)
    before, slowest_s = {}, 0.0
    deadline = time.monotonic() + 3
    scrapes = 0
    while time.monotonic() < deadline:
        begin = time.monotonic()
        now = Scrape(address).counters()
        slowest_s = max(slowest_s, time.monotonic() - begin)
        fallen = {row: (value, now.get(row)) for row, value in before.items() if now.get(row, -1) < value}
        assert not fallen, fallen
        before = now
        scrapes += 1
    for engine in engines:
        engine.process.stdin.write(b"mix-stop\n")
        engine.process.stdin.flush()
    assert all(engine.answer().violations == 0 for engine in engines)
    print(f"{scrapes} scrapes, the slowest took {slowest_s * 1e3:.1f} ms")
    assert scrapes > 10 and slowest_s < 2 * SLOWER
    same_counts(scraped)


def test_many_scrapers_at_once(scraped):
    address, errors = address_of(scraped), []

    def scrape_often():
        try:
            for _ in range(50):
                Scrape(address)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=scrape_often) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert scraped.maructl("ping").code == 0
    for thread in threads:
        thread.join()
    assert not errors, errors[:3]


def test_scrapes_start_no_thread_and_keep_nothing(scraped):
    address = address_of(scraped)
    Scrape(address)

    def threads():
        """Of the daemon; the kernel's own for a ring are named so."""
        names = [(task / "comm").read_text() for task in pathlib.Path(f"/proc/{scraped.process.pid}/task").iterdir()]
        return len([name for name in names if not name.startswith("iou-")])

    before, descriptors = threads(), descriptors_of(scraped.process.pid)
    for _ in range(100):
        Scrape(address)
    assert threads() <= before
    wait_until(lambda: descriptors_of(scraped.process.pid) <= descriptors, "the connections are closed")


# -- who asks wrongly


def test_only_get_and_head_of_metrics(scraped):
    address = address_of(scraped)
    status, headers, body = get(address, method="HEAD")
    assert status == 200 and body == "" and int(headers["Content-Length"]) > 1000
    for method in ("POST", "PUT", "DELETE"):
        status, headers, _ = get(address, method=method)
        assert status == 405 and headers["Allow"] == "GET, HEAD"
    for target in ("/", "/metrics/x", "/maru", "//metrics"):
        status, _, body = get(address, target)
        assert status == 404 and "/metrics" in body


GARBAGE = {"noise": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "zeros": b"\0" * 4096, "lines": b"\r\n" * 5000,
           "endless line": b"GET /" + b"a" * 100_000, "endless fields": b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 50_000,
           "a body": b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n" + b"z" * 99_999,
           "no host": b"GET /metrics HTTP/1.1\r\n\r\n", "smuggled": b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
           b"chunked\r\n\r\n0\r\n\r\n"}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_refused(scraped, data):
    address = address_of(scraped)
    try:
        answer = send_raw(address, data)
        assert answer.startswith(b"HTTP/1.1 4"), answer[:100]
    except (ConnectionResetError, BrokenPipeError):
        assert len(data) > 64 * KIB, "only who sends without an end is cut off"
    assert Scrape(address)


def test_slow_and_silent_connections_do_not_keep_others_out(scraped):
    address = address_of(scraped)
    descriptors = descriptors_of(scraped.process.pid)
    idle = [socket.create_connection(address) for _ in range(100)]
    for number, connection in enumerate(idle):
        try:
            connection.sendall(b"GET /metrics HTTP/1.1\r\n"[:number % 24])
        except OSError:
            pass  # it has made room for another one already
    begin = time.monotonic()
    assert Scrape(address)
    assert time.monotonic() - begin < 2 * SLOWER
    assert descriptors_of(scraped.process.pid) <= descriptors + 20
    # Within its patience the daemon lets go of all of them, though they stay silent.
    wait_until(lambda: descriptors_of(scraped.process.pid) <= descriptors, "silent connections are closed", within_s=20)
    answers = []
    for connection in idle:
        connection.settimeout(5)
        try:
            answers.append(connection.recv(4096))
        except OSError:
            answers.append(b"")
        connection.close()
    assert any(answer.startswith(b"HTTP/1.1 408") for answer in answers)


def test_who_does_not_read_the_answer_is_let_go(scraped):
    address = address_of(scraped)
    descriptors = descriptors_of(scraped.process.pid)
    deaf = []
    for _ in range(10):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.connect(address)
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        deaf.append(connection)
    assert Scrape(address)
    wait_until(lambda: descriptors_of(scraped.process.pid) <= descriptors, "deaf connections are closed", within_s=30)
    for connection in deaf:
        connection.close()


# -- where it listens


def listening_ports(pid):
    """TCP ports that a process listens on."""
    inodes = {os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports


def test_off_means_no_socket(domain, make_domain):
    assert domain.status()["daemon"]["metrics"] is None
    assert re.search(r"^metrics +none$", domain.maructl("status").text, re.MULTILINE)
    assert not listening_ports(domain.process.pid)
    scraped = make_domain(settings=METRICS)
    assert listening_ports(scraped.process.pid) == {address_of(scraped)[1]}
    assert f"http://127.0.0.1:{address_of(scraped)[1]}/metrics" in scraped.maructl("status").text
    scraped.stop()
    with pytest.raises(OSError):
        socket.create_connection(address_of_log(scraped), timeout=5)
    scraped.start()


def address_of_log(domain):
    line = [line for line in domain.log_tail(1 << 20).splitlines() if "/metrics" in line][-1]
    host, port = line.split("http://")[1].split("/")[0].rsplit(":", 1)
    return host, int(port)


def test_an_address_that_nobody_asked_for_costs_one_warning(make_domain):
    def take():
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", 9464))

    # Somebody who has it for good is as good; a daemon that passes by is not.
    taken = None
    with contextlib.suppress(Late):
        taken = wait_until(take, "the address is free")
    try:
        domain = make_domain(settings={"metrics": {"listen": None}})
        wait_until(lambda: "no metrics" in domain.log_tail(), "the daemon warns")
        warnings = [line for line in domain.log_tail().splitlines() if "metrics" in line]
        assert len(warnings) == 1 and "127.0.0.1:9464" in warnings[0] and "metrics.listen" in warnings[0], warnings
        assert domain.status()["daemon"]["metrics"] is None
        assert domain.engine(pool=4 * MIB, page=64 * KIB).good("put", key="k", id=1, size=10)
    finally:
        if taken:
            taken.close()


def test_an_address_that_was_asked_for_must_be_had(make_domain):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        domain = make_domain(start=False, settings={"metrics": {"listen": address}})
        domain.expect_clean = False
        ended = run(MARU, "--config", domain.config, within_s=20)
    assert ended.code == FAILURE and address in ended.err and "metrics.listen" in ended.err, ended
    assert not domain.pool_path.exists() and not domain.socket.exists()


def test_an_address_of_another_machine_is_refused(make_domain):
    domain = make_domain(start=False, settings={"metrics": {"listen": "192.0.2.1:9464"}})
    domain.expect_clean = False
    ended = run(MARU, "--config", domain.config, within_s=20)
    assert ended.code == FAILURE and "192.0.2.1:9464" in ended.err, ended


def test_a_killed_daemon_leaves_its_port_to_the_next(make_domain):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    domain = make_domain(settings={"metrics": {"listen": f"{address[0]}:{address[1]}"}})
    for _ in range(3):
        held = socket.create_connection(address)  # open when the daemon dies
        assert Scrape(address)
        domain.restart()
        assert Scrape(address) and address_of(domain) == address
        held.close()


def test_ipv6(make_domain):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    domain = make_domain(settings={"metrics": {"listen": "[::1]:0"}})
    address = domain.status()["daemon"]["metrics"]
    assert address.startswith("[::1]:")
    assert Scrape(("::1", int(address.rsplit(":", 1)[1])))


def test_a_change_needs_a_restart_and_says_so(scraped):
    scraped.settings = {"metrics": {"listen": ""}}
    scraped.write_config()
    scraped.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "metrics.listen has changed" in scraped.log_tail(), "the daemon says what it cannot change")
    assert Scrape(scraped)


# -- who reads them


def every_metric(scraped):
    """What an endpoint can say, with the parts of histograms."""
    engine = scraped.engine(pool=4 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=10)
    engine.good("pin", key="k")
    engine("get", key="k")
    wait_until(lambda: Scrape(scraped).total("maru_expired_key_pins_total"), "a pin by key has ended", within_s=20)
    return set(Scrape(scraped).rows)


def names_in(text):
    return set(re.findall(r"\bmaru_[a-z_]+\b", text))


def test_dashboard_and_alerts_ask_for_what_there_is(make_domain):
    domain = make_domain(settings=METRICS | {"control": {"key_pin_ttl": "1s"}},
                         namespaces=[{"name": "limited", "quota": "4MiB"}])
    there = every_metric(domain)
    dashboard = json.loads((SOURCE / "conf/grafana/maru.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(asked) > 20 and len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    shown = names_in("\n".join(asked))
    assert not shown - there, shown - there
    # A metric that nobody sees is a metric for nothing.
    whole = {re.sub(r"_(bucket|sum|count)$", "", name) for name in there}
    assert not whole - {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    alerts = names_in("\n".join(re.findall(r"expr: .*|^ {10}.*", (SOURCE / "conf/prometheus/maru.rules.yml").read_text(),
                                           re.MULTILINE)))
    assert alerts and not alerts - there, alerts - there
    labels = {(name, label) for name, rows in Scrape(domain).rows.items() for row in rows for label, _ in row}
    for name, inside in re.findall(r"\b(maru_[a-z_]+)\{([^}]*)\}", "\n".join(asked)):
        for label in re.findall(r"(\w+)=", inside):
            assert label == "job" or (name, label) in labels, (name, label)


def test_alerts_fire_when_they_should():
    rules = promtool("check", "rules", SOURCE / "conf/prometheus/maru.rules.yml")
    assert rules.code == 0, rules
    tested = promtool("test", "rules", SOURCE / "tests/prometheus/maru_rules_test.yml")
    assert tested.code == 0 and "SUCCESS" in tested.text + tested.err, tested
    alerts = re.findall(r"alert: (\w+)", (SOURCE / "conf/prometheus/maru.rules.yml").read_text())
    cases = (SOURCE / "tests/prometheus/maru_rules_test.yml").read_text()
    for alert in alerts:
        assert re.search(rf"alertname: {alert}\n +exp_alerts", cases), f"{alert} is never seen to fire"
        assert re.search(rf"alertname: {alert}\n(?! +exp_alerts)", cases), f"{alert} is never seen to be quiet"
