"""Engines on a throw-away machine: the demonstration programs of tools/demo, built against what is installed there."""

import pathlib
import subprocess

DEMO = pathlib.Path(__file__).resolve().parents[2] / "tools" / "demo"
AS_ENGINE = ["setpriv", "--reuid=engine", "--regid=engine", "--init-groups"]


def compile_inside(machine, source, program):
    inside = machine.path("/tmp") / pathlib.Path(source).name
    inside.write_bytes(pathlib.Path(source).read_bytes())
    compiler = "g++ -std=c++20" if inside.suffix == ".cpp" else "gcc -std=c11 -D_GNU_SOURCE"
    machine.run("sh", "-c", f"{compiler} -O2 -Wall -Wextra -Werror /tmp/{inside.name} -o /tmp/{program} "
                            "$(pkg-config --cflags --libs maru-client)")


class Talker:
    """A demonstration engine: commands in, lines out."""

    def __init__(self, machine, *command):
        self.process = machine.start(*AS_ENGINE, *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.first = self.hear()

    def hear(self):
        lines = []
        for line in self.process.stdout:
            if line == "ok\n":
                return lines
            assert not line.startswith("failed:"), line
            lines.append(line.strip())
        raise AssertionError(f"ended: {lines}")

    def ask(self, text):
        print(text, file=self.process.stdin, flush=True)
        return self.hear()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0


def share_chunks(machine, meanwhile=lambda: None):
    """Two engines share chunks; `meanwhile` runs between what the writer stores and what the reader verifies."""
    for name in ("prefill", "decode"):
        compile_inside(machine, DEMO / f"{name}.cpp", name)
    writer = Talker(machine, "/tmp/prefill", "--layers", "4")
    writer.ask("store 0 8")
    reader = Talker(machine, "/tmp/decode")
    reader.ask(writer.first[0])  # seed SEED
    meanwhile()
    for key in writer.ask("keys 0 8"):
        reader.ask(key)
    assert "8 of 8 chunks are present" in reader.ask("match")[0]
    assert "verified every byte of 8 chunks" in reader.ask("verify")[0]
    reader.end()
    writer.end()
