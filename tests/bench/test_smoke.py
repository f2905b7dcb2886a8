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


def measure(file, *arguments):
    """Runs maru-bench and returns its figures by name, each of which is whole."""
    done = subprocess.run([BENCH, *arguments, "--json", file], capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          stdin=subprocess.DEVNULL)
    print(f"\nfigures of maru-bench {' '.join(arguments)} (a smoke run on a shared machine, not a measurement)")
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(file.read_text())
    assert figures
    for figure in figures:
        assert isinstance(figure["value"], (int, float)), figure
        assert figure["name"] and figure["unit"] and figure["target"] and figure["met"] in (True, False), figure
    by_name = {figure["name"]: figure for figure in figures}
    assert len(by_name) == len(figures)
    return by_name


@pytest.mark.parametrize("subcommand", ["micro", "put", "python"])
def test_measures(subcommand, tmp_path):
    measure(tmp_path / "figures.json", subcommand, "--quick")


def test_measures_recovery(tmp_path):
    before = set(pathlib.Path("/dev/shm").glob("maru-bench-*"))
    figures = measure(tmp_path / "figures.json", "recovery", "--quick", "--idle-seconds", "6")
    assert set(figures) == {"client_death", "client_death_ms", "daemon_restart", "daemon_restart_ms",
                            "daemon_restart_failed_calls", "connect", "region_claim", "idle_cpu", "control_overhead"}
    assert figures["daemon_restart_failed_calls"]["value"] == 0, figures["daemon_restart_failed_calls"]
    assert figures["control_overhead"]["met"], figures["control_overhead"]
    assert all(figure["value"] > 0 for name, figure in figures.items() if name != "daemon_restart_failed_calls")
    assert all(figure["rounds"] >= 5 for figure in figures.values())
    assert set(pathlib.Path("/dev/shm").glob("maru-bench-*")) <= before, "the pool of the benchmark stayed behind"


def test_a_benchmark_that_cannot_measure_says_so(tmp_path):
    done = subprocess.run([BENCH, "micro", "--quick", "--socket", tmp_path / "nobody.sock"], capture_output=True,
                          text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert "nobody.sock" in done.stdout + done.stderr
