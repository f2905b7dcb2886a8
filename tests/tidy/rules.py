"""What must hold for the tree as text. Each rule takes the root of a tree and returns findings: lines that name the
file, the place and the remedy. An empty list is a tidy tree."""

import pathlib
import re
import shutil
import subprocess

SOURCE = {".cpp", ".hpp", ".c", ".h"}
TEXT = SOURCE | {".py", ".sh", ".md", ".toml", ".build", ".txt", ".map", ".in", ".service", ".json", ".yml", ""}

# -- walking -----------------------------------------------------------------------------------------------------


def is_build_output(name):
    return name.startswith("build") or name == "__pycache__"


def walk(folder):
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            if not entry.name.startswith(".") and not is_build_output(entry.name):
                yield from walk(entry)
        elif not entry.name.startswith("."):
            yield entry


def files(root, suffixes, *folders):
    """Files with one of the suffixes, below the folders or anywhere. Hidden ones and build folders are not ours."""
    for start in [root / folder for folder in folders] or [root]:
        if start.is_dir():
            yield from (path for path in walk(start) if path.suffix in suffixes)


def numbered_lines(path):
    return enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)


RULEBOOK = {"tests/tidy/rules.py", "tests/tidy/test_rules.py"}  # these quote what they forbid


def search(root, paths, pattern, remedy, allowed=lambda path, line: False):
    findings = []
    for path in paths:
        name = path.relative_to(root).as_posix()
        if name in RULEBOOK:
            continue
        for number, line in numbered_lines(path):
            found = re.search(pattern, line)
            if found and not allowed(name, line):
                findings.append(f"{name}:{number}: '{found.group(0).strip()}': {remedy}")
    return findings


# -- rules -------------------------------------------------------------------------------------------------------

TOP_LEVEL = {
    "meson.build", "meson_options.txt", "src", "include", "tools", "tests", "conf", "packaging", "README.md",
    "LICENSE", "pyproject.toml",
}


def top_level(root):
    """The top level holds the house's rooms and nothing else."""
    return [
        f"{entry.name}: does not belong at the top level; its rooms are {', '.join(sorted(TOP_LEVEL))}"
        for entry in sorted(root.iterdir())
        if entry.name not in TOP_LEVEL and not entry.name.startswith(".") and not is_build_output(entry.name)
    ]


LAYERS = {
    "base": set(),
    "shm": {"base"},
    "pool": {"base", "shm"},
    "table": {"base", "shm", "pool"},
    "wire": {"base"},
    "client": {"base", "shm", "table", "wire", "maru"},
    "daemon": {"base", "shm", "pool", "table", "wire"},
    "python": {"maru"},
}
TOOLS = {
    "demo": {"maru"},
    # check, dump and repair work without a daemon, on the very pools and locks that it would take: by its code.
    "maructl": {"base", "shm", "pool", "table", "wire", "maru", "daemon"},
    "bench": {"base", "shm", "table", "wire", "maru"},
}


def include_arrows(root):
    """Includes point one way: base <- shm <- pool <- table <- client, daemon; wire uses base only."""
    rooms = {f"src/{layer}": uses | {layer} for layer, uses in LAYERS.items()}
    rooms |= {f"tools/{tool}": uses | {tool} for tool, uses in TOOLS.items()}
    rooms["include/maru"] = {"maru"}
    folders = set(LAYERS) | {"maru"}
    findings = []
    for room, may_use in rooms.items():
        for path in files(root, SOURCE, room):
            name = path.relative_to(root).as_posix()
            for number, line in numbered_lines(path):
                found = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
                if not found:
                    continue
                target = found.group(1)
                folder = target.split("/")[0] if "/" in target else ""
                if folder == "..":
                    findings.append(f"{name}:{number}: include \"{target}\": name it from src or include")
                elif folder in folders and folder not in may_use:
                    findings.append(f"{name}:{number}: include \"{target}\" against the arrow: {room} may use "
                                    f"{', '.join(sorted(may_use))}")
    return findings


LINES_MAX = 800


def file_lengths(root):
    """No file is longer than a reader's patience."""
    findings = []
    for path in files(root, TEXT):
        count = sum(1 for _ in numbered_lines(path))
        if count > LINES_MAX:
            findings.append(f"{path.relative_to(root)}: {count} lines, at most {LINES_MAX}: split it by subject")
    return findings


UNFINISHED = r"\b(?:TODO|FIXME|XXX)\b|(?i:\bstubs?\b)"


def unfinished_work(root):
    """Nothing on the main line announces that it is unfinished."""
    return search(root, files(root, TEXT), UNFINISHED, "finish it, or say in plain words what is not there")


