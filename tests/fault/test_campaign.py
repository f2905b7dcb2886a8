"""The kill campaign; README.md says what it does. Its length and choices come from the environment, so that
tests/fault/campaign and tools/check start the same one."""

import os
import random

from campaign import Campaign

EVENTS = int(os.environ.get("MARU_FAULT_EVENTS", "1000"))
MINUTES = float(os.environ.get("MARU_FAULT_MINUTES", "0"))
SEED = int(os.environ.get("MARU_FAULT_SEED", "0")) or random.SystemRandom().getrandbits(32)


def test_faults_at_random_under_load(make_domain):
    # Its first life forms the most regions, slowly enough to be met at it.
    domain = make_domain(pool="32MiB", environment={"MARU_FAULT": "ppm=1000000,us=20000,seed=1,at=region."})
    Campaign(domain, SEED).run(EVENTS, MINUTES)


test_faults_at_random_under_load.limit_s = MINUTES * 60 + 300 if MINUTES else max(300, EVENTS)
