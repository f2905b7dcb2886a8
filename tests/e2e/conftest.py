"""Makes the fixtures of fixtures.py known to the tests of this folder."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from fixtures import domain, engine, make_domain, termination_cleans_up, within_limit  # noqa: E402, F401
