"""tools/summarize_results.py counts what ran, and counts against the run what did not."""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "tools" / "summarize_results.py"

DOCTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="unit_table" errors="0" failures="1" tests="25">
    <testcase classname="index.cpp" name="a key is found" time="0.01" status="run"/>
    <testcase classname="index.cpp" name="a key is lost" time="0.01" status="run">
      <failure message="1 == 2" type="CHECK"><![CDATA[index.cpp:12]]></failure>
      <failure message="3 == 4" type="CHECK"><![CDATA[index.cpp:13]]></failure>
    </testcase>
  </testsuite>
</testsuites>
"""
PYTEST = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="0" failures="0" skipped="1" tests="3">
  <testcase classname="test_store" name="test_one" time="0.1"/>
  <testcase classname="test_store" name="test_two" time="0.1"/>
  <testcase classname="test_store" name="test_three" time="0.1">
    <skipped type="pytest.skip" message="needs io_uring">test_store.py:5: needs io_uring</skipped>
  </testcase>
</testsuite></testsuites>
"""


@pytest.fixture(name="summarize")
def fixture_summarize(tmp_path):
    def run(runs, parts, files=None):
        for name, text in (files or {}).items():
            (tmp_path / name).write_text(text)
        rows = [[part, runner, str(status), str(tmp_path / file) if file != "-" else "-", "log"]
                for part, runner, status, file in runs]
        (tmp_path / "runs.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
        (tmp_path / "parts.tsv").write_text("".join(f"{part}\t{seconds}\n" for part, seconds in parts))
        done = subprocess.run([sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()
    return run


def test_all_runners_are_summed_and_skips_are_listed_with_reasons(summarize):
    passing = DOCTEST.replace("failure", "system-out")
    status, lines = summarize([("unit", "unit_table", 0, "a.xml"), ("e2e", "e2e", 0, "b.xml")],
                              [("unit", 12), ("e2e", 34)], {"a.xml": passing, "b.xml": PYTEST})
    assert status == 0
    assert lines[-1] == "4 passed, 0 failed, 1 skipped"
    assert "  e2e: test_three: needs io_uring" in lines
    assert any("unit " in line and "2 passed" in line and "12 s" in line for line in lines)


def test_a_failed_case_counts_once_however_many_assertions_failed(summarize):
    status, lines = summarize([("unit", "unit_table", 1, "a.xml")], [("unit", 1)], {"a.xml": DOCTEST})
    assert (status, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped")
    assert "  unit/unit_table: a key is lost: 1 == 2" in lines


@pytest.mark.parametrize("files", [{}, {"a.xml": ""}, {"a.xml": "<testsuites><testsuite>"}])
def test_a_runner_without_a_result_file_failed(summarize, files):
    status, lines = summarize([("unit", "unit_table", 139, "a.xml"), ("unit", "tidy", 0, "b.xml")], [("unit", 1)],
                              files | {"b.xml": PYTEST})
    assert (status, lines[-1]) == (1, "2 passed, 1 failed, 1 skipped")
    assert any("status 139" in line for line in lines)


def test_a_runner_that_says_success_but_left_nothing_failed(summarize):
    status, lines = summarize([("unit", "unit_table", 0, "a.xml")], [("unit", 1)])
    assert (status, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped")


def test_an_error_that_no_test_explains_is_a_failure(summarize):
    status, lines = summarize([("e2e", "e2e", 23, "b.xml")], [("e2e", 1)], {"b.xml": PYTEST})
    assert (status, lines[-1]) == (1, "2 passed, 1 failed, 1 skipped")


def test_a_failed_build_step_is_a_failure(summarize):
    status, lines = summarize([("unit", "build release", 1, "-"), ("unit", "tidy", 0, "b.xml")], [("unit", 1)],
                              {"b.xml": PYTEST})
    assert (status, lines[-1]) == (1, "2 passed, 1 failed, 1 skipped")


def test_a_part_that_ran_no_test_failed(summarize):
    only_skips = PYTEST.replace('<testcase classname="test_store" name="test_one" time="0.1"/>', "").replace(
        '<testcase classname="test_store" name="test_two" time="0.1"/>', "")
    status, lines = summarize([("unit", "unit_table", 0, "b.xml"), ("fault", "fault", 0, "c.xml")],
                              [("unit", 1), ("fault", 1), ("bench", 1)],
                              {"b.xml": PYTEST, "c.xml": only_skips})
    assert (status, lines[-1]) == (1, "2 passed, 2 failed, 2 skipped")
    assert "  fault: ran no test" in lines and "  bench: ran no test" in lines


def test_nothing_at_all_is_a_failure(summarize):
    status, lines = summarize([], [])
    assert (status, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped")


def test_check_says_which_parts_are_not_in_the_tree(tmp_path):
    done = subprocess.run([PROGRAM.parent / "check", "engines"], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "MARU_BUILD": str(tmp_path)})
    assert done.returncode == 1
    assert "'engines' is not in the tree yet" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


def test_check_refuses_a_part_it_does_not_know(tmp_path):
    done = subprocess.run([PROGRAM.parent / "check", "unti"], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", "MARU_BUILD": str(tmp_path)})
    assert done.returncode == 2 and "unknown part 'unti'" in done.stderr
