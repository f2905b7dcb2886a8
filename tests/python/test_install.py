"""What pip builds: a wheel that works in a virtual environment, with every Python that is there, and plug-ins."""

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import zipfile

import pytest

import harness

ROOT = pathlib.Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def clean_environment():
    ours = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONDEVMODE", "PYTHONWARNINGS")  # no matter of pip's and meson's
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "PIP_ROOT_USER_ACTION": "ignore"}


def run(*command, within_s=600, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=within_s,
                          env={**clean_environment(), **environment}, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".git", "build*", "__pycache__"))
    run(*PIP, "wheel", "--no-deps", "--wheel-dir", folder, source)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment with the wheel installed; its python."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "-q", "--no-index", wheel)
    return folder / "bin/python"


PROGRAM = """
import sys, maru
assert "/venv" in maru.__file__ or "site-packages" in maru.__file__, maru.__file__
with maru.MaruHandler(maru.MaruConfig(server_url=sys.argv[1], pool_size="1M", chunk_size_bytes=4096)) as handler:
    handle = handler.alloc(5)
    handle.buf[:] = b"value"
    assert handler.store(sys.version, handle)
    view = handler.retrieve(sys.version).view
    assert bytes(view) == b"value" and handler.batch_exists([sys.version] * 40) == [True] * 40
    assert sys.getrefcount(view) < 10
print(bytes(view).decode(), "%d.%d" % sys.version_info[:2])
"""


def test_the_wheel(wheel):
    assert wheel.name.startswith("maru_kvcache-") and "-cp311-abi3-" in wheel.name, wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert packages == {"maru", "maru_common", "maru_handler"}, "nothing else is installed"
    assert [name for name in names if ".so" in name] == ["maru/_maru.abi3.so"], "the library is in the module"
    assert "maru/py.typed" in names and "maru/_maru.pyi" in names and "maru_handler/memory/types.py" in names


def test_the_module_exports_nothing_else(environment):
    place = run(environment, "-c", "import maru._maru; print(maru._maru.__file__)").strip()
    lines = run("nm", "-D", "--defined-only", place).splitlines()
    assert [line.split()[-1] for line in lines if not line.split()[-1].startswith("_Z")] == ["PyInit__maru"]
    undefined = run("nm", "-D", "--undefined-only", place)
    assert "maru_connect" not in undefined
    assert "not found" not in run("ldd", place)


def test_in_a_virtual_environment(domain, environment):
    assert run(environment, "-X", "dev", "-W", "error", "-c", PROGRAM, f"unix://{domain.socket}").startswith("value 3.")
    report = run(environment, "-m", "maru", "doctor", MARU_SOCKET=str(domain.socket))
    assert "built into" in report and "nothing is wrong" in report


def other_pythons():
    """Interpreters of other versions, 3.11 and newer, that this machine has."""
    found = {}
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *map(str, pathlib.Path.home().glob(".pyenv/versions/*/bin"))]
    for folder in folders:
        for minor in range(12, 16):
            program = pathlib.Path(folder) / f"python3.{minor}"
            if minor in found or not program.exists() or "shims" in folder:
                continue
            if subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0:
                found[minor] = program
    return list(found.values())


def test_other_versions_of_python_load_the_same_module(domain, wheel, tmp_path):
    """One binary for all; which versions were there is in the output."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site-packages")
    loaded = [run(python, "-c", PROGRAM, f"unix://{domain.socket}", PYTHONPATH=str(tmp_path / "site-packages")).split()[1]
              for python in [sys.executable, *other_pythons()]]
    print("loaded by CPython", ", ".join(loaded))
    assert loaded[0] == "%d.%d" % sys.version_info[:2] and len(set(loaded)) == len(loaded)


PLUGIN = {
    "pyproject.toml": """
        [build-system]
        requires = ["setuptools"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "maru-test-plugin"
        version = "1"
        [project.entry-points."maru.handler_plugins"]
        counting = "maru_installed_plugin:Counting"
        broken = "maru_installed_plugin.broken:Plugin"
        [tool.setuptools]
        packages = ["maru_installed_plugin"]
    """,
    "maru_installed_plugin/__init__.py": """
        class Counting:
            retrieved = 0
            def on_batch_retrieve(self, handler, keys, batch_resp):
                Counting.retrieved += sum(entry.found for entry in batch_resp.entries)
            def contribute_stats(self):
                return {"retrieved": Counting.retrieved}
    """,
    "maru_installed_plugin/broken.py": "import a_module_that_is_not_there\n",
}

USE_PLUGIN = """
import sys, maru
with maru.MaruHandler(maru.MaruConfig(server_url=sys.argv[1], pool_size="1M", chunk_size_bytes=4096)) as handler:
    handler.store("k", data=b"v")
    handler.batch_retrieve(["k", "absent", "k"])
    print(handler.get_stats()["plugins"])
"""


def test_a_plugin_that_pip_installed(domain, environment, tmp_path):
    for name, text in PLUGIN.items():
        path = tmp_path / "plugin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    run(environment.parent / "pip", "install", "-q", tmp_path / "plugin")
    url = f"unix://{domain.socket}"
    assert run(environment, "-c", USE_PLUGIN, url) == "{'Counting': {'retrieved': 2}}\n"
    assert run(environment, "-c", USE_PLUGIN, url, MARU_PLUGINS="broken") == "{}\n"
    said = subprocess.run([environment, "-c", USE_PLUGIN, url], capture_output=True, text=True, timeout=60,
                          env=clean_environment(), check=True).stderr
    assert "broken" in said and "a_module_that_is_not_there" in said
    run(environment.parent / "pip", "uninstall", "-q", "-y", "maru-test-plugin")
    assert run(environment, "-c", USE_PLUGIN, url) == "{}\n"
    harness.wait_until(lambda: not domain.clients(), "the clients have gone")
