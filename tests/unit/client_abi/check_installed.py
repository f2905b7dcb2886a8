#!/usr/bin/python3
"""What is installed for programs that link libmaru-client: headers, pkg-config file, library and its symbols.

check_installed.py BUILD_DIR [DAEMON]: installs the client from BUILD_DIR into a temporary tree, builds a C and a C++
program against it through pkg-config, runs them, and, given the daemon's program, runs them again with a daemon.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
NEEDED = {"libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libxxhash.so.0"}
# The loader, the kernel's page, and what libstdc++ itself needs.
BESIDE = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "linux-vdso.so.1", "libm.so.6"}
VERSION = "MARU_0.1"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
DAEMON_START_S = 20


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=120, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def install(build, tree):
    meson = shutil.which("meson")
    assert meson, "meson is not in PATH"
    run(meson, "install", "-C", build, "--no-rebuild", "--destdir", tree, "--tags", "client,devel")
    libraries = [path for path in tree.rglob("libmaru-client.so.0") if path.exists()]
    assert len(libraries) == 1, f"libmaru-client.so.0 is not installed once: {libraries}"
    return libraries[0]


def check_symbols(library, header):
    """Exactly the functions of maru.h are exported, each with its version."""
    declared = set(re.findall(r"^MARU_API [^;(]*?\b(maru_\w+)\(", header.read_text(), re.MULTILINE))
    assert len(declared) > 25, f"only {len(declared)} functions were found in {header}"
    exported = set()
    for line in run("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        name = line.split()[-1]
        if name == VERSION or name == f"{VERSION}@@{VERSION}":
            continue
        symbol, _, version = name.partition("@@")
        assert version == VERSION, f"exported symbol {name} is not of version {VERSION}"
        exported.add(symbol)
    assert exported == declared, f"exported but not in maru.h: {sorted(exported - declared)}; " \
                                 f"in maru.h but not exported: {sorted(declared - exported)}"


def check_libraries(library):
    dynamic = run("readelf", "-d", library)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    sanitized = {name for name in needed if re.match(r"lib(asan|ubsan|tsan|lsan)\.", name)}
    loaders = {name for name in needed if name.startswith("ld-linux")}  # thread-local storage brings it in
    extra = needed - NEEDED - sanitized - loaders
    assert not extra, f"the library needs {sorted(extra)}"
    assert re.search(r"\(SONAME\).*\[libmaru-client\.so\.0\]", dynamic), "the soname is not libmaru-client.so.0"
    if sanitized:
        return
    loaded = {pathlib.Path(line.split()[0]).name for line in run("ldd", library).splitlines()}
    assert loaded <= NEEDED | BESIDE, f"ldd shows {sorted(loaded - NEEDED - BESIDE)}"


def pkg_config(tree, *arguments):
    folder = next(tree.rglob("maru-client.pc")).parent
    environment = dict(os.environ, PKG_CONFIG_LIBDIR=str(folder), PKG_CONFIG_SYSROOT_DIR=str(tree))
    environment.pop("PKG_CONFIG_PATH", None)
    return run("pkg-config", *arguments, "maru-client", env=environment).split()


def sanitizers(build):
    options = run("meson", "introspect", "--buildoptions", build)
    found = re.search(r'"name": "b_sanitize", "value": "([^"]*)"', options)
    return [] if not found or found.group(1) == "none" else [f"-fsanitize={found.group(1)}"]


def build_programs(build, tree):
    flags = pkg_config(tree, "--cflags", "--libs")
    assert any(flag == "-lmaru-client" for flag in flags), f"pkg-config gives {flags}"
    assert not any("stdc++" in flag or "xxhash" in flag for flag in flags), f"pkg-config gives {flags}"
    extra = sanitizers(build)
    programs = []
    for compiler, standard, source in (("cc", "c11", "c_program.c"), ("c++", "c++20", "cpp_program.cpp")):
        program = tree / source.split(".")[0]
        run(compiler, f"-std={standard}", *WARNINGS, *extra, HERE / source, "-o", program, *flags)
        programs.append(program)
    return programs


def accepts(path):
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def wait_for(path, process, log):
    deadline = time.monotonic() + DAEMON_START_S
    while not accepts(path):
        assert process.poll() is None, f"the daemon ended with {process.returncode}:\n{log.read_text()}"
        assert time.monotonic() < deadline, f"no socket after {DAEMON_START_S} s:\n{log.read_text()}"
        time.sleep(0.01)  # between two looks


def run_with_daemon(daemon, tree, programs, environment):
    path, log = tree / "maru.sock", tree / "daemon.log"
    pool = pathlib.Path(f"/dev/shm/maru-abi-{os.getpid()}")
    config = tree / "maru.toml"
    config.write_text(f'[[pool]]\nname = "abi"\nkind = "shm"\npath = "{pool}"\nsize = "64MiB"\n')
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen([daemon, "--config", str(config), "--socket", str(path)], stdout=output,
                                   stderr=output, env=environment)
    try:
        wait_for(path, process, log)
        for program in programs:
            run(program, path, env=environment)
        process.terminate()
        assert process.wait(20) == 0, f"the daemon did not stop cleanly:\n{log.read_text()}"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for left in pool.parent.glob(f"{pool.name}*"):
            left.unlink()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    daemon = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(prefix="maru-abi-") as folder:
        tree = pathlib.Path(folder)
        library = install(build, tree)
        header = next(tree.rglob("maru/maru.h"))
        check_symbols(library, header)
        check_libraries(library)
        programs = build_programs(build, tree)
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("MARU_SOCKET", "RUNTIME_DIRECTORY", "NOTIFY_SOCKET")}
        environment["LD_LIBRARY_PATH"] = str(library.parent)
        for program in programs:
            run(program, env=environment)
        if daemon:
            run_with_daemon(daemon, tree, programs, environment)
    print(f"{library.name}: symbols, libraries, pkg-config, a C and a C++ program"
          f"{' with and' if daemon else ''} without a daemon")


if __name__ == "__main__":
    main()
