"""Two machines on one memory."""

import pathlib
import subprocess

import pytest
from harness import MIB
from machine import Device

HERE = pathlib.Path(__file__).parent


@pytest.fixture(name="memory", scope="module")
def fixture_memory(make_memory):
    return make_memory()


@pytest.fixture(name="hosts", scope="module")
def fixture_hosts(make_guests, memory):
    """Two guests that see the same memory as /dev/dax0.0."""
    return make_guests({"devices": [Device("hmem", memory)], "name": name} for name in ("a", "b"))


@pytest.fixture(name="words", scope="module")
def fixture_words(tmp_path_factory):
    program = tmp_path_factory.mktemp("words") / "words"
    subprocess.run(["cc", "-O2", "-static", "-o", program, HERE / "words.c"], check=True, timeout=60)
    return program


def test_each_sees_what_the_other_wrote(hosts, memory):
    a, b = hosts
    write = "import mmap, os; m = mmap.mmap(os.open('/dev/dax0.0', os.O_RDWR), 2 << 20); m[4096:4108] = b'written by a'"
    read = "import mmap, os; m = mmap.mmap(os.open('/dev/dax0.0', os.O_RDWR), 2 << 20); print(m[4096:4108])"
    a.good(["/usr/bin/python3", "-S", "-c", write])
    assert b.good(["/usr/bin/python3", "-S", "-c", read]) == "b'written by a'\n"
    assert memory.read(4096, 12) == b"written by a"


def test_no_update_of_a_word_is_lost(hosts, memory, words):
    """What maru's fast path rests on; emulation breaks it when a guest can have one processor only (machine.py)."""
    rounds = 5_000_000
    memory.write(0, bytes(4096))
    running = [host.popen([words, "/dev/dax0.0", rounds]) for host in hosts]
    retries = []
    for process in running:
        ended = process.communicate(within_s=300)
        assert ended.code == 0, ended
        retries.append(int(ended.text))
    assert int.from_bytes(memory.read(0, 8), "little") == 2 * rounds
    assert int.from_bytes(memory.read(64, 8), "little") == 2 * rounds
    assert sum(retries) > 0, "the two never met"
