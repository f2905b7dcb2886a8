#!/usr/bin/python3
"""Verifies the model of the slot protocol with Spin: every configuration in full, every broken rule until it is caught.

    verify.py [--only TEXT] [--jobs N] [--trail]

Each line gives the states, the depth and the seconds of one configuration. --trail prints the steps to the error.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).resolve().parent / "slots.pml"

# name: who is there, and the switches of the model
CONFIGURATIONS = {
    "two_stores": ("RUN(Storer(1), 1); RUN(Storer(2), 2)", "COMMITS=3"),
    "two_stores_get": ("RUN(Storer(1), 1); RUN(Storer(2), 2); RUN(Reader(3, LEASE), 3)", "CLIENTS=3"),
    "store_delete_get": ("RUN(Storer(1), 1); RUN(Deleter(2), 2); RUN(Reader(3, LEASE), 3)", "CLIENTS=3 STORED"),
    "two_deletes_get": ("RUN(Deleter(1), 1); RUN(Deleter(2), 2); RUN(Reader(3, LEASE), 3)", "CLIENTS=3 RECORDS=1 STORED"),
    "evict_get_store": ("RUN(Evictor(1), 1); RUN(Reader(2, LEASE), 2); RUN(Storer(3), 3)",
                        "CLIENTS=3 RECORDS=1 STORED EVICTS"),
    "evict_pin_delete": ("RUN(Evictor(1), 1); RUN(Reader(2, KEY), 2); RUN(Deleter(3), 3)",
                         "CLIENTS=3 RECORDS=1 STORED EVICTS"),
    # two threads of one client: only the attempt tells their retirements apart
    "threads_evict_get": ("RUN(Evictor(1), 1); ALSO(Evictor(1)); RUN(Reader(2, LEASE), 2)",
                          "RECORDS=1 STORED EVICTS EVICT_ONLY"),
    "killed_store": ("RUN(Storer(1), 1); ALSO(Killer(1)); RUN(Sweeper(6, 1), 6); RUN(Storer(2), 2)", "DEATH COMMITS=1"),
    "killed_delete": ("RUN(Deleter(1), 1); ALSO(Killer(1)); RUN(Sweeper(6, 1), 6); RUN(Storer(2), 2)", "DEATH STORED"),
    "killed_evict": ("RUN(Evictor(1), 1); ALSO(Killer(1)); RUN(Sweeper(6, 1), 6); RUN(Reader(2, LEASE), 2)",
                     "DEATH STORED RECORDS=1 EVICTS PINS=2"),
    "two_sweepers_store": ("RUN(Storer(1), 1); ALSO(Killer(1)); RUN(Sweeper(6, 1), 6); RUN(Sweeper(7, 1), 7)", "DEATH"),
    "two_sweepers_next_get": ("RUN(Evictor(1), 1); ALSO(Killer(1)); RUN(Sweeper(6, 1), 6); RUN(Sweeper(7, 1), 7); "
                              "RUN(Successor(3, LEASE), 3)", "DEATH STORED RECORDS=1 EVICTS PINS=2"),
    "two_sweepers_next_store": ("RUN(Storer(1), 1); ALSO(Killer(1)); RUN(Sweeper(6, 1), 6); RUN(Sweeper(7, 1), 7); "
                                "RUN(SuccessorStores(3), 3)", "DEATH RECORDS=1 COMMITS=1"),
    "alone_after_stores": ("RUN(Storer(1), 1); RUN(Storer(2), 2); RUN(Lone(3), 3)",
                           "SOLO CLIENTS=3 RECORDS=3 SLOTS=4 EVICTS LAPS=4"),
    "alone_after_removals": ("RUN(Evictor(1), 1); RUN(Deleter(2), 2); RUN(Lone(3), 3)",
                             "SOLO CLIENTS=3 RECORDS=2 SLOTS=3 STORED EVICTS LAPS=5"),
    "alone_after_sweep": ("RUN(Storer(1), 1); ALSO(Killer(1)); RUN(Sweeper(6, 1), 6); RUN(Lone(2), 2)",
                          "SOLO DEATH SLOTS=3 EVICTS LAPS=4"),
    "alone_in_a_store": ("RUN(Storer(1), 1); RUN(Storer(2), 2); ALSO(Stopper(1))", "SOLO COMMITS=1"),
}

# broken rule: the configuration that catches it
BROKEN = {
    "NO_RESCAN": "two_stores",
    "TENTATIVE_LEFT": "two_stores",
    "TENTATIVE_BY_PHASE": "two_stores",
    "BLIND_COMMIT": "two_stores",
    "NO_PIN_SCAN": "evict_get_store",
    "NO_RECHECK": "evict_get_store",
    "ATTEMPT_NOT_RAISED": "threads_evict_get",
    "SWEEP_DROPS_COMMITTED": "killed_store",
    "SWEEP_PINS_FIRST": "two_sweepers_store",
    "SWEEP_ANY_EPOCH": "two_sweepers_next_get",
    "TENTATIVE_WAITED_FOR": "alone_after_stores",
    "FOREIGN_LEFT": "alone_after_removals",
}

FOUND = re.compile(r"depth reached (\d+), errors: (\d+)\s+(\d+) states, stored")


class Verdict:
    def __init__(self, text, seconds=0.0, states=0, depth=0, error=None, complete=False):
        self.text, self.seconds, self.states, self.depth = text, seconds, states, depth
        self.error = error          # what was violated, None when nothing was
        self.complete = complete    # every reachable state was visited


def verify(configuration, broken=None, trail=False):
    """Spin's whole search of one configuration; with a broken rule until the first error."""
    began = time.monotonic()
    who, switches = CONFIGURATIONS[configuration]
    defines = switches.split() + ([broken] if broken else [])
    with tempfile.TemporaryDirectory(prefix="maru-spin-") as folder:
        def run(*command, output=subprocess.STDOUT):
            return subprocess.run([*map(str, command)], cwd=folder, stdout=subprocess.PIPE, stderr=output, text=True, check=False)
        model = run("gcc", "-E", "-P", "-x", "c", f"-DWHO={who}", *(f"-D{define}" for define in defines), MODEL)
        (pathlib.Path(folder) / "model.pml").write_text(model.stdout)
        made = run("spin", "-a", "model.pml")
        # `provided` clauses, by which processes stop, rule partial order reduction out.
        reduction = ["-DNOREDUCE"] if {"DEATH", "SOLO"} & set(defines) else []
        # Compiling at -O2 takes longer than the search that it would make shorter.
        built = run("gcc", "-O0", "-w", "-DSAFETY", "-DMEMLIM=3000", *reduction, "-o", "pan", "pan.c")
        if model.returncode or made.returncode or built.returncode:
            return Verdict(model.stdout[-500:] + made.stdout + built.stdout)
        # -E: who is stopped for good ends at no end state; the process Watch says who may be stuck.
        done = run("./pan", "-E", "-m20000", "-w21")
        text = done.stdout
        if trail:
            text += run("./pan", "-r", "-n").stdout
    found = FOUND.search(text)
    if found is None:
        return Verdict(text)
    violated = re.search(r"^pan:\d+: (.*)$", text, re.M)
    complete = done.returncode == 0 and "Search not completed" not in text and "max search depth too small" not in text
    return Verdict(text, time.monotonic() - began, int(found[3]), int(found[1]),
                   violated[1] if violated else None if found[2] == "0" else "error", complete)


