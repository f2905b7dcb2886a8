"""Views where engines use them, and how long they last."""

import gc
import subprocess
import sys
import warnings

import numpy
import pytest
import torch
from conftest import KIB, configure

import harness
import maru



VALUE = bytes(range(256)) * 16


@pytest.fixture
def stored(handler):
    handler.store("k", data=VALUE)
    return handler


def test_memoryview_bytes_slices(stored):
    info = stored.retrieve("k")
    view = info.view
    assert view.nbytes == len(view) == len(VALUE) and view.format == "B" and view.c_contiguous and view.ndim == 1
    assert bytes(view) == view.tobytes() == VALUE and bytes(view[10:20]) == VALUE[10:20]
    assert view.cast("I")[1] == int.from_bytes(VALUE[4:8], sys.byteorder)
    with pytest.raises(TypeError):
        view[:1] = b"x"


def test_numpy_of_a_retrieved_object(stored):
    array = numpy.frombuffer(stored.retrieve("k").view, dtype=numpy.uint8)
    gc.collect()
    assert array.tobytes() == VALUE and not array.flags.writeable
    with pytest.raises(ValueError):
        array[0] = 1
    assert numpy.frombuffer(stored.retrieve("k"), dtype=numpy.uint32).shape == (1024,)


def test_torch_of_a_retrieved_object(stored):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")  # torch cannot mark tensors read-only
        tensor = torch.frombuffer(stored.retrieve("k").view, dtype=torch.uint8)
    gc.collect()
    assert bytes(tensor.tolist()) == VALUE


def test_numpy_and_torch_write_a_page(handler):
    handle = handler.alloc(4 * KIB)
    numpy.frombuffer(handle.buf, dtype=numpy.uint32)[:] = 7
    torch.frombuffer(handle.buf, dtype=torch.int32)[512:] = 9
    handler.store("k", handle)
    found = numpy.frombuffer(handler.retrieve("k").view, dtype=numpy.uint32)
    assert (found[:512] == 7).all() and (found[512:] == 9).all()


def test_dlpack_of_a_page(handler):
    handle = handler.alloc(4 * KIB)
    array = numpy.frombuffer(handle.buf, dtype=numpy.float32)
    tensor = torch.from_dlpack(array)
    tensor.fill_(1.5)
    assert (array == 1.5).all()
    back = numpy.from_dlpack(torch.frombuffer(handle.buf, dtype=torch.float32))
    assert (back == 1.5).all()
    handler.store("k", handle)
    assert numpy.frombuffer(handler.retrieve("k").view, dtype=numpy.float32).sum() == 1536


@pytest.mark.parametrize("make", [
    lambda: numpy.arange(1000, dtype=numpy.float32).reshape(10, 100),
    lambda: numpy.asfortranarray(numpy.arange(1000, dtype=numpy.float32).reshape(10, 100)),
    lambda: torch.arange(1000, dtype=torch.float32).reshape(10, 100),
    lambda: torch.arange(1000, dtype=torch.bfloat16),
])
def test_data_of_arrays_and_tensors(handler, make):
    data = make()
    assert handler.store("k", data=data)
    raw = bytes(handler.retrieve("k").view)
    if isinstance(data, torch.Tensor):
        assert raw == bytes(data.contiguous().view(torch.uint8).flatten().tolist())
    else:
        assert raw == data.tobytes(order="A")


def test_data_that_is_not_contiguous(handler):
    with pytest.raises(ValueError, match="contiguous"):
        handler.store("k", data=torch.arange(100).reshape(10, 10).t())
    with pytest.raises((ValueError, BufferError)):
        handler.store("k", data=numpy.arange(100)[::2])
    with pytest.raises(ValueError, match="meta"):
        handler.store("k", data=torch.empty(4, device="meta"))
    assert not handler.exists("k")


# -- how long they last


def test_a_view_outlives_its_info_and_its_handler(domain, handler):
    handler.store("k", data=VALUE)
    array = numpy.frombuffer(handler.retrieve("k").view, dtype=numpy.uint8)
    handler.delete("k")
    handler.close()
    gc.collect()
    assert array.tobytes() == VALUE
    assert domain.clients() and domain.page_counts()["pinned"] + domain.page_counts()["retired"] >= 1
    del array
    harness.wait_until(lambda: not domain.clients() and domain.nothing_held(), "everything went with the last view")


def test_a_collected_handler_leaves_views_alive(domain):
    handler = maru.MaruHandler(configure(domain))
    handler.store("k", data=VALUE)
    views = [handler.retrieve("k").view for _ in range(3)]
    buffer = handler.alloc(16).buf
    del handler
    gc.collect()
    buffer[:] = b"still writable!!"
    assert all(bytes(view) == VALUE for view in views)
    other = maru.MaruHandler(configure(domain))
    for number in range(3000):
        other.store(number, data=b"x" * 16)
    assert bytes(buffer) == b"still writable!!" and all(bytes(view) == VALUE for view in views)
    other.close()
    del views, buffer
    harness.wait_until(domain.nothing_held, "nothing is held")


def test_pages_without_buffers_go_back_at_close_and_others_stay(domain, handler):
    kept, dropped, stored = handler.alloc(8), handler.alloc(8), handler.alloc(8)
    buffer, stored_buffer = kept.buf, stored.buf
    handler.store("k", stored)
    handler.close()
    counts = domain.page_counts()
    assert counts["reserved"] == 1 and counts["pinned"] == 1
    for handle in (kept, dropped, stored):
        with pytest.raises(maru.MaruUnavailableError):
            handler.free(handle)
    with pytest.raises(ValueError):
        dropped.buf
    buffer[:] = b"kept by."
    del buffer
    del kept, dropped, stored
    counts = domain.page_counts()
    assert counts["reserved"] == 0 and counts["pinned"] == 1
    del stored_buffer
    harness.wait_until(domain.nothing_held, "nothing is held")
    handler.connect()
    assert handler.exists("k")


def test_a_region_view_outlives_the_handler(domain, handler):
    region = handler.get_owned_region_ids()[0]
    wide = handler.get_buffer_view(region, 0, 3 * 64 * KIB)
    handler.close()
    gc.collect()
    wide[5] = 9
    assert wide[5] == 9 and domain.clients()
    del wide
    harness.wait_until(lambda: not domain.clients(), "the client has gone")


def test_views_survive_a_killed_daemon(domain, handler):
    handler.store("k", data=VALUE)
    view = handler.retrieve("k").view
    domain.kill()
    assert bytes(view) == VALUE
    handler.close()
    assert bytes(view) == VALUE
    del view
    domain.start()


EXIT = """
import os, sys, maru
handler = maru.MaruHandler(maru.MaruConfig(server_url=sys.argv[1], pool_size="1M", chunk_size_bytes=4096))
handler.store("k", data=b"v" * 4096)
info, handle = handler.retrieve("k"), handler.alloc(64)
class Late:
    def __del__(self, view=info.view, buffer=handle.buf, write=os.write):
        buffer[:] = b"z" * 64
        write(1, b"late" if bytes(view) == b"v" * 4096 else b"wrong")
late = Late()
late.cycle = late
maru.kept = [handler, info, handle]
"""


@pytest.mark.parametrize("how", ["", "handler.close()", "del handler", "maru.cycle = [handler]; maru.cycle.append(maru.cycle)"])
def test_views_at_the_end_of_the_interpreter(domain, how):
    ended = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", EXIT + how, f"unix://{domain.socket}"],
                           capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "late", "")
    harness.wait_until(domain.nothing_held, "nothing is held")
