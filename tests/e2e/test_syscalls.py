"""The fast path makes no system call."""

import re

import pytest
from harness import KIB, MIB, SANITIZED, Engine


def system_calls(domain, count):
    """How many system calls of each kind an engine makes that does `count` hits; strace counts, none is asked to stop."""
    report = domain.folder / f"strace{count}"
    engine = Engine(domain, f"traced{count}", wrapper=("strace", "-f", "-c", "-o", str(report)))
    domain.engines.append(engine)
    engine.connect("no_claim")
    assert engine("hits", key="k", count=count, within_s=60).hits == count
    engine.good("close")
    engine.quit()
    calls = {}
    for line in report.read_text().splitlines():
        row = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
        if row and row.group(2) != "total":
            calls[row.group(2)] = int(row.group(1))
    assert calls, report.read_text()
    return calls


def test_a_thousand_and_a_million_hits_cost_the_same_system_calls(domain):
    if SANITIZED:
        pytest.skip("a sanitizer makes system calls of its own")
    writer = domain.engine(pool=4 * MIB, page=64 * KIB)
    writer.good("put", key="k", id=1, size=1000)
    few, many = system_calls(domain, 1_000), system_calls(domain, 1_000_000)
    # What the daemon's connection does by itself in the background (a thread that waits) depends on time, not on hits.
    waiting = {"poll", "ppoll", "epoll_wait", "futex", "restart_syscall", "clock_nanosleep"}
    differ = {name: (few.get(name, 0), many.get(name, 0)) for name in few.keys() | many.keys()
              if few.get(name, 0) != many.get(name, 0)}
    assert not {name for name in differ if name not in waiting}, differ
    assert all(abs(one - two) < 30 for one, two in differ.values()), differ
