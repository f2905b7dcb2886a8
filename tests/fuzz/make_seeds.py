#!/usr/bin/python3
"""Writes the inputs that a target's corpus begins with: make_seeds.py FOLDER makes FOLDER/TARGET/NAME.

They reach by intent what chance would take long to find: every message, every table, every kind of call. What lies in
corpus/ is the smallest set that covers the same as these and all that was found since (run --merge).
"""

import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

MAGIC, VERSION = 0x5552414D, 1
TYPES = range(1, 16)  # wire::Type


def half(value):
    return struct.pack("<H", value)


def word(value):
    return struct.pack("<I", value)


def long_word(value):
    return struct.pack("<Q", value)


def text(value):
    return word(len(value)) + value


def frame(kind, request, body=b""):
    return struct.pack("<IHHII", MAGIC, VERSION, kind, request, len(body)) + body


# -- daemon_frames: a flag, then steps of (kind, peer, ...) -------------------------------------------------------

CONNECT = bytes([0, 0])
HELLO, RESUME, CLAIM, GIVE_BACK, BYE, PING, ODD_ADMIN, ADMIN, NAMESPACE = 32, 35, 37, 40, 42, 43, 44, 45, 47


def step(kind, *fields, peer=0):
    return bytes([kind, peer]) + b"".join(bytes([f]) if isinstance(f, int) else f for f in fields)


def daemon_frames():
    hello = step(HELLO, 1, 0)
    reader = step(HELLO, 1, 1)
    holder = step(HELLO, 2, 2, 2)  # 8 KiB pages
    claim = step(CLAIM, 3, 2, 16)
    give = step(GIVE_BACK, 4, 2, 0, 1)
    yield "life", b"\0" + CONNECT + holder + claim + give + step(PING, 5) + step(BYE, 6)
    yield "namespaces", b"\0" + CONNECT + reader + CONNECT + step(HELLO, 7, 3, 1, peer=1) + step(CLAIM, 3, 1, 1, peer=1)
    yield "resume", b"\0" + CONNECT + hello + CONNECT + step(RESUME, 9, 0, peer=1) + step(PING, 1, peer=1)
    yield "resume_foreign", b"\0" + CONNECT + hello + CONNECT + step(RESUME, 9, 200, 3, word(1), peer=1)
    yield "gone", b"\0" + CONNECT + holder + claim + step(194, 0) + step(195, half(500)) + step(195, half(2000))
    yield "pools", b"\0" + CONNECT + hello + step(160, 14, 7, 0, 0)
    yield "late", b"\0" + CONNECT + step(195, half(6000))
    yield "administrator", b"\0" + CONNECT + b"".join(step(ADMIN, n, n) for n in range(10))
    yield "arguments", b"\0" + CONNECT + b"".join(step(ADMIN, n, 10 * n + 6) for n in range(8))
    stored = CONNECT + holder + claim
    yield "changes", b"\0" + stored + b"".join(step(ADMIN, n, 200 + n) for n in range(10)) + step(PING, 3)
    made, spend = CONNECT + step(NAMESPACE, 1, 3, 0), step(195, half(100))
    used = made + step(HELLO, 2, 3, 2) + step(CLAIM, 3, 2, 16)
    yield "namespace_life", b"\0" + used + step(NAMESPACE, 4, 3, 3) + spend * 3
    yield "namespace_rm", b"\0" + made + b"".join(step(NAMESPACE, n, 3, 2 + 4 * n) + spend for n in range(3))
    yield "namespace_fields", b"\0" + made + b"".join(step(NAMESPACE, n, 3, n) + spend for n in range(40))
    yield "namespace_default", b"\0" + CONNECT + b"".join(step(NAMESPACE, n, 130, n) + spend for n in range(4))
    yield "namespace_name", b"\0" + CONNECT + step(NAMESPACE, 1, 200, 3, b"\xff a", 0)
    yield "any_argument", b"\0" + CONNECT + step(ADMIN, 1, 246, 5, b"limit", 3, b"1e9")
    check = bytes([0xC5]) + CONNECT + step(ADMIN, 1, 7) + step(PING, 2)
    yield "check", check + bytes([0, 32 - sum(check) % 32])  # may_be_slow in daemon_frames.cpp
    yield "odd_command", b"\0" + CONNECT + step(ODD_ADMIN, 1, 4, b"\xff\x00ab", 3, b"[[[")
    yield "two_pieces", b"\0" + CONNECT + step(193, 0, 1, 0, 7, half(100))
    yield "descriptors", b"\0" + CONNECT + step(197, 11, 1, 1, 1)
    yield "two_frames", b"\0" + CONNECT + step(199, 11, 1, 11, 2)
    yield "not_read", b"\0" + CONNECT + step(196) + hello + step(PING, 2) + step(196) + step(198)
    for kind in TYPES:
        body = {1: text(b"raw") + text(b"") + long_word(0) * 5, 3: bytes(16) + word(1) * 2 + long_word(0) * 3,
                4: long_word(4096) * 2, 6: word(1) + word(0), 10: text(b"ping") + text(b"")}.get(kind, b"")
        yield f"raw_{kind}", b"\0" + CONNECT + step(160, kind, 7, len(body), body, 0)
        whole = frame(kind, 7, body)
        yield f"bytes_{kind}", b"\0" + CONNECT + step(192, half(len(whole)), whole)
    yield "all_slots", b"\0" + b"".join(CONNECT + step(HELLO, 1, 2, 1, peer=n) for n in range(7))


