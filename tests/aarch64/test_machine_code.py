"""What the compilers make of the table's memory orders on AArch64.

A reader announces its pin and looks at the record's state again. On Arm that second look must be an `ldar`: an `ldapr`,
or a plain load, may be done before the pin can be seen by others, and a page would be reused under its reader. Two things
are compared for each second look: the source says seq_cst, and what GCC (as the cross-build has it) and Clang (for a
processor that has `ldapr` and single-instruction atomics) made of that very line is `ldar`. The compilers of Debian 12
write `ldar` for acquire as well; newer ones write `ldapr` for it, which is why both halves are needed."""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MARU_BUILD_DIR", ROOT / "build" / "aarch64"))
BINUTILS = "aarch64-linux-gnu-"

# Function and text of each second look: after the pin's seq_cst store, or in a loop after it.
SECOND_LOOKS = [
    ("src/table/lookup.cpp", "bool Worker::settle_lease", "record.state.load("),
    ("src/table/lookup.cpp", "bool Worker::settle_key_pin", "record.state.load("),
    ("src/table/lookup.cpp", "Code Worker::retrieve_with", "record.state.load("),
    ("src/table/pins.hpp", "inline void PinSet::announce_lease", "epoch_word.load(shm::seq_cst)"),
]
PIN_STORES = [
    ("src/table/pins.hpp", "inline void PinSet::announce_lease", ".exchange(word, shm::seq_cst)"),
    ("src/table/pins.cpp", "void PinSet::announce_key", ".exchange("),
]
SOURCES = ["src/table/lookup.cpp", "src/table/pins.cpp"]


def place(path, function, text):
    """File and line of `text` within a function, as debug information names it."""
    lines = (ROOT / path).read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith(function + "(")]
    for index in range(starts[-1], len(lines)) if starts else ():
        if text in lines[index]:
            return f"{path}:{index + 1}"
        if lines[index] == "}":
            break
    pytest.fail(f"{path}: no '{text}' in '{function}': the code moved, so look again at what must be ordered there")


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def gcc_command(source):
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        here = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if here != ROOT / source or entry["output"].startswith("tests/"):
            continue
        words = iter(shlex.split(entry["command"]))
        kept = []
        for word in words:
            if word in ("-MQ", "-MF", "-o", "-c"):
                next(words)  # with its argument
            elif word != "-MD":
                kept.append(word)
        return kept, entry["directory"]
    pytest.fail(f"{BUILD}/compile_commands.json does not compile {source}")


def clang_command(source):
    words, directory = gcc_command(source)
    chosen = [w for w in words if w.startswith(("-I", "-D", "--sysroot", "-std", "-isystem", "-fvisibility"))]
    return ["clang++", "--target=aarch64-linux-gnu", "-march=armv8.3-a+lse+rcpc", "-O3", *chosen], directory


class MachineCode:
    """One compiled source: its instructions, and for each the source lines it comes from, innermost first."""

    def __init__(self, command, directory, source, folder):
        made = folder / (pathlib.Path(source).stem + ".o")
        subprocess.run([*command, "-gdwarf-4", "-c", str(ROOT / source), "-o", str(made)], cwd=directory, check=True)
        self.instructions = []
        section = None
        for line in run(BINUTILS + "objdump", "-dr", "--no-show-raw-insn", str(made)).splitlines():
            if found := re.match(r"Disassembly of section (\S+):", line):
                section = found.group(1)
            elif found := re.match(r"\s*([0-9a-f]+):\t(\w[\w.]*)\s*(.*)", line):
                self.instructions.append([section, int(found.group(1), 16), found.group(2), found.group(3)])
            elif (found := re.search(r"R_AARCH64_(?:CALL|JUMP)26\s+(\S+)", line)) and self.instructions:
                self.instructions[-1][3] += " " + found.group(1)
        self._made = made

    def from_line(self, where):
        """(mnemonic, operands) of all instructions that come from a source line, inlined ones too."""
        path, number = where.rsplit(":", 1)
        found = []
        for section in {i[0] for i in self.instructions}:
            mine = [i for i in self.instructions if i[0] == section]
            shown = run(BINUTILS + "addr2line", "-a", "-i", "-j", section, "-e", str(self._made),
                        *(hex(i[1]) for i in mine))
            chains = re.split(r"^0x[0-9a-f]+\n", shown, flags=re.M)[1:]
            assert len(chains) == len(mine)
            for instruction, chain in zip(mine, chains):
                for line in chain.splitlines():
                    if re.search(rf"{re.escape(path)}:{number}\b", os.path.normpath(line)):
                        found.append((instruction[2], instruction[3]))
                        break
        return found


@pytest.fixture(scope="module", params=["gcc", "clang with rcpc"])
def code(request, tmp_path_factory):
    make = gcc_command if request.param == "gcc" else clang_command
    folder = tmp_path_factory.mktemp("code")
    return {source: MachineCode(*make(source), source, folder) for source in SOURCES}


@pytest.mark.parametrize("path, function, text", SECOND_LOOKS, ids=[f"{f.split('::')[1]} {t}" for _, f, t in SECOND_LOOKS])
def test_the_second_look_is_ldar(code, path, function, text):
    where = place(path, function, text)
    number = int(where.rsplit(":", 1)[1])
    line = (ROOT / path).read_text().splitlines()[number - 1]
    assert "load(shm::seq_cst)" in line, f"{where}: {line.strip()}: an acquire load may come before the pin is seen"
    seen = code["src/table/lookup.cpp"].from_line(where)
    names = {name for name, _ in seen}
    assert "ldar" in names, f"{where}: no ldar among {seen}"
    assert not {n for n in names if n.startswith(("ldap", "ldax"))}, f"{where}: {seen}"


@pytest.mark.parametrize("path, function, text", PIN_STORES, ids=[f.split("::")[1] for _, f, _ in PIN_STORES])
def test_the_pin_store_is_acquire_and_release(code, path, function, text):
    where = place(path, function, text)
    source = "src/table/pins.cpp" if path.endswith(".cpp") else "src/table/lookup.cpp"
    seen = code[source].from_line(where)
    assert any(name == "swpal" or "__aarch64_swp8_acq_rel" in rest for name, rest in seen) or \
        {"ldaxr", "stlxr"} <= {name for name, _ in seen}, f"{where}: {seen}"
