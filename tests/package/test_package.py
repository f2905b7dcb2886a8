"""What an administrator does with the packages, in this order, on one throw-away Debian 12: install, use, upgrade under
load, remove, purge. The tests of this file build on one another; the first failure ends the run (pytest -x)."""

import re
import subprocess
import time

from conftest import FOLDER, HERE, PACKAGES, ROOT, counts, debs, run
from engines import AS_ENGINE, compile_inside, share_chunks

RATE = 10_000  # operations a second of the engine that goes on through the upgrade
SOCKET = "/run/maru/maru.sock"


def test_lintian_finds_nothing():
    changes = next((FOLDER / "new").glob("*.changes"))
    run("lintian", "--allow-root", "--fail-on", "error,warning", "--display-info", changes)


def test_debian_knows_what_each_package_depends_on():
    depends = {deb.name.split("_")[0]: run("dpkg-deb", "-f", deb, "Depends") for deb in debs("new")}
    assert "libmaru-client0" in depends["maru"] and "liburing2" in depends["maru"]
    assert re.findall(r"[a-z0-9+.-]+", re.sub(r"\([^)]*\)", "", depends["libmaru-client0"])) == \
        ["libc6", "libgcc-s1", "libstdc++6", "libxxhash0"]
    assert "libmaru-client0" in depends["python3-maru"]


def test_installing_from_source_keeps_an_edited_configuration(tmp_path):
    install = ["meson", "install", "-C", FOLDER / "new/source/build/deb", "--no-rebuild", "--destdir", tmp_path]
    run(*install)
    config = tmp_path / "etc/maru/maru.toml"
    shipped = config.read_text()
    assert shipped == (ROOT / "conf/maru.toml").read_text()
    run(*install)
    assert not config.with_suffix(".toml.new").exists(), "the same again is no news"
    config.write_text("# the administrator's\n")
    run(*install)
    assert config.read_text() == "# the administrator's\n"
    assert config.with_suffix(".toml.new").read_text() == shipped


def test_install_starts_the_service(machine, manager, fresh):
    manager.trace = FOLDER / "strace"
    machine.run("sh", "-c", "apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends /tmp/new/*.deb")
    assert "start" in manager.history or "restart" in manager.history, manager.history
    assert not [entry for entry in manager.history if entry.startswith("failed")], manager.history
    assert manager.running(), manager.log_path.read_text()
    assert machine.run("stat", "-c", "%U %G %a", SOCKET) == "maru maru 660\n"
    assert machine.run("stat", "-c", "%U", f"/proc/{manager.process.pid}") == "maru\n"
    assert "maru-default-" in machine.run("ls", "/dev/shm")
    print("service:", next(line for line in manager.log_path.read_text().splitlines() if SOCKET in line)[:160])


def test_the_unit_is_sound(machine):
    verified = machine.run("systemd-analyze", "verify", "--man=no", "/lib/systemd/system/maru.service")
    assert "maru" not in verified, verified
    rated = machine.run("systemd-analyze", "security", "--offline=yes", "/lib/systemd/system/maru.service")
    score = re.search(r"Overall exposure level for maru.service: ([\d.]+) (\w+)", rated)
    assert score and float(score.group(1)) < 3.0, rated
    print(f"systemd-analyze security: exposure {score.group(1)} {score.group(2)} (0 is least, 10 is most)")


def test_the_files_of_an_installation(machine):
    for package in PACKAGES:
        assert machine.run("dpkg", "--verify", package) == ""
    # The dpkg configuration of the small root leaves man pages in; every call of the header has one.
    calls = re.findall(r"^ (maru_\w+)@", machine.path("/var/lib/dpkg/info/libmaru-client0:amd64.symbols").read_text(), re.M)
    assert len(calls) > 25
    for call in calls:
        assert machine.run("test", "-e", f"/usr/share/man/man3/{call}.3.gz") == ""


