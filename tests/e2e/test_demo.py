"""The programs that users meet first: the README's examples and the two engines of tools/quickstart."""

import os
import pathlib
import re
import subprocess

import pytest

import harness

DEMO = harness.BUILD / "tools/demo"


class Demo:
    """One of maru-prefill and maru-decode: lines in, lines out up to "ok" or "failed"."""

    def __init__(self, program, domain):
        self.process = subprocess.Popen([DEMO / program, "--socket", domain.socket, *self.options(program)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.greeting = self.hear()

    @staticmethod
    def options(program):
        return ["--layers", "1"] if program == "maru-prefill" else []

    def hear(self):
        lines = []
        for line in self.process.stdout:
            lines.append(line.strip())
            if lines[-1] == "ok" or lines[-1].startswith("failed"):
                return lines
        raise AssertionError(f"the program ended with {self.process.wait(10)}: {lines}")

    def __call__(self, *lines):
        """The answers to all lines, the last one's last line being "ok" or "failed: ..."."""
        answers = []
        for line in lines:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answers += self.hear()
        return answers

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(20 * harness.SLOWER) == 0
        self.process.stdout.close()


@pytest.fixture(name="pair")
def fixture_pair(domain):
    programs = [Demo("maru-prefill", domain), Demo("maru-decode", domain)]
    yield programs
    for program in programs:
        program.end()


def tell_keys(prefill, decode, first, count):
    keys = [line for line in prefill(f"keys {first} {count}") if line.startswith("key ")]
    assert len(keys) == count
    assert decode(*keys) == ["ok"] * count
    return keys


def test_decode_verifies_what_prefill_stored_in_the_same_pages(pair):
    prefill, decode = pair
    decode(prefill.greeting[0])
    tell_keys(prefill, decode, 0, 3)
    assert prefill("store 0 3")[-1] == "ok"

    assert "3 of 3 chunks" in decode("match")[0]
    verified = decode("verify")
    assert "verified every byte of 3 chunks" in verified[0] and "3.0 MiB" in verified[0] and verified[-1] == "ok"
    there, here = prefill("where 1")[0], decode("where 1")[0]
    assert there.split(", at ")[0] == here.split(", at ")[0]


def test_decode_notices_bytes_of_another_computation(pair):
    prefill, decode = pair
    seed = int(prefill.greeting[0].split()[1])
    decode(f"seed {seed + 1}")
    tell_keys(prefill, decode, 0, 1)
    prefill("store 0 1")

    assert decode("verify") == ["failed: chunk 0 differs at byte 0"]


def test_decode_says_where_the_prefix_ends(pair):
    prefill, decode = pair
    tell_keys(prefill, decode, 0, 3)
    prefill("store 0 2")

    answer = decode("match")
    assert "2 of 3 chunks" in answer[0] and answer[-1] == "failed: the prefix ends before the last key"


def test_prefill_goes_on_after_a_restart_of_the_daemon(domain, pair):
    prefill, decode = pair
    decode(prefill.greeting[0])
    tell_keys(prefill, decode, 0, 2)
    prefill("store 0 1")
    domain.kill()
    assert decode("seed " + prefill.greeting[0].split()[1]) == ["ok"]
    domain.start()

    assert prefill("reconnect")[-1] == "ok"
    assert prefill("store 1 1")[-1] == "ok"
    assert "verified every byte of 2 chunks" in decode("verify")[0]


@pytest.mark.parametrize("line", ["", "store", "store x y", "where", "dance"])
def test_an_unknown_command_is_answered(pair, line):
    for program in pair:
        assert program(line)[-1].startswith("failed: unknown command")


@pytest.mark.parametrize("program", ["maru-prefill", "maru-decode", "maru-example-c", "maru-example-cpp"])
def test_without_a_daemon_the_reason_is_clear(tmp_path, program):
    nobody = str(tmp_path / "nobody.sock")
    arguments = ["--socket", nobody] if "example" not in program else []
    ended = harness.run(DEMO / program, *arguments, environment={"MARU_SOCKET": nobody})
    assert ended.code == 1 and "nobody.sock" in ended.err


@pytest.mark.parametrize("program", ["maru-example-c", "maru-example-cpp"])
def test_examples_of_the_readme(domain, program):
    environment = {"MARU_SOCKET": os.fspath(domain.socket)}
    for _ in range(2):  # the second time the key is there already
        ended = harness.run(DEMO / program, environment=environment)
        assert ended.code == 0, ended.err
        assert ended.text.startswith("4096 bytes in region") and "the first is 42" in ended.text


def test_the_configuration_of_the_readme_is_valid(tmp_path):
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    config = tmp_path / "maru.toml"
    config.write_text(blocks[0])
    ended = harness.run(harness.MARU, "--config", config, "--check-config")
    assert ended.code == 0, ended.err
    assert "64.0 GiB" in ended.text and "/run/maru/maru.sock" in ended.text
