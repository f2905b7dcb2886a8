"""`python -m maru doctor`: what is there, what is wrong, what to do. Changes nothing.

Exit status: 0 when nothing is wrong, 1 when a fault was found, 2 for wrong use.
"""

import argparse
import dataclasses
import grp
import importlib.machinery
import importlib.metadata
import os
import pathlib
import platform
import pwd
import resource
import shutil
import stat
import sys
from collections.abc import Callable, Iterator

import maru
from maru import _maru, cuda, location
from maru.config import DEFAULT_SERVER_URL, MaruConfig
from maru.errors import MaruDeniedError, MaruError, MaruVersionError

FAULT, WARNING, GOOD = "FAULT", "warn", "ok"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the report. `remedy` says what to do about it."""

    level: str
    subject: str
    text: str
    remedy: str = ""


def _size(count: int) -> str:
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def check_python() -> Iterator[Finding]:
    """The interpreter."""
    text = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    if platform.python_implementation() != "CPython":
        yield Finding(FAULT, "python", text, "use CPython 3.11 or newer")
    else:
        yield Finding(GOOD, "python", text)


def check_module() -> Iterator[Finding]:
    """This package, and others that want to be `maru` too."""
    own = pathlib.Path(maru.__file__).resolve().parent
    yield Finding(GOOD, "module", f"maru {maru.__version__} at {own}")
    seen = {own}
    for entry in sys.path:
        found = importlib.machinery.PathFinder.find_spec("maru", [entry or os.getcwd()])
        if found is None or found.origin is None:
            continue
        place = pathlib.Path(found.origin).resolve()
        place = place.parent if place.name == "__init__.py" else place
        if place not in seen:
            seen.add(place)
            yield Finding(WARNING, "module", f"another module 'maru' is on the path: {place}",
                          "a program whose sys.path has it first imports that one: remove it")
    try:
        other = importlib.metadata.distribution("maru")
    except importlib.metadata.PackageNotFoundError:
        return
    yield Finding(FAULT, "module", f"the distribution 'maru' {other.version} is installed: it is another project",
                  "pip uninstall maru; then pip install --force-reinstall maru-kvcache")


def check_library() -> Iterator[Finding]:
    """libmaru-client, linked or built in."""
    paths = set()
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if "libmaru-client" in os.path.basename(path):
                paths.add("/" + path)
    if not paths:
        yield Finding(GOOD, "library", f"libmaru-client {_maru.version}, built into {_maru.__file__}")
        return
    yield Finding(GOOD, "library", f"libmaru-client {_maru.version} at {', '.join(sorted(paths))}")
    if len(paths) > 1:
        yield Finding(FAULT, "library", "more than one libmaru-client is loaded", "keep one of them")


def _socket_candidates() -> list[str]:
    """Where the library looks, in its order."""
    named = os.environ.get("MARU_SOCKET")
    if named:
        return [named.removeprefix("unix://")]
    paths = []
    if os.environ.get("RUNTIME_DIRECTORY"):
        paths.append(os.environ["RUNTIME_DIRECTORY"].split(":")[0] + "/maru.sock")
    if os.geteuid() == 0:
        paths.append("/run/maru/maru.sock")
    if os.environ.get("XDG_RUNTIME_DIR"):
        paths.append(os.environ["XDG_RUNTIME_DIR"] + "/maru.sock")
    paths.append(f"/tmp/maru-{os.geteuid()}/maru.sock")
    if os.geteuid() != 0:
        paths.append("/run/maru/maru.sock")
    return paths


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _access(path: str) -> Finding:
    """May this user use the socket?"""
    try:
        facts = os.stat(path)
    except PermissionError as problem:
        return Finding(FAULT, "socket", str(problem), f"give this user access to {os.path.dirname(path)}")
    user = pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else "root"
    group = _group_name(facts.st_gid)
    text = f"{path}, mode {stat.S_IMODE(facts.st_mode):04o}, group {group}"
    if not stat.S_ISSOCK(facts.st_mode):
        return Finding(FAULT, "socket", f"{path} is not a socket", "name the daemon's socket")
    if os.access(path, os.R_OK | os.W_OK):
        return Finding(GOOD, "socket", text)
    return Finding(FAULT, "socket", f"{text}: user {user} may not use it",
                   f"usermod -aG {group} {user}, then log in again (or run this with: sg {group} -c ...)")


def _connect(url: str | None) -> Iterator[Finding]:
    handler = maru.MaruHandler(MaruConfig(server_url=url or DEFAULT_SERVER_URL, auto_connect=False,
                                          instance_id=f"maru-doctor-{os.getpid()}"))
    try:
        path = location.socket_path(handler._config.server_url)
        handler._open(path, handler.instance_id, None, 0, 0, 0, False, False, handler._config.timeout_ms)
        handler._ping()
        own = handler._statistics()
        version = handler._daemon_version()
        yield Finding(GOOD if version == maru.__version__ else WARNING, "versions",
                      f"daemon {version}, library {_maru.version}, package {maru.__version__}",
                      "" if version == maru.__version__ else "they work together; install one version of all three")
        yield Finding(GOOD, "daemon", f"answers; pools of {_size(own['pool_bytes'])}, "
                                      f"{_size(own['unclaimed_bytes'])} not claimed")
    except MaruDeniedError as problem:
        yield Finding(FAULT, "daemon", str(problem), "make this user a member of the daemon's group")
    except MaruVersionError as problem:
        yield Finding(FAULT, "daemon", str(problem),
                      f"install maru-kvcache and the daemon in the same version; this is {maru.__version__}")
    except (MaruError, OSError) as problem:
        yield Finding(FAULT, "daemon", str(problem),
                      "start it (`maru`, or systemctl start maru), or name its socket: MARU_SOCKET, or server_url "
                      "unix:///path; in a container mount the socket")
    finally:
        handler._close()


def check_daemon(url: str | None) -> Iterator[Finding]:
    """The daemon's socket, and the daemon behind it."""
    url = url or os.environ.get("MARU_SERVER_URL", "").strip() or None
    try:
        named = location.socket_path(url) if url else None
    except (MaruError, ValueError) as problem:
        yield Finding(FAULT, "socket", str(problem), "use unix:///path or an address of this host")
        return
    candidates = [named] if named else _socket_candidates()
    there = [path for path in candidates if os.path.lexists(path)]
    if not there:
        yield Finding(FAULT, "socket", f"no socket at {', '.join(candidates)}",
                      "start the daemon (`maru`, or systemctl start maru), or name its socket with MARU_SOCKET")
        return
    access = _access(there[0])
    yield access
    if access.level != FAULT:
        yield from _connect(url)


