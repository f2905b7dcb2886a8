"""Fixtures of the end-to-end tests, for a build with fault points."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import harness  # noqa: E402
import pytest  # noqa: E402

# Fixtures are found by their names here.
from fixtures import make_domain, termination_cleans_up, within_limit  # noqa: E402, F401


@pytest.fixture(scope="session", autouse=True)
def fault_points_are_compiled_in():
    """Without them the campaign would look at the wrong moments and call that a pass."""
    for program in (harness.MARU, harness.BUILD / "src/client/libmaru-client.so.0"):
        assert b"MARU_FAULT" in program.read_bytes(), \
            f"{program} has no fault points: build with meson setup -Dfault_points=true"