# -- client_frames: stream pieces, or a script of answers ----------------------------------------------------------


def client_frames():
    pool = bytes(16) + word(3) + text(b"p") + text(b"") + long_word(4096) * 3
    welcome = bytes(16) + word(1) * 3 + long_word(4096) * 3 + text(b"v") + word(1) + pool
    bodies = {2: welcome, 5: word(1) + word(0) + word(1) + long_word(4096) + text(b"w"), 9: b"", 11: text(b"{}"),
              12: word(0xFFFFFFFF) + text(b"no"), 13: b"", 15: word(1) + pool}
    for kind, body in bodies.items():
        whole = frame(kind, 1, body)
        descriptors = {2: 2, 15: 1}.get(kind, 0)
        yield f"piece_{kind}", bytes([0, 1, descriptors]) + half(len(whole)) + whole
        yield f"ask_{kind}", bytes([0, 0, descriptors]) + half(len(whole)) + whole
    yield "many_descriptors", bytes([0, 1, 79]) + half(16) + frame(9, 1)
    yield "split", bytes([0, 1, 0]) + half(7) + frame(9, 1)[:7] + bytes([1]) + half(9) + frame(9, 1)[7:]
    yield "right", bytes([1, 0])
    yield "no_claim", bytes([1, 32])
    for place in range(6):
        for kind in (1, 2, 3, 4):
            yield f"answer_{place}_{kind}", bytes([1, 0]) + bytes(place) + bytes([kind, 3])
        for how in range(8):
            yield f"bent_{place}_{how}", bytes([1, 0]) + bytes(place) + bytes([5, how]) + bytes(range(3, 11))
    for kind in range(9):
        yield f"lock_{kind}", bytes([1, 0, 5, 5, 0, kind])
        yield f"pool_{kind}", bytes([1, 0, 5, 5, 1, kind])
    for at in (0, 1, 4, 8, 16, 30, 127, 700, 2000, 5000):
        yield f"damage_{at}", bytes([1, 129]) + half(at) + long_word(0xFFFF0000FFFF)


# -- texts ---------------------------------------------------------------------------------------------------------


def config_text():
    sample = (ROOT / "conf/maru.toml").read_text()
    keys = "\n".join(line.lstrip("#") for line in sample.splitlines() if not line.startswith("# ")) + "\n"
    yield "every_key", b"t" + keys.encode()
    pool = b'[[pool]]\nkind = "shm"\nsize = "64MiB"\n'
    yield "two_pools", b"t" + pool + b'[[pool]]\nname = "b"\nkind = "shm"\nsize = 1048576\nreserve = false\n'
    yield "control_pool", b't[control]\npool = "b"\nmin_page = 65536\n' + pool + pool.replace(b"kind", b'name="b"\nkind', 1)
    name_space = b'[[namespace]]\nname = "a"\nquota = "1G"\nuids = ["root", 7]\ngids = [8]\n'
    yield "namespaces", b"t" + pool + name_space + b'readonly_gids = ["root"]\n'
    yield "namespace_mistakes", b't[[namespace]]\nquota = -1\nuids = ["?", -1, true]\n[[namespace]]\nname = "a b"\n'
    yield "mistakes", b't[daemon]\nsockte = 1\nsocket_mode = 0o777\n[evicton]\nx = 1\n[remote]\nlisten = 1\n'
    yield "not_toml", b"t[[[\n= ="
    yield "nested", b"ta = " + b"[" * 300 + b"]" * 300
    for n, value in enumerate((b"shm:a:1GiB", b"shm:a", b"numa:1:4G", b"shm:a.b-c_d:1.5T", b":::", b"shm::4K")):
        yield f"pool_{n}", b"p" + value
    for n, value in enumerate((b"4GiB", b"1.5 TiB", b"100MB", b"9223372036854775807", b"8E", b"500ms", b"5m", b"1h", b"10d",
                               b"0.0000001s", b"1e5", b"-1", b"1.999999999999P")):
        yield f"quantity_{n}", b"q" + value


def key_text():
    for n, value in enumerate((b"plain", b"hex:6b6579", b"hex:zz", b"hex:6", b"int:42", b"int:-9223372036854775808",
                               b"int:9223372036854775808", b"int:", b"hex:", b"\0i12345678", "grün €𝄞".encode(),
                               b"\xc0\x80\xed\xa0\x80", "‮x".encode(), b"a\\b\x7f")):
        yield f"key_{n}", value