def check_group() -> Iterator[Finding]:
    """Membership in the daemon's group."""
    try:
        group = grp.getgrnam("maru")
    except KeyError:
        yield Finding(GOOD, "group", "there is no group 'maru': the socket belongs to the daemon's own group")
        return
    if os.geteuid() == 0 or group.gr_gid in {os.getegid(), *os.getgroups()}:
        yield Finding(GOOD, "group", "this process may act as group 'maru'")
        return
    user = pwd.getpwuid(os.geteuid()).pw_name
    late = " (it is listed there, but logged in before)" if user in group.gr_mem else ""
    yield Finding(WARNING, "group", f"user {user} is not in group 'maru'{late}",
                  f"usermod -aG maru {user}, then log in again")


def check_memory() -> Iterator[Finding]:
    """/dev/shm, RLIMIT_MEMLOCK, huge pages."""
    try:
        shm = shutil.disk_usage("/dev/shm")
    except OSError as problem:
        yield Finding(FAULT, "/dev/shm", str(problem), "mount a tmpfs at /dev/shm")
    else:
        level, remedy = GOOD, ""
        if shm.free < 64 << 20:
            level, remedy = WARNING, "give the container a larger one (docker run --shm-size), or the pool another place"
        yield Finding(level, "/dev/shm", f"{_size(shm.free)} of {_size(shm.total)} free", remedy)
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    unlimited = soft == resource.RLIM_INFINITY
    needs = cuda.find_runtime() is not None and not unlimited
    yield Finding(WARNING if needs else GOOD, "RLIMIT_MEMLOCK", "unlimited" if unlimited else _size(soft),
                  "CUDA registration of pools needs more: ulimit -l unlimited (LimitMEMLOCK=infinity in a unit)"
                  if needs else "")
    try:
        text = pathlib.Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled").read_text(encoding="ascii")
        mode = text[text.index("[") + 1:text.index("]")]
        remedy = "" if mode not in ("never", "deny") else \
            "pools use 4 KiB pages: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"
        yield Finding(GOOD if not remedy else WARNING, "huge pages", f"shmem_enabled is {mode}", remedy)
    except (OSError, ValueError):
        yield Finding(WARNING, "huge pages", "this kernel does not say whether shared memory may use them")


def check_cuda() -> Iterator[Finding]:
    """The CUDA runtime."""
    runtime = cuda.find_runtime()
    yield Finding(GOOD, "CUDA", "no device or no runtime library: pools are not registered" if runtime is None
                  else f"{runtime._name}: pools are registered when a handler connects")


def examine(url: str | None = None) -> Iterator[Finding]:
    """Everything, in the order in which faults should be mended."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        check_python, check_module, check_library, check_group, lambda: check_daemon(url), check_memory, check_cuda]
    for check in checks:
        yield from check()


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m maru", description="maru's Python package")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser("doctor", help="say what is wrong and what to do about it")
    doctor.add_argument("--server-url", help="where the daemon should be; default: MARU_SERVER_URL, else the usual places")
    given = parser.parse_args(arguments)
    faults = 0
    for finding in examine(given.server_url):
        faults += finding.level == FAULT
        print(f"{finding.level:5}  {finding.subject:14} {finding.text}")
        if finding.remedy:
            print(f"       {'':14} -> {finding.remedy}")
    print(f"{faults} fault{'' if faults == 1 else 's'} found" if faults else "nothing is wrong")
    return 1 if faults else 0
