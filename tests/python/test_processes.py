"""Two processes, fork, multiprocessing with both start methods."""

import multiprocessing
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import MIB, configure

import harness
import maru

WRITER = """
import sys, maru
with maru.MaruHandler(maru.MaruConfig(server_url=sys.argv[1], pool_size="8M", chunk_size_bytes="1M")) as handler:
    handle = handler.alloc(1 << 20)
    handle.buf[:] = b"A" * (1 << 20)
    assert handler.store(key=42, handle=handle)
"""


def test_two_processes(domain, connect):
    ended = harness.run(sys.executable, "-X", "dev", "-W", "error", "-c", WRITER, f"unix://{domain.socket}")
    assert ended.code == 0, ended
    reader = connect(domain, chunk_size_bytes=1 * MIB, pool_size=1 * MIB)
    info = reader.retrieve(42)
    assert info.view.nbytes == 1 * MIB and bytes(info.view) == b"A" * (1 * MIB)


def test_a_killed_writer_leaves_its_objects(domain, connect):
    program = textwrap.dedent(WRITER) + "    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    program = program.replace("assert handler.store(key=42, handle=handle)",
                              "assert handler.store(key=42, handle=handle)\n    lost = handler.alloc(100)")
    assert harness.run(sys.executable, "-c", program, f"unix://{domain.socket}").code == -9
    harness.wait_until(domain.nothing_held, "what it had reserved came back")
    assert bytes(connect(domain).retrieve(42).view[:3]) == b"AAA"


def in_child(work):
    """Runs `work` in a forked child; what it raised or returned, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                text = f"returned {work()!r}"
            except BaseException as raised:
                text = f"{type(raised).__name__}: {raised}"
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        text = answers.read()
    assert os.waitpid(child, 0)[1] == 0, "the child died"
    return text


FORKED = {
    "alloc": lambda h: h.alloc(1), "store": lambda h: h.store("k", data=b"v"), "retrieve": lambda h: h.retrieve("k"),
    "exists": lambda h: h.exists("k"), "pin": lambda h: h.pin("k"), "unpin": lambda h: h.unpin("k"),
    "delete": lambda h: h.delete("k"), "batch_retrieve": lambda h: h.batch_retrieve(["k"] * 40),
    "batch_exists": lambda h: h.batch_exists(["k"]), "batch_pin": lambda h: h.batch_pin(["k"]),
    "match_prefix": lambda h: h.match_prefix(["k"]), "healthcheck": lambda h: h.healthcheck(),
    "connect": lambda h: h.connect(), "get_stats": lambda h: h.get_stats(),
    "get_buffer_view": lambda h: h.get_buffer_view(0, 0, 1),
}


@pytest.mark.parametrize("name", FORKED)
def test_operations_in_a_forked_child(handler, name):
    handler.store("k", data=b"v")
    assert in_child(lambda: FORKED[name](handler)).startswith("MaruForkedError")
    assert handler.exists("k"), "the parent goes on"


def test_free_in_a_forked_child(domain, handler):
    handle = handler.alloc(1)
    assert in_child(lambda: handler.free(handle)).startswith("MaruForkedError")
    assert domain.page_counts()["reserved"] == 1
    handler.free(handle)
    assert domain.page_counts()["reserved"] == 0


def test_the_other_end_of_a_fork(domain, handler):
    handler.store("k", data=b"value")
    view = handler.retrieve("k").view
    handle = handler.alloc(3)

    def child():
        assert not handler.connected
        handler.close()
        own = maru.MaruHandler(configure(domain, instance_id="child"))
        assert own.store("from the child", data=b"x") and bytes(own.retrieve("k").view) == b"value"
        own.close()
        return True

    assert in_child(child) == "returned True"
    assert bytes(view) == b"value" and handler.exists("from the child") and handler.healthcheck()
    assert handler.store("after", handle)


def test_a_child_that_drops_what_it_inherited(domain, handler):
    handler.store("k", data=b"value")
    kept = {"info": handler.retrieve("k"), "handle": handler.alloc(1)}
    buffer, view = kept["handle"].buf, kept["info"].view

    def child():
        kept.clear()
        import gc
        gc.collect()
        return True

    assert in_child(child) == "returned True"
    counts = domain.page_counts()
    assert counts["pinned"] == 1 and counts["reserved"] == 1, "the parent's lease and page stand"
    del buffer, view
    kept.clear()


def _store(url, number):
    with maru.MaruHandler(maru.MaruConfig(server_url=url, pool_size="4M", chunk_size_bytes="64K")) as handler:
        return handler.store(number, data=str(number).encode())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(domain, handler, method):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        stored = pool.starmap(_store, [(f"unix://{domain.socket}", number) for number in range(6)])
        pool.close()
        pool.join()
    assert stored == [True] * 6
    assert [bytes(info.view) for info in handler.batch_retrieve(range(6))] == [str(n).encode() for n in range(6)]


def test_a_handler_cannot_be_pickled(handler):
    import pickle
    with pytest.raises(TypeError):
        pickle.dumps(handler)


def test_many_processes_one_key(domain, connect):
    program = "import sys, maru\nh = maru.MaruHandler(maru.MaruConfig(server_url=sys.argv[1], pool_size='1M', " \
              "chunk_size_bytes=4096))\nprint(h.store('k', data=sys.argv[2].encode() * 1000))\nh.close()"
    started = [subprocess.Popen([sys.executable, "-c", program, f"unix://{domain.socket}", letter],
                                stdout=subprocess.PIPE, text=True) for letter in "abc"]
    assert [process.communicate(timeout=60)[0].strip() for process in started] == ["True"] * 3
    value = bytes(connect(domain).retrieve("k").view)
    assert len(value) == 1000 and len(set(value)) == 1