def test_a_member_of_the_group_uses_it_and_others_do_not(machine):
    machine.run("useradd", "-m", "-G", "maru", "engine")
    machine.run("useradd", "-m", "stranger")
    assert "default" in machine.run("setpriv", "--reuid=engine", "--regid=engine", "--init-groups", "maructl", "pools")
    refused = machine.run("setpriv", "--reuid=stranger", "--regid=stranger", "--init-groups", "maructl", "pools", status=2)
    assert "ermission" in refused


def test_two_engines_built_against_the_installed_headers_share_chunks(machine):
    share_chunks(machine)


PYTHON = """
from maru import MaruConfig, MaruHandler
with MaruHandler(MaruConfig(pool_size="8MiB", chunk_size_bytes="1MiB")) as handler:
    handle = handler.alloc(1 << 20)
    handle.buf[:] = b"A" * (1 << 20)
    handler.store(key=42, handle=handle)
    info = handler.retrieve(42)
    assert bytes(info.view) == b"A" * (1 << 20)
    del info, handle
print("python reads what it stored")
"""


def test_python_uses_the_installed_package(machine):
    machine.path("/tmp/job.py").write_text(PYTHON)
    assert "python reads what it stored" in machine.run(*AS_ENGINE, "python3", "-W", "error", "/tmp/job.py")
    assert machine.run("maructl", "exists", "int:42") != "x"
    machine.run("maructl", "rm", "int:42")


