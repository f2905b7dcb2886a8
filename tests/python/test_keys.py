"""Keys: str, bytes and int; what no key can be."""

import pytest

from maru import _maru

NUMBERS = [0, 1, 42, -1, 2**63 - 1, -2**63, 2**63, 2**64 - 1, -2**63 - 1, 2**256, -2**256]


def test_42_and_its_text_are_different(handler):
    assert handler.store(42, data=b"number") and handler.store("42", data=b"text")
    assert bytes(handler.retrieve(42).view) == b"number" and bytes(handler.retrieve("42").view) == b"text"
    assert handler.delete(42) and not handler.exists(42) and handler.exists("42")


def test_text_is_its_utf8(handler):
    assert handler.store("schlüssel/層", data=b"v")
    assert bytes(handler.retrieve("schlüssel/層".encode()).view) == b"v"


def test_numbers_do_not_collide(handler):
    for number in NUMBERS:
        assert handler.store(number, data=str(number).encode())
    for number in NUMBERS:
        assert bytes(handler.retrieve(number).view) == str(number).encode()
    views = handler.batch_retrieve(NUMBERS)
    assert [bytes(info.view) for info in views] == [str(number).encode() for number in NUMBERS]


@pytest.mark.parametrize("number", [0, 42, -1, 2**63 - 1, -2**63])
def test_maructl_spells_numbers_the_same(domain, handler, number):
    handler.store(number, data=b"v")
    assert domain.maructl("exists", f"int:{number}").code == 0
    assert domain.maructl("get", f"int:{number}").out == b"v"


def test_maructl_finds_text_and_bytes(domain, handler):
    handler.store("text", data=b"1")
    handler.store(b"\x00\xff", data=b"2")
    assert domain.maructl("get", "text").out == b"1" and domain.maructl("get", "hex:00ff").out == b"2"
    assert domain.maructl("put", "from-maructl", "-", given=b"3").code == 0
    assert bytes(handler.retrieve("from-maructl").view) == b"3"


CALLS = ["retrieve", "exists", "pin", "unpin", "delete", "delete_status"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("key", ["", b"", "x" * 4097, b"x" * 4097])
def test_empty_and_long_keys(handler, call, key):
    with pytest.raises(ValueError, match="key"):
        getattr(handler, call)(key)
    with pytest.raises(ValueError, match="key"):
        handler.store(key, data=b"v")
    with pytest.raises(ValueError, match="key"):
        handler.batch_exists(["good", key])


def test_the_longest_key(handler):
    assert handler.store("x" * 4096, data=b"v") and handler.exists("x" * 4096)
    assert not handler.exists("x" * 4095)


@pytest.mark.parametrize("key", [None, 1.0, ("a",), bytearray(b"k"), memoryview(b"k"), object()])
def test_other_types(handler, key):
    for call in (handler.retrieve, handler.exists, lambda k: handler.store(k, data=b"v"), lambda k: handler.batch_pin([k])):
        with pytest.raises(TypeError, match="str, bytes or int"):
            call(key)


def test_lone_surrogates(handler):
    with pytest.raises(UnicodeEncodeError):
        handler.exists("\ud800")


@pytest.mark.parametrize("keys", ["text", b"bytes"])
def test_one_key_for_a_batch(handler, keys):
    with pytest.raises(TypeError, match="list"):
        handler.batch_exists(keys)


def test_the_bytes_of_keys():
    assert _maru.key_bytes("ä") == "ä".encode() and _maru.key_bytes(b"x") == b"x"
    assert _maru.key_bytes(1) == b"\0i\1" + bytes(7)
    assert len({_maru.key_bytes(number) for number in NUMBERS}) == len(NUMBERS)