SLEEP = r"\b(?:sleep_for|sleep_until|usleep|nanosleep|time\.sleep|sleep)\s*\(|^\s*sleep\s+[\d.$]"
DEADLINE_LINES = 12


def sleeps_in_tests(root):
    """A test waits for a condition with a deadline; a pause is only the turn of such a loop."""
    findings = []
    for path in files(root, SOURCE | {".py", ".sh"}, "tests"):
        if path.relative_to(root).as_posix() in RULEBOOK:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for index, line in enumerate(lines):
            before = lines[max(0, index - DEADLINE_LINES):index]
            if re.search(SLEEP, line) and not any("deadline" in earlier for earlier in before):
                findings.append(f"{path.relative_to(root)}:{index + 1}: sleeps: wait for a condition in a loop with a "
                                f"deadline (named so in the {DEADLINE_LINES} lines before)")
    return findings


def hidden_failures(root):
    """No test is switched off or allowed to fail: a skip is decided at run time and gives its reason."""
    return search(root, files(root, SOURCE | {".py"}, "tests"),
                  r"doctest::(?:skip|may_fail|should_fail|expected_failures)|mark\.(?:skip|xfail)\b",
                  "let it run, or skip at run time with a reason")


def formatted(root):
    """clang-format has nothing to change."""
    sources = [str(path) for path in files(root, SOURCE, "src", "include", "tools", "tests")]
    if not sources:
        return []
    if shutil.which("clang-format") is None:
        return ["clang-format is not installed: tools/install-dependencies check"]
    run = subprocess.run(["clang-format", "--dry-run", "-Werror", f"--style=file:{root}/.clang-format", *sources],
                         capture_output=True, text=True, check=False)
    dirty = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", run.stderr, re.MULTILINE)))
    if run.returncode and not dirty:
        return [f"clang-format failed: {run.stderr.strip()}"]
    return [f"{pathlib.Path(path).relative_to(root)}: not formatted: clang-format -i {path}" for path in dirty]


CAST_FILES = {
    "src/shm/mapping.hpp",  # the one place where shared memory gets a type
    "src/shm/copy.cpp",     # vector types of the streaming copy
}
PYTHON_OBJECTS = "src/python/extension/"  # CPython's C interface works by casts; no shared memory gets a type there
# Casts that give no memory a type, and those that a system call's interface asks for.
HARMLESS_CASTS = [
    r"reinterpret_cast<(?:std::uintptr_t|(?:const )?void\s*\*)>",
    r"reinterpret_cast<(?:const )?(?:std::byte|char|unsigned char)\s*\*>",
    r"reinterpret_cast<(?:const )?(?:struct )?sockaddr\s*\*>",
]


def casts(root):
    """reinterpret_cast stays in the few places where bounds are checked or a system call wants another type."""

    def allowed(name, line):
        rest = line
        for pattern in HARMLESS_CASTS:
            rest = re.sub(pattern, "", rest)
        return name in CAST_FILES or name.startswith(PYTHON_OBJECTS) or "reinterpret_cast" not in rest.split("//")[0]

    return search(root, files(root, SOURCE, "src"), r"reinterpret_cast<[^>]*>?",
                  "go through shm::table_at, or list the system call's cast in tests/tidy/rules.py", allowed)


def atomics_in_table(root):
    """The table reaches shared memory through shm::Word only, so that a simulator can stand in its place."""
    return search(root, files(root, SOURCE, "src/table"), r"\bstd::atomic\w*|#include <atomic>|__atomic_\w+",
                  "use shm::Word and shm::fence",
                  lambda name, line: not re.search(r"std::atomic|<atomic>|__atomic_", line.split("//")[0]))


def folders_explain_themselves(root):
    """Every folder of src is built by a meson.build or explained by a README.md."""
    findings = []
    source = root / "src"
    for folder in sorted(source.iterdir()) if source.is_dir() else []:
        if folder.is_dir() and any(walk(folder)):
            if not (folder / "meson.build").is_file() and not (folder / "README.md").is_file():
                findings.append(f"src/{folder.name}: has neither a meson.build nor a README.md")
    return findings


MACHINE_PATHS = r"(?<![\w.])/(?:home|root|Users|work|builds?|workspace)/[\w.-]+|\.\./shared\b"


def machine_paths(root):
    """Nothing in the tree names a path of the machine that it was written on."""
    return search(root, files(root, TEXT), MACHINE_PATHS, "a path of one machine: derive it, or take it as an argument")


RULES = [
    top_level, include_arrows, file_lengths, unfinished_work, sleeps_in_tests, hidden_failures, formatted, casts,
    atomics_in_table, folders_explain_themselves, machine_paths,
]
