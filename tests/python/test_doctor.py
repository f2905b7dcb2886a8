"""python -m maru doctor: finds faults, says what to do, and its exit status tells."""

import os
import pathlib
import sys

import pytest

import harness


def doctor(*arguments, environment=None, module_path=(), preexec=None):
    search = os.pathsep.join([*map(str, module_path), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    return harness.run(sys.executable, "-X", "dev", "-W", "error", "-m", "maru", "doctor", *arguments, preexec=preexec,
                       environment={"PYTHONPATH": search, **(environment or {})})


def test_nothing_is_wrong(domain):
    ended = doctor(environment={"MARU_SOCKET": str(domain.socket)})
    assert ended.code == 0, ended
    for subject in ("python", "module", "library", "socket", "versions", "daemon", "/dev/shm", "RLIMIT_MEMLOCK", "huge pages", "CUDA"):
        assert any(line.split(None, 1)[1].startswith(subject) for line in ended.text.splitlines() if line.startswith(("ok", "warn"))), subject
    assert not domain.clients(), "it leaves nothing behind"


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_server_url(domain, how):
    url = f"unix://{domain.socket}"
    ended = doctor("--server-url", url) if how == "argument" else doctor(environment={"MARU_SERVER_URL": url})
    assert ended.code == 0 and str(domain.socket) in ended.text, ended


def test_no_socket(tmp_path):
    ended = doctor(environment={"MARU_SOCKET": str(tmp_path / "none.sock")})
    assert ended.code == 1 and "none.sock" in ended.text and "start the daemon" in ended.text, ended


def test_a_dead_daemon(domain):
    domain.kill()
    ended = doctor(environment={"MARU_SOCKET": str(domain.socket)})
    assert ended.code == 1 and "FAULT  daemon" in ended.text, ended
    domain.start()


def test_a_file_that_is_no_socket(tmp_path):
    (tmp_path / "file").write_text("")
    ended = doctor(environment={"MARU_SOCKET": str(tmp_path / "file")})
    assert ended.code == 1 and "not a socket" in ended.text, ended


def test_a_daemon_that_does_not_answer(domain):
    domain.pause()
    try:
        ended = doctor(environment={"MARU_SOCKET": str(domain.socket)})
    finally:
        domain.resume()
    assert ended.code == 1 and "FAULT  daemon" in ended.text, ended


def test_another_host():
    ended = doctor("--server-url", "tcp://192.0.2.1:5555")
    assert ended.code == 1 and "192.0.2.1" in ended.text, ended


def test_another_module_on_the_path(domain, tmp_path):
    other = tmp_path / "other"
    (other / "maru").mkdir(parents=True)
    (other / "maru" / "__init__.py").write_text("")
    own = os.environ.get("PYTHONPATH", "")
    ended = harness.run(sys.executable, "-m", "maru", "doctor", environment={
        "MARU_SOCKET": str(domain.socket), "PYTHONPATH": os.pathsep.join(filter(None, [own, str(other)]))})
    assert "another module 'maru'" in ended.text and str(other) in ended.text, ended


def test_the_distribution_of_the_other_project(domain, tmp_path):
    info = tmp_path / "maru-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: maru\nVersion: 2.0\n")
    ended = doctor(environment={"MARU_SOCKET": str(domain.socket)}, module_path=[tmp_path])
    assert ended.code == 1 and "pip uninstall maru" in ended.text, ended


def test_a_user_who_may_not(domain):
    if os.geteuid() != 0:
        pytest.fail("this test needs root, to become somebody else")
    os.chmod(domain.folder, 0o755)
    for folder in pathlib.Path(__file__).parents:
        if not folder.stat().st_mode & 0o001:
            pytest.fail(f"{folder} cannot be entered by others")
    ended = doctor(environment={"MARU_SOCKET": str(domain.socket), "HOME": "/"},
                   preexec=lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534)))
    assert ended.code == 1 and "FAULT  socket" in ended.text and "usermod" in ended.text, ended


@pytest.mark.parametrize("arguments", [[], ["nurse"], ["doctor", "--unknown"]])
def test_wrong_use(arguments):
    assert harness.run(sys.executable, "-m", "maru", *arguments).code == 2


def test_the_other_project_is_recognised(tmp_path):
    """Our package over the other project's files, and the other project under our re-exports."""
    (tmp_path / "maru").mkdir()
    (tmp_path / "maru" / "__init__.py").write_text("version = 2\n")
    own = pathlib.Path(sys.modules["maru"].__file__).parents[1]
    for module in ("maru_common", "maru_handler", "maru_handler.memory", "maru_handler.plugin"):
        ended = harness.run(sys.executable, "-c", f"import {module}", environment={
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(own)])})
        assert ended.code == 1 and "another project" in ended.err, (module, ended)
    import shutil
    broken = tmp_path / "broken" / "maru"
    shutil.copytree(own / "maru", broken, ignore=lambda folder, names: [n for n in names if ".so" in n])
    ended = harness.run(sys.executable, "-c", "import maru", environment={"PYTHONPATH": str(broken.parent)})
    assert ended.code == 1 and "another project" in ended.err, ended