def http_head():
    host = b"Host: here\r\n"
    scrape = b"GET /metrics HTTP/1.1\r\n" + host + b"User-Agent: Prometheus/2.42.0\r\nAccept: */*;q=0.1\r\n\r\n"
    for piece in (0, 1, 3, 16, 255):
        yield f"scrape_{piece}", bytes([piece]) + scrape
    for n, method in enumerate((b"HEAD", b"POST", b"get", b"G\x01T", b"")):
        yield f"method_{n}", b"\x07" + method + b" /metrics HTTP/1.1\r\n" + host + b"\r\n"
    for n, target in enumerate((b"/", b"/metrics?a=b", b"http://here/metrics", b"/a b", b"\xff", b"")):
        yield f"target_{n}", b"\x07GET " + target + b" HTTP/1.1\r\n" + host + b"\r\n"
    for n, version in enumerate((b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2", b"HTTP/", b"ICY/1.1", b"HTTP/1.1\0")):
        yield f"version_{n}", b"\x07GET /metrics " + version + b"\r\n" + host + b"\r\n"
    for n, field in enumerate((host, b"no colon\r\n", b" folded: x\r\n", b"Space : x\r\n", b"X: \x02\r\n", b"X: a\nY: b\r\n",
                               b"Content-Length: 0\r\n", b"Content-Length: 5\r\n", b"transfer-ENCODING: chunked\r\n", b":\r\n",
                               b"X: y\r\n" * 64)):
        yield f"field_{n}", b"\x1fGET /metrics HTTP/1.1\r\n" + host + field + b"\r\n"
    yield "no_host", b"\x1fGET /metrics HTTP/1.1\r\n\r\n"
    yield "no_end", b"\x1fGET /metrics HTTP/1.1\r\n" + host
    yield "endless_field", b"\xffGET /metrics HTTP/1.1\r\nX: " + b"x" * 8192
    yield "endless_line", b"\xff" + b"G" * 8300
    yield "tls", b"\x07\x16\x03\x01\x02\x00"
    yield "nul", b"\x01GE\0T /metrics HTTP/1.1\r\n\r\n"


# -- memory --------------------------------------------------------------------------------------------------------

SUPERBLOCK_WORDS = range(0, 64)  # those that a format fills, of four bytes each


def pool_head():
    yield "as_formatted", bytes([1]) + half(0)
    yield "without_tables", bytes([3]) + half(0)
    yield "too_short", bytes([1]) + half(32)
    for at in SUPERBLOCK_WORDS:
        for value in (0, 0xFFFFFFFF, 0x1000):
            yield f"word_{at}_{value:x}", bytes([1]) + half(0) + half(at) + word(value)
    yield "wrong_checksum", bytes([0]) + half(0) + half(9) + word(7)


TABLES = 13  # in the order of parts_of in damaged_region.cpp


def damaged_region():
    everything = b"".join(bytes([96 + 2 * n, n, n, n, n]) for n in range(18))
    daemon = b"".join(bytes([230 + n, 3]) for n in range(10))
    yield "sound", everything + daemon
    for table in range(TABLES):
        for entry in (1, 3):
            for place in range(8):
                yield (f"table_{table}_{entry}_{place}",
                       bytes([3, table]) + half(entry) + bytes([place, 0x5A]) + everything + daemon)
    yield "overflow_circle", bytes([2, 2]) + half(64) + bytes([7, 1]) + everything + daemon


# -- calls ---------------------------------------------------------------------------------------------------------


def client_calls():
    def call(kind, client=0, key=0, *fields):
        return bytes([kind, client + 2 * key]) + b"".join(bytes([f]) if isinstance(f, int) else f for f in fields)

    put = [call(0, 0, key, half(100)) for key in range(12)]
    yield "put_get", b"".join(put) + b"".join(call(2, 1, key) for key in range(12))
    yield "views", put[0] + call(3, 1, 0) + call(6, 0, 0) + call(15, 0, 0, 0) + call(0, 0, 0, half(50)) + call(5, 0, 0, 0)
    yield "pages", call(7, 0, 0, half(300)) + call(8, 0, 0, 0, half(200)) + call(9, 0, 0, 0)
    yield "pins", put[1] + call(10, 1, 1) + call(6, 0, 1) + call(11, 1, 1) + call(6, 0, 1) + call(17, 0, 1)
    yield "full", b"".join(call(7, n % 2, 0, half(10)) for n in range(40)) + put[0]
    yield "stale", put[0] + call(3) + call(5, 0, 0, 0) + call(14, 0, 0, 0) + call(14, 1, 0, 3) + call(14, 0, 0, 2) * 3
    yield "bad", b"".join(call(16, n % 2, n // 2) for n in range(12))
    yield "rest", put[2] + call(13, 0, 0, *range(6), 0) + call(13, 1, 0, *range(6), 1) + call(18, 0, 0, *range(8)) + call(255)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for target in (daemon_frames, client_frames, config_text, http_head, key_text, pool_head, damaged_region, client_calls):
        folder = pathlib.Path(sys.argv[1]) / target.__name__
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in target():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
