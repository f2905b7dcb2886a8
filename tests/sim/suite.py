#!/usr/bin/python3
"""Runs the simulator's scenarios and mutants, and writes a JUnit file.

    suite.py SIM [--junit FILE] [--jobs N] [--times N] [--only PART]

The short form takes a few minutes on two cores; --times 100 runs a hundred times as many schedules of everything. A
mutant that no scenario finds fails the suite; so does one that is meant to need store buffers and is found without.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE / "spin"))
import verify as spin  # noqa: E402
SUMMARY = re.compile(
    r"^(?P<name>\S+): (?P<schedules>\d+) schedules(?P<all> \(all\))?, (?P<steps>\d+) steps, \S+ s, (?P<violations>\d+) violations",
    re.M)

# Short schedules of which the rarest count.
MORE = {"lockstep": 3, "lockstep_ratio": 3}


class Result:
    def __init__(self, name, passed, text, seconds, schedules=0, steps=0, row=None, unit="schedules", note=""):
        self.name, self.passed, self.text, self.seconds = name, passed, text, seconds
        self.schedules, self.steps, self.row = schedules, steps, row
        self.unit, self.note = unit, note


def simulate(sim, *arguments):
    """One run of the simulator; its output and the numbers of its summary line."""
    done = subprocess.run(["nice", sim, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    found = SUMMARY.search(done.stdout)
    if found is None:
        return done.stdout, None
    return done.stdout, {"schedules": int(found["schedules"]), "steps": int(found["steps"]),
                         "all": found["all"] is not None, "violations": int(found["violations"])}


def scenario_tasks(sim, times):
    """Every scenario: random ones under each kind of memory, small ones in every schedule."""
    for path in sorted((HERE / "scenarios").glob("*.scenario")):
        name = path.stem
        if "script" in path.read_text():
            bound = 0 if "kills" in path.read_text() else 1
            if times > 1:
                bound += 1
            yield f"exhaustive {name}", exhaustive, (sim, name, bound, times)
        else:
            for memory in ("sequential", "tso", "weak"):
                yield f"random {name} {memory}", random_schedules, (sim, name, memory, times)


def exhaustive(sim, name, bound, times):
    began = time.monotonic()
    text, numbers = simulate(sim, name, "--preemptions", bound, "--runs", 20000 * times)
    passed = numbers is not None and numbers["violations"] == 0 and (numbers["all"] or times > 1)
    if numbers is not None and not numbers["all"]:
        text += f"cut: not every schedule with {bound} pre-emptions was run\n"
    sampled, more = simulate(sim, name, "--seed", 1, "--runs", 5000 * times)  # with more pre-emptions, at random
    text += sampled
    passed = passed and more is not None and more["violations"] == 0
    if numbers is not None and more is not None:
        numbers = {key: numbers[key] + more[key] for key in ("schedules", "steps")}
    return Result(f"exhaustive {name}, {bound} pre-emptions", passed, text, time.monotonic() - began,
                  *(numbers and (numbers["schedules"], numbers["steps"]) or (0, 0)))


def random_schedules(sim, name, memory, times):
    began = time.monotonic()
    runs = {"sequential": 4000, "tso": 1500, "weak": 2500}[memory] * MORE.get(name, 1) * times
    text, numbers = simulate(sim, name, "--memory", memory, "--runs", runs)
    passed = numbers is not None and numbers["violations"] == 0
    placements = re.search(r"^  placements of a store: (.*)$", text, re.M)
    return Result(f"random {name}, {memory} memory", passed, text, time.monotonic() - began,
                  *(numbers and (numbers["schedules"], numbers["steps"]) or (0, 0)),
                  note=f"placements: {placements[1]}" if placements else "")


def mutant(sim, name, buffers_only, scenarios, times):
    """Looks for one defect; its first scenario gets most of the tries."""
    began, schedules, text = time.monotonic(), 0, ""
    for memory in (["tso", "weak"] if buffers_only else ["sequential", "weak"]):
        for scenario in scenarios:
            sampled = ["--seed", 1] if scenario.startswith("all_") else []
            output, numbers = simulate(sim, scenario, "--mutant", name, "--memory", memory, "--stop", 1,
                                       "--runs", 40000 * times, *sampled)
            text += output
            if numbers is None:
                return Result(f"mutant {name}", False, text, time.monotonic() - began)
            schedules += numbers["schedules"]
            if numbers["violations"] == 0:
                continue
            what = re.search(r"^VIOLATION (.*)$", output, re.M)[1]
            replay = re.search(r"^  sim \S+ (.*) --trace$", output, re.M)[1].replace(f"--mutant {name} ", "")
            row = (name, what, f"{scenario} {replay}", schedules)
            if buffers_only and not unseen_without_buffers(sim, name, scenarios, times):
                return Result(f"mutant {name}", False, text + "found without store buffers too\n",
                              time.monotonic() - began, schedules, row=row)
            return Result(f"mutant {name}", True, text, time.monotonic() - began, schedules, row=row)
    return Result(f"mutant {name}", False, text + f"SURVIVED {schedules} schedules\n", time.monotonic() - began,
                  schedules, row=(name, "SURVIVED", " ".join(scenarios), schedules))


def unseen_without_buffers(sim, name, scenarios, times):
    for scenario in scenarios:
        _, numbers = simulate(sim, scenario, "--mutant", name, "--memory", "sequential", "--stop", 1,
                              "--runs", 2000 * times)
        if numbers is None or numbers["violations"] != 0:
            return False
    return True


def mutant_tasks(sim, times):
    listed = subprocess.run([sim, "--list-mutants"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in listed.splitlines():
        name, kind, scenarios = line.split("\t")
        yield f"mutant {name}", mutant, (sim, name, kind == "buffers", scenarios.split(), times)


def compiler_tasks(compiler):
    for path in sorted((HERE / "compile_fail").glob("*.cpp")):
        yield f"compile_fail {path.stem}", compiles, (compiler, path)
    for path in sorted((ROOT / "src" / "table").glob("*.cpp")):
        if "mutant(" in path.read_text():
            yield f"hooks {path.stem}", hooks_cost_nothing, (compiler, path)


def compiles(compiler, path):
    """The simulator's build refuses a raw access, and accepts the sound one."""
    began = time.monotonic()
    done = subprocess.run([*compiler, "-std=c++20", "-fsyntax-only", "-DMARU_STEPPED", f"-I{ROOT / 'src'}", f"-I{HERE}",
                           path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    wanted = path.stem == "sound"
    passed = (done.returncode == 0) == wanted and (wanted or f"{path.name}:" in done.stdout)
    return Result(f"compile_fail {path.stem}", passed, done.stdout + f"exit status {done.returncode}\n",
                  time.monotonic() - began)


def hooks_cost_nothing(compiler, path):
    """The product's machine code of a source is the same with every `mutant(...)` replaced by `false`."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="maru-sim-") as folder:
        bare = pathlib.Path(folder) / "src"
        shutil.copytree(ROOT / "src", bare, ignore=shutil.ignore_patterns("daemon", "client", "wire", "pool", "python"))
        for source in bare.rglob("*.?pp"):
            if source.name != "mutant.hpp":
                source.write_text(re.sub(r"mutant\(Mutant::\w+\)", "false", source.read_text()))
        codes = []
        for tree in (ROOT / "src", bare):
            made = pathlib.Path(folder) / "made.o"
            subprocess.run([*compiler, "-std=c++20", "-O3", "-D_GNU_SOURCE", "-c", "-o", made, f"-I{tree}",
                            tree / "table" / path.name], check=True)
            shown = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", made], stdout=subprocess.PIPE, text=True,
                                   check=True).stdout
            codes.append(shown)
        same = codes[0] == codes[1] and len(codes[0].splitlines()) > 20
    return Result(f"hooks {path.stem}", same, f"{len(codes[0].splitlines())} lines of machine code with the hooks, "
                  f"{len(codes[1].splitlines())} without\n", time.monotonic() - began)


def model_tasks():
    """The slot protocol's model: every configuration in full, every broken rule until it is caught."""
    for name, configuration, broken in spin.tasks():
        yield name, model, (name, configuration, broken)


def model(name, configuration, broken):
    passed, line, verdict = spin.judge(configuration, broken)
    return Result(name, passed, f"{verdict.text}\n{line}\n", verdict.seconds, unit="states", schedules=verdict.states,
                  note=f"depth {verdict.depth}" + (f", {verdict.error}" if verdict.error else ""))


def write_junit(path, results):
    suite = xml.Element("testsuite", name="sim", tests=str(len(results)),
                        failures=str(sum(not r.passed for r in results)))
    for result in results:
        case = xml.SubElement(suite, "testcase", classname="sim", name=result.name, time=f"{result.seconds:.2f}")
        if result.passed:
            xml.SubElement(case, "system-out").text = result.text
        else:
            xml.SubElement(case, "failure", message=result.text.strip().splitlines()[-1]).text = result.text
    xml.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def replay_tasks(sim):
    for name in ("basic", "full", "flush", "regions_two_hosts", "pools"):
        yield f"replay {name}", replays, (sim, name)


def replays(sim, name, seeds=range(20, 36)):
    """A seed is a schedule: as many steps alone as in the middle of others."""
    began = time.monotonic()
    alone = [simulate(sim, name, "--seed", seed, "--runs", 1)[1]["steps"] for seed in seeds]
    together = [simulate(sim, name, "--seed", seeds[0], "--runs", count)[1]["steps"]
                for count in range(1, len(seeds) + 1)]
    after = [more - less for less, more in zip([0, *together], together)]
    return Result(f"replay {name}", alone == after, f"seeds {list(seeds)}: steps alone {alone}, in a row {after}",
                  time.monotonic() - began, schedules=2 * len(seeds), unit="schedules")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sim", help="the simulator: tests/sim/sim of a build tree")
    parser.add_argument("--junit", help="result file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--times", type=int, default=1, help="multiplies the schedules of everything")
    parser.add_argument("--only", default="", help="run only what has this text in its name")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    options = parser.parse_args()
    tasks = [t for t in [*compiler_tasks(shlex.split(options.compiler)), *model_tasks(),
                         *replay_tasks(options.sim), *scenario_tasks(options.sim, options.times),
                         *mutant_tasks(options.sim, options.times)]
             if options.only in t[0]]
    results, began = [], time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda task: task[1](*task[2]), tasks):
            print(f"{'ok    ' if result.passed else 'FAILED'} {result.name:56} {result.schedules:8} {result.unit:9} "
                  f"{result.seconds:6.1f} s  {result.note}".rstrip(), flush=True)
            if not result.passed:
                print(result.text)
            results.append(result)
    rows = [r.row for r in results if r.row is not None]
    if rows:
        print("\nmutant                      found after  by                                        violated")
        for name, what, where, schedules in rows:
            print(f"{name:27} {schedules:11}  {where:41} {what}")
    failed = sum(not r.passed for r in results)
    schedules = sum(r.schedules for r in results if r.unit == "schedules")
    print(f"\n{schedules} schedules, {sum(r.steps for r in results)} steps without a mutant, "
          f"{len(results) - failed} passed, {failed} failed, {time.monotonic() - began:.0f} s")
    if options.junit:
        write_junit(options.junit, results)
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
