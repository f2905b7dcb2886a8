"""maru-bench can measure: every subcommand runs to its end in its short form and writes whole figures. Whether targets
are met is no matter of this test; the figures are printed."""

import json
import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("MARU_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
BENCH = BUILD / "tools/bench/maru-bench"
LIMIT_S = 120


@pytest.mark.parametrize("subcommand", ["micro", "put", "python"])
def test_measures(subcommand, tmp_path):
    file = tmp_path / "figures.json"
    done = subprocess.run([BENCH, subcommand, "--quick", "--json", file], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
    print(f"\nfigures of maru-bench {subcommand} --quick (a smoke run on a shared machine, not a measurement)")
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(file.read_text())
    assert figures
    for figure in figures:
        assert isinstance(figure["value"], (int, float)), figure
        assert figure["name"] and figure["unit"] and figure["target"] and figure["met"] in (True, False), figure
    assert len({figure["name"] for figure in figures}) == len(figures)


def test_a_benchmark_that_cannot_measure_says_so(tmp_path):
    done = subprocess.run([BENCH, "micro", "--quick", "--socket", tmp_path / "nobody.sock"], capture_output=True,
                          text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert "nobody.sock" in done.stdout + done.stderr
