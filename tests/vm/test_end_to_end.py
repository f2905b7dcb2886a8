"""The whole of tests/e2e inside a guest, on Linux 6.1. Takes long: part of the run with MARU_VM_LONG=1 only."""

import pathlib

import harness
from harness import MIB

ROOT = pathlib.Path(__file__).parents[2]
LIMIT_S = 3000


def test_end_to_end_suite(make_guest, record_property):
    guest = make_guest("e2e", memory=2048 * MIB, processors=2)
    ended = guest.run(["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / "tests/e2e"],
                      within_s=LIMIT_S, environment={"MARU_BUILD_DIR": harness.BUILD, "PYTHONDONTWRITEBYTECODE": 1,
                                                     "MARU_TEST_SLOWER": harness.SLOWER})
    print(ended.text)
    record_property("e2e", ended.text.strip().splitlines()[-1])
    assert ended.code == 0, ended.text[-20_000:]


test_end_to_end_suite.limit_s = LIMIT_S / harness.SLOWER
