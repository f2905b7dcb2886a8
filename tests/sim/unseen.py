#!/usr/bin/python3
"""Shows what the simulator adds: runs the other tests on a build in which one deliberate defect is active.

    unseen.py MUTANT...             names of src/base/mutant.hpp; prints a row of README.md's table for each
    unseen.py --simulator SIM ...   and after how many schedules that simulator finds it

For each: the unit programs of the table, stress_table, tests/e2e and tests/fault at the length that tools/check gives
them, on programs of one build with fault points (meson's option `mutant`; a change of it compiles one file again).
First it proves that the option works: unit_table_objects must be green with `none` and red with each of CONTROLS.
--stages names fewer stages, --jobs tests so many mutants at a time. The status is 0 when all that was asked for ran,
whatever it found. On request only: a mutant took about ten minutes on two busy cores.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as xml

import suite

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAGES = ["unit", "stress", "e2e", "fault"]
LIMIT_S = 3600  # of one runner
# Defects that the unit programs are known to see.
CONTROLS = ["no_recheck", "generation_not_raised"]
# What each stage runs, as ninja names it.
REAL = r"(?:src|tools/demo|tools/maructl|tests/e2e)/[^:]+"
PROGRAMS = {"control": "tests/unit/unit_table_objects", "unit": r"tests/unit/unit_table_\w+",
            "stress": "tests/unit/stress_table", "e2e": REAL, "fault": REAL}
building = threading.Lock()


def run(log, *command, environment=None):
    """Its status; what it says goes to the log. Past the limit it is asked to end, so that its daemons end too."""
    with open(log, "ab") as out:
        out.write(f"$ {' '.join(map(str, command))}\n".encode())
        out.flush()
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=ROOT,
                                   env={**os.environ, **(environment or {})})
        try:
            return process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(60)
            return f"over {LIMIT_S} s"


def build(tree, mutant, into, stages):
    """Builds the mutant and copies its programs, so that the next one can be built while they are tested."""
    log = into / "build.log"
    with building:
        options = ["-Dfault_points=true", "-Dpython=disabled", f"-Dmutant={mutant}"]
        begin = ["meson", "configure", tree] if (tree / "build.ninja").is_file() else ["meson", "setup", tree, ROOT]
        if run(log, *begin, *options) != 0:
            sys.exit(f"cannot set up {tree} for the mutant '{mutant}', see {log}")
        listed = subprocess.run(["ninja", "-C", tree, "-t", "targets", "all"], stdout=subprocess.PIPE, text=True,
                                check=True)
        wanted = "|".join(PROGRAMS[stage] for stage in stages)
        programs = re.findall(rf"^({wanted}): (?:c|cpp)_LINKER$", listed.stdout, re.M)
        if run(log, "ninja", "-C", tree, "-j", os.cpu_count() or 2, *programs) != 0:
            sys.exit(f"cannot build the mutant '{mutant}', see {log}")
        for program in programs:
            (into / program).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / program, into / program)
        for library in (into / "src/client").glob("*.so.*.*"):
            (library.parent / library.name.split(".so")[0]).with_suffix(".so.0").symlink_to(library.name)


def verdict(report, status):
    """A cell: how many cases passed, or which failed. A runner that left no report has crashed."""
    try:
        cases = list(xml.parse(report).iter("testcase"))
    except (OSError, xml.ParseError):
        return f"RED: ended with {status}"
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    if not failed and status != 0:
        return f"RED: ended with {status}"
    if failed:
        names = ", ".join(f"`{case.get('name')}`" for case in failed[:2])
        return f"RED: {len(failed)} of {len(cases)}: {names}" + (" ..." if len(failed) > 2 else "")
    return f"{len(cases) - len(skipped)} pass" + (f", {len(skipped)} skipped" if skipped else "")


def doctests(programs, folder):
    """Programs of doctest, one report each; one cell."""
    cells = []
    for program in programs:
        report = folder / f"{program.name}.xml"
        status = run(folder / f"{program.name}.log", program, "--reporters=junit", f"--out={report}")
        cells.append(verdict(report, status))
    red = [cell for cell in cells if "pass" not in cell]
    return red[0] if red else f"{sum(int(cell.split()[0]) for cell in cells)} pass"


def pytests(stage, folder):
    report = folder / f"{stage}.xml"
    status = run(folder / f"{stage}.log", sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", "-s",
                 f"--junitxml={report}", f"tests/{stage}",
                 environment={"MARU_BUILD_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"})
    return verdict(report, status)


def examine(mutant, tree, into, stages, first_red=False):
    """The cells of one mutant; perhaps only until somebody has noticed it."""
    folder = into / mutant
    folder.mkdir(parents=True)
    build(tree, mutant, folder, stages)
    cells = dict.fromkeys(stages, "not run")
    for stage in stages:
        if first_red and any("RED" in cell for cell in cells.values()):
            break
        began = time.monotonic()
        if stage in ("control", "unit"):
            cells[stage] = doctests(sorted((folder / "tests/unit").glob("unit_table_*")), folder)
        elif stage == "stress":
            cells[stage] = doctests([folder / "tests/unit/stress_table"], folder)
        else:
            cells[stage] = pytests(stage, folder)
        print(f"{mutant:26} {stage:7} {time.monotonic() - began:6.0f} s  {cells[stage]}", flush=True)
    return cells


def prove_option(tree, into):
    """The option must make a difference, and none by itself."""
    for mutant in ["none", *CONTROLS]:
        seen = "RED" in examine(mutant, tree, into / "controls", ["control"])["control"]
        if seen != (mutant in CONTROLS):
            sys.exit(f"the unit programs are {'red' if seen else 'green'} with the mutant '{mutant}': the option `mutant` "
                     f"does not do what it says, see {into}")


def simulate(simulator, mutant):
    """By which schedule the simulator finds it, and after how many."""
    for name, task, arguments in suite.mutant_tasks(simulator, 1):
        if name == f"mutant {mutant}":
            row = task(*arguments).row
            return f"{row[3]:,}: `{row[2]}`, {row[1]}" if row else "SURVIVED"
    return "not in mutants.cpp"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mutants", nargs="+", metavar="MUTANT", help="of src/base/mutant.hpp; `none` is the product")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "unseen", help="build tree")
    parser.add_argument("--simulator", help="tests/sim/sim of a build tree")
    parser.add_argument("--stages", default=",".join(STAGES), help="of %(default)s")
    parser.add_argument("--first-red", action="store_true", help="ask no further once a stage is red")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tested at a time")
    parser.add_argument("--logs", type=pathlib.Path, help="folder for programs, logs and reports (default: a new one)")
    asked = parser.parse_args()
    stages = asked.stages.split(",") if asked.stages else []
    if unknown := set(stages) - set(STAGES):
        parser.error(f"no stage is called {', '.join(sorted(unknown))}; there are: {', '.join(STAGES)}")
    into = pathlib.Path(tempfile.mkdtemp(prefix="maru-unseen-", dir=asked.logs))
    into.chmod(0o755)  # tests run programs as other users, too
    print(f"logs and reports are in {into}", flush=True)
    tree = asked.build.resolve()
    prove_option(tree, into)
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        rows = list(pool.map(lambda mutant: examine(mutant, tree, into, stages, asked.first_red), asked.mutants))
    print(f"\n| mutant | {' | '.join(stages)} | the simulator finds it after |\n|{'---|' * (len(stages) + 2)}")
    for mutant, cells in zip(asked.mutants, rows):
        found = simulate(asked.simulator, mutant) if asked.simulator and mutant != "none" else ""
        print(f"| `{mutant}` | {' | '.join(cells[stage] for stage in stages)} | {found} |", flush=True)


if __name__ == "__main__":
    main()
