#!/usr/bin/python3
"""Sums what the runners of tools/check left behind.

    summarize_results.py FOLDER

FOLDER holds runs.tsv (part, runner, exit status, result file or "-", log), parts.tsv (part, seconds) and the JUnit
files that runs.tsv names. Prints each failure and each skip with its reason, and ends with the line
`N passed, N failed, N skipped`. The status is 1 when anything failed.

A runner counts as one failure by itself when it left no readable result file, or when it ended with an error that none
of its tests explains (a crash after the last test, a leak found at exit). So does a part that ran no test.
"""

import dataclasses
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass
class Summary:
    passed: int = 0
    failures: list = dataclasses.field(default_factory=list)  # (where, reason)
    skips: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.failures += other.failures
        self.skips += other.skips

    @property
    def ran(self):
        return self.passed + len(self.failures)

    def line(self):
        return f"{self.passed} passed, {len(self.failures)} failed, {len(self.skips)} skipped"


def first_line(element):
    text = element.get("message") or element.text or ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no reason given"


DETAIL_LINES_MAX = 12


def first_line_and_detail(element):
    """The reason, and behind it the runner's own words where they are few (doctest's; pytest's stand in its log)."""
    detail = [line.rstrip() for line in (element.text or "").strip().splitlines()]
    few = detail if len(detail) <= DETAIL_LINES_MAX else []
    return "\n      ".join([first_line(element), *few])


def read_result_file(path, where):
    """One JUnit file. Test cases are counted, not the totals in its head: doctest puts assertions there."""
    summary = Summary()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{where}: {case.get('name')}"
        broken = [child for child in case if child.tag in ("failure", "error")]
        skipped = case.find("skipped")
        if broken:
            summary.failures.append((name, first_line_and_detail(broken[0])))
        elif skipped is not None:
            summary.skips.append((name, first_line(skipped)))
        else:
            summary.passed += 1
    return summary


def read_run(part, runner, status, result_file):
    where = part if runner == part else f"{part}/{runner}"
    if result_file == "-":
        return Summary(failures=[(where, "did not succeed")] if status else [])
    try:
        summary = read_result_file(result_file, where)
    except (OSError, ElementTree.ParseError) as error:
        ended = f"ended with status {status}" if status else "succeeded"
        return Summary(failures=[(where, f"{ended} and left no readable result file ({error})")])
    if status and not summary.failures:
        summary.failures.append((where, f"ended with status {status} though none of its tests failed"))
    return summary


def read_rows(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def summarize(folder):
    folder = pathlib.Path(folder)
    parts = {}
    for part, runner, status, result_file, _log in read_rows(folder / "runs.tsv"):
        parts.setdefault(part, Summary()).add(read_run(part, runner, int(status), result_file))
    seconds = {}
    for part, duration in read_rows(folder / "parts.tsv"):
        seconds[part] = int(duration)
        summary = parts.setdefault(part, Summary())
        if summary.ran == 0:
            summary.failures.append((part, "ran no test"))
    total = Summary()
    for summary in parts.values():
        total.add(summary)
    if total.ran == 0:
        total.failures.append(("check", "ran no test"))
    return parts, seconds, total


def main(folder):
    parts, seconds, total = summarize(folder)
    for heading, entries in (("skipped", total.skips), ("failed", total.failures)):
        if entries:
            print(f"\n{heading}:")
        for where, reason in entries:
            print(f"  {where}: {reason}")
    print()
    for part, summary in parts.items():
        took = f"{seconds[part]} s" if part in seconds else "not finished"
        print(f"  {part:<10} {summary.line()}, {took}")
    print(total.line())
    return 1 if total.failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
