"""Wall clocks jump; nothing of ours may depend on them."""

import re
import time

import pytest
from harness import BUILD, FENCED, KIB, MIB, OK, PINNED, SANITIZED, wait_until

YEAR_S = 365 * 24 * 3600
TTL_S = 4


@pytest.mark.parametrize("shift_s", [YEAR_S, -YEAR_S])
def test_a_jump_of_a_year_changes_no_duration(make_domain, shift_s):
    """aeron 609, scylladb 638: a jump of the wall clock ended or kept leases and time-outs. Here daemon and client jump
    by a year: no lease, no key pin, no connection ends for it, key pins end after their time and not before, and ages
    go on from where they were."""
    if SANITIZED:
        pytest.skip("a sanitizer must be the first library that is loaded")
    domain = make_domain(start=False, settings={"control": {"key_pin_ttl": f"{TTL_S}s"}})
    shift = domain.folder / "shift"
    shift.write_text("0")
    preload = {"LD_PRELOAD": str(BUILD / "tests/e2e/clock_shift.so"), "CLOCK_SHIFT": str(shift)}
    domain.environment = preload
    domain.start()
    engine = domain.engine(pool=8 * MIB, page=64 * KIB, environment=preload)
    other = domain.engine("no_claim")
    engine.good("put", key="k", id=1, size=60_000)
    engine.good("retrieve", key="k")
    engine.good("alloc", size=100)
    pinned = time.monotonic()
    engine.good("pin", key="k")
    shift.write_text(str(shift_s))

    wait_until(lambda: engine("ping").status == OK, "the slow path serves")
    years = set(re.findall(r"\b(20\d\d)-\d\d-\d\d", log_after(domain)))
    assert len(years) == 1 and abs(int(years.pop()) - time.localtime().tm_year) == 1, "the daemon's clock has jumped"
    assert time.monotonic() - pinned < TTL_S - 1, "too slow a machine to tell anything"
    assert other("remove", key="k").status == PINNED, "the pin did not end early"
    row = domain.keys()[0]
    assert row["age_s"] < 60, row
    wait_until(lambda: other("remove", key="k").status == OK, "the pin ends after its time", within_s=3 * TTL_S)
    assert time.monotonic() - pinned > TTL_S - 1.1
    assert engine("verify").right, "the lease stands"
    assert engine("put", key="new", id=2, size=100).status != FENCED
    domain.restart()
    wait_until(lambda: engine("ping").status == OK, "back after a restart in another year")
    assert engine("verify").right and engine.good("get", key="new").right
    begun = time.monotonic()
    domain.pause()
    assert engine("ping").status < 0 and time.monotonic() - begun < 10, "a time-out is as long as ever"
    domain.resume()


def log_after(domain):
    """What the daemon writes to its log from here on."""
    before = len(domain.log_tail(1 << 20))
    domain.engine("no_claim").quit()
    return wait_until(lambda: domain.log_tail(1 << 20)[before:], "it logs")
