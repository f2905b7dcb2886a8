"""Registration with CUDA, against a runtime library in the test's hand."""

import pytest

import maru
from maru import cuda


class Runtime:
    """Does what libcudart does, and remembers it."""

    _name = "libcudart in the test's hand"

    def __init__(self, fails_at=None):
        self.registered, self.errors_cleared, self.fails_at = {}, 0, fails_at

    def cudaHostRegister(self, address, length, flags):
        assert flags.value == 1
        if self.fails_at is not None and len(self.registered) >= self.fails_at:
            return 2
        self.registered[address.value] = length.value
        return 0

    def cudaHostUnregister(self, address):
        return 0 if self.registered.pop(address.value, None) else 1

    def cudaGetLastError(self):
        self.errors_cleared += 1
        return 0


@pytest.fixture
def runtime(monkeypatch):
    one = Runtime()
    monkeypatch.setattr(cuda, "find_runtime", lambda: one)
    return one


def test_each_pool_is_registered_and_given_back(domain, connect, runtime):
    handler = connect(domain)
    pool = handler._pool(0)
    assert runtime.registered == {pool["address"]: pool["bytes"]} and pool["bytes"] == 64 << 20
    handler.close()
    assert runtime.registered == {}


def test_large_pools_go_in_pieces(domain, handler):
    runtime = Runtime()
    done = cuda.register(handler, runtime, piece_bytes=24 << 20)
    assert list(runtime.registered.values()) == [24 << 20, 24 << 20, 16 << 20]
    begin = handler._pool(0)["address"]
    assert list(runtime.registered) == [begin, begin + (24 << 20), begin + (48 << 20)]
    cuda.unregister(done)
    assert runtime.registered == {}
    assert cuda.PIECE_BYTES_MAX == 64 << 30


def test_a_failure_is_one_warning(domain, connect, runtime, messages):
    runtime.fails_at = 0
    handler = connect(domain)
    assert handler.store("k", data=b"v")
    assert len([text for text in messages() if "cudaHostRegister" in text]) == 1
    assert runtime.errors_cleared == 1, "or the program's next CUDA call would report it"


def test_without_a_driver(monkeypatch):
    monkeypatch.setattr(cuda, "_driver_is_there", lambda: False)
    assert cuda.find_runtime() is None
    assert cuda.register(maru.MaruHandler(maru.MaruConfig(auto_connect=False))) is None