COMPLETE = """
source /usr/share/bash-completion/completions/$1
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_maru
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completions(machine, *words):
    return machine.run("bash", "-c", COMPLETE, "bash", *words).split()


def test_bash_completes_what_the_programs_take(machine):
    subcommands = machine.run("maructl", "--help").partition("Subcommands:")[2].partition("\n\n")[0]
    listed = re.findall(r"^  ([a-z-]+) ", subcommands, re.M)
    assert len(listed) > 10
    assert completions(machine, "maructl", "") == listed
    assert completions(machine, "maructl", "sta") == ["status"]
    assert "--prefix" in completions(machine, "maructl", "--json", "keys", "--")
    assert completions(machine, "maructl", "host", "rel") == ["release"]
    assert SOCKET in completions(machine, "maructl", "--socket", "/run/maru/maru.s")
    assert "--check-config" in completions(machine, "maru", "--ch")
    assert completions(machine, "maru", "--config", "/etc/maru/") == ["/etc/maru/maru.toml"]
    assert "micro" in completions(machine, "maru-bench", "")


ZSH = """
_describe() { print -l -- ${(P)2}; }
_files() { print files; }
words=("$@"); CURRENT=$#
source /usr/share/zsh/vendor-completions/_maru
"""


def test_zsh_completes_the_same(machine):
    """The function itself in a real zsh; only what shows the choices to a person is replaced."""
    machine.run("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0", "install", "-y", "--no-install-recommends", "zsh")

    def offered(*words):
        return [line.split(":")[0] for line in machine.run("zsh", "-f", "-c", ZSH, "zsh", *words).splitlines()]
    assert offered("maructl", "") == completions(machine, "maructl", "")
    assert offered("maructl", "--json", "keys", "--") == completions(machine, "maructl", "--json", "keys", "-")
    assert offered("maructl", "host", "") == ["release"]
    assert offered("maru", "--config", "") == ["files"]


def allowed_calls(machine, settings):
    """The system calls that SystemCallFilter= lets through, with its groups taken apart."""
    def expand(name):
        if not name.startswith("@"):
            return {name}
        members = machine.run("systemd-analyze", "syscall-filter", name).splitlines()[1:]
        return set().union(*(expand(word.strip()) for word in members if word.strip() and not word.strip().startswith("#")))
    allowed = set()
    for setting in settings:
        names = set().union(*(expand(word) for word in setting.removeprefix("~").split()))
        allowed = allowed - names if setting.startswith("~") else allowed | names
    return allowed


def traced_calls():
    """What the daemon itself called: from its own execve on."""
    lines = (FOLDER / "strace").read_text(errors="replace").splitlines()
    begin = next(i for i, line in enumerate(lines) if 'execve("/usr/bin/maru"' in line and "= 0" in line)
    return set(re.findall(r"^\d+ +([a-z_0-9]+)\(", "\n".join(lines[begin:]), re.M))


def test_every_call_of_the_daemon_passes_the_units_filter(machine, manager):
    manager.obey(["stop"])
    manager.trace = None
    manager.obey(["start"])
    called = traced_calls()
    assert {"io_uring_setup", "io_uring_enter", "openat"} <= called
    unit = machine.path("/lib/systemd/system/maru.service").read_text()
    allowed = allowed_calls(machine, re.findall(r"^SystemCallFilter=(.*)$", unit, re.M))
    assert called - allowed == set(), "the unit forbids what the daemon calls"
    print(f"system calls: {len(called)} kinds traced from start to stop, all of the {len(allowed)} that the unit allows")


def test_an_upgrade_costs_a_running_engine_no_operation(machine, manager):
    compile_inside(machine, HERE / "pace.c", "pace")
    phase = machine.path("/tmp/phase")
    phase.write_text("before")
    engine = machine.start(*AS_ENGINE, "/tmp/pace", "600", str(RATE), "/tmp/phase", "/tmp/end", stdout=subprocess.PIPE)
    said = []
    while not said or counts(said[-1]).get("before", 0) < 3 * RATE:
        said.append(engine.stdout.readline())
        assert said[-1] and "=" in said[-1], said
    manager.history.clear()
    first = manager.process.pid
    phase.write_text("during")
    begin = time.monotonic()
    machine.run("sh", "-c", "apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends /tmp/newer/*.deb")
    took = time.monotonic() - begin
    phase.write_text("after")
    while counts(said[-1]).get("after", 0) < 3 * RATE:
        said.append(engine.stdout.readline())
        assert said[-1] and "=" in said[-1], said
    machine.path("/tmp/end").touch()
    rest = engine.stdout.read()
    assert engine.wait(30) == 0, rest
    done = counts(rest.splitlines()[0])
    print(f"upgrade: {done['before']} operations before, {done['during']} in the {took:.1f} s of it, {done['after']} after, "
          f"{done['failed']} failed; the daemon was process {first}, is process {manager.process.pid}; "
          f"{rest.splitlines()[1]}")
    assert done["failed"] == 0 and "connected=1" in rest
    assert done["during"] >= 0.9 * RATE * took
    assert manager.running() and manager.process.pid != first
    assert "restart" in manager.history, manager.history
    assert "+1" in machine.run("dpkg-query", "-W", "-f", "${Version}", "maru")


def test_a_changed_configuration_survives_removal_and_purge_takes_it(machine, manager):
    config = machine.path("/etc/maru/maru.toml")
    config.write_text(config.read_text() + "# the administrator was here\n")
    machine.run("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0", "remove", "-y", *PACKAGES)
    assert not manager.running() and "stop" in manager.history
    assert "administrator" in config.read_text()
    assert not machine.path("/usr/bin/maru").exists()
    assert machine.run("getent", "passwd", "maru")
    machine.run("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0", "purge", "-y", "maru")  # the others have left nothing
    assert not config.parent.exists()


def test_nothing_is_left(machine, manager, fresh):
    machine.run("apt-get", "-qq", "-o", "Dpkg::Use-Pty=0", "autoremove", "--purge", "-y")
    for user in ("engine", "stranger"):
        machine.run("userdel", "-r", user, status=None)
    assert machine.run("getent", "passwd") == fresh[1]
    assert machine.run("getent", "group") == fresh[2]
    assert machine.run("ls", "-A", "/dev/shm") == ""
    assert "maru" not in machine.run("ls", "-A", "/run")
    expected = re.compile(r"^/(tmp|proc|sys|dev|run)/|^/var/(cache|log)/|^/var/lib/(apt|dpkg)/|^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$")
    left = {path for path in machine.files() - fresh[0] if not expected.match(path)}
    ours = {path for path in left if "maru" in path}
    assert not ours, f"left by the packages: {sorted(ours)}"
    assert not machine.run("find", "/", "-xdev", "-not", "-path", "/tmp/*", "-iname", "*maru*").split()
    print(f"purged: nothing of maru is left; {len(left)} other files differ from the fresh root: {sorted(left)[:6]}")
