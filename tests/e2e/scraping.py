"""Scraping a daemon as Prometheus does, and reading what it says."""

import http.client
import pathlib
import re
import shutil
import socket

import harness

SOURCE = pathlib.Path(__file__).parents[2]
METRICS = {"metrics": {"listen": "127.0.0.1:0"}}

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(rf'({NAME})="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
ROW = re.compile(rf"({NAME})(?:{{(.*)}})? ([^ ]+)")
ESCAPED = {'\\"': '"', "\\\\": "\\", "\\n": "\n"}


def parse(text):
    """{name: {labels as a frozenset of pairs: value}}; a line that is not of the format, or comes twice, is an error."""
    rows, types = {}, {}
    assert text.endswith("\n"), text[-100:]
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"two blocks of {name}"
            types[name] = kind
        if line.startswith("#"):
            continue
        found = ROW.fullmatch(line)
        assert found, f"no row: {line!r}"
        name, inside, value = found.groups()
        labels, rest = [], inside or ""
        while rest:
            label = LABEL.match(rest)
            assert label, f"no labels: {line!r}"
            labels.append((label[1], re.sub(r'\\["\\n]', lambda part: ESCAPED[part[0]], label[2])))
            rest = rest[label.end():]
        assert frozenset(labels) not in rows.setdefault(name, {}), f"twice: {line!r}"
        rows[name][frozenset(labels)] = float(value)
    return rows, types


def address_of(domain):
    """Where the daemon's endpoint listens."""
    host, port = domain.status()["daemon"]["metrics"].rsplit(":", 1)
    return host, int(port)


def get(address, target="/metrics", method="GET", within_s=10.0):
    connection = http.client.HTTPConnection(*address, timeout=within_s * harness.SLOWER)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


class Scrape:
    """One scrape; `value("maru_pins", kind="lease")` is a row of it, `total` the sum of all rows with these labels."""

    def __init__(self, domain_or_address):
        address = domain_or_address if isinstance(domain_or_address, tuple) else address_of(domain_or_address)
        status, headers, self.text = get(address)
        assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers
        self.rows, self.types = parse(self.text)

    def value(self, name, **labels):
        return self.rows[name][frozenset(labels.items())]

    def total(self, name, **labels):
        return sum(value for row, value in self.rows.get(name, {}).items() if set(labels.items()) <= row)

    def labels(self, name, label):
        return {dict(row)[label] for row in self.rows.get(name, {})}

    def counters(self):
        """Every row that must never count down."""
        return {(name, row): value for name, rows in self.rows.items() for row, value in rows.items()
                if name.endswith(("_total", "_count", "_bucket"))}


def send_raw(address, data, within_s=10.0):
    """What comes back for these very bytes, until the daemon closes."""
    with socket.create_connection(address, timeout=within_s * harness.SLOWER) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    return answer


def promtool(*arguments, given=None):
    """Runs promtool: of the machine, or as tests/prometheus/get_promtool unpacks it beside the build."""
    unpacked = harness.BUILD.parent / "promtool" / "promtool"
    program = shutil.which("promtool") or (str(unpacked) if unpacked.exists() else None)
    assert program, f"no promtool: run tests/prometheus/get_promtool {unpacked.parent}"
    return harness.run(program, *arguments, given=given)