def judge(configuration, broken):
    """Whether it went as it must, and a line about it."""
    verdict = verify(configuration, broken)
    if broken is None:
        passed = verdict.complete and verdict.error is None
    else:
        passed = verdict.error is not None and "assertion violated" in verdict.error
    line = (f"{verdict.states} states, depth {verdict.depth}, {verdict.seconds:.1f} s: "
            f"{verdict.error or ('no error' if verdict.complete else 'NOT COMPLETED')}")
    return passed, line, verdict


def tasks():
    """Name, configuration, broken rule or None."""
    for configuration in CONFIGURATIONS:
        yield f"spin {configuration}", configuration, None
    for broken, configuration in BROKEN.items():
        yield f"spin {configuration} with {broken}", configuration, broken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="what has this text in its name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--trail", action="store_true", help="print the steps to the error")
    options = parser.parse_args()
    chosen = [task for task in tasks() if options.only in task[0]]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for task, (passed, line, verdict) in zip(chosen, pool.map(lambda task: judge(*task[1:]), chosen)):
            print(f"{'ok    ' if passed else 'FAILED'} {task[0]:48} {line}", flush=True)
            failed += not passed
            if not passed and verdict.states == 0:
                print(verdict.text)
            if options.trail and verdict.error is not None:
                print(verify(*task[1:], trail=True).text)
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
