"""The fast path makes no system call."""

import re

import pytest
from harness import KIB, MIB, SANITIZED, Engine


def system_calls(domain, count):
    """The system calls that an engine's thread makes between the command that asks for `count` hits and its answer."""
    report = domain.folder / f"strace{count}"
    engine = Engine(domain, f"traced{count}", wrapper=("strace", "-f", "-o", str(report)))
    domain.engines.append(engine)
    engine.connect("no_claim")
    assert engine("hits", key="k", count=count, within_s=60).hits == count
    engine.good("close")
    engine.quit()
    lines = report.read_text().splitlines()
    asked = [n for n, line in enumerate(lines) if re.search(r'(read\(0, |read resumed>)"hits', line)]
    answered = [n for n, line in enumerate(lines) if re.search(r'write\(1, "\{\\"hits', line)]
    assert len(asked) == len(answered) == 1, [line[:60] for line in lines[-40:]]
    thread = lines[asked[0]].split()[0]
    during = [line.split(maxsplit=1)[1] for line in lines[asked[0] + 1:answered[0]] if line.split()[0] == thread]
    # A call that another thread's came into has a second line, which tells its end.
    return [call.split("(")[0] for call in during if " resumed>" not in call]


def test_a_thousand_and_a_million_hits_cost_the_same_system_calls(domain):
    if SANITIZED:
        pytest.skip("a sanitizer makes system calls of its own")
    writer = domain.engine(pool=4 * MIB, page=64 * KIB)
    writer.good("put", key="k", id=1, size=1000)
    few, many = system_calls(domain, 1_000), system_calls(domain, 1_000_000)
    assert few == many and len(few) <= 4, (few, many)  # a thread's first call sets up what it pins with
