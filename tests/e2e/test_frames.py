"""Frames that no client sends: the daemon answers or hangs up, and goes on serving."""

import os
import random
import struct

import pytest
import raw
from harness import FULL, INVALID, KIB, MIB, VERSION, descriptors_of, wait_until


@pytest.fixture(autouse=True)
def goes_on_serving(domain):
    """Before and after each test here the daemon serves, and holds no descriptor more than before."""
    engine = domain.engine(pool=4 * MIB, page=64 * KIB)
    engine.good("put", key="before", id=1, size=1000)
    descriptors = descriptors_of(domain.process.pid)
    yield
    assert engine.good("ping").took_ms < 2000
    assert engine.good("get", key="before").right
    late = domain.engine(pool=4 * MIB, page=64 * KIB)
    late.good("put", key="after", id=2, size=1000)
    late.good("close")
    wait_until(lambda: descriptors_of(domain.process.pid) <= descriptors, "the daemon closed what it was sent")


BROKEN = {
    "another magic": raw.frame(raw.PING, magic=0x12345678),
    "text instead of frames": b"GET / HTTP/1.1\r\nHost: maru\r\n\r\n",
    "another protocol version": raw.frame(raw.PING, version=99),
    "type 0": raw.frame(0),
    "unknown type": raw.frame(999),
    "a body over the limit": raw.frame(raw.HELLO, announced=(4 << 20) + 1),
    "a body of 4 GiB": raw.frame(raw.HELLO, announced=0xFFFFFFFF),
    "an answer instead of a question": raw.frame(raw.WELCOME, b"\0" * 64),
    "pong": raw.frame(raw.PONG),
    "hello without body": raw.frame(raw.HELLO),
    "hello cut short": raw.frame(raw.HELLO, raw.hello()[:-1]),
    "hello with bytes left over": raw.frame(raw.HELLO, raw.hello() + b"\0"),
    "hello whose text is longer than its frame": raw.frame(raw.HELLO, struct.pack("<I", 0xFFFFFFFF) + b"abc"),
    "hello with an empty name": raw.frame(raw.HELLO, raw.hello(instance_id="")),
    "hello with a name of 128 bytes": raw.frame(raw.HELLO, raw.hello(instance_id="x" * 128)),
    "hello with a name of 3 MiB": raw.frame(raw.HELLO, raw.hello(instance_id="x" * (3 << 20))),
    "hello with a page of 2^63 bytes": raw.frame(raw.HELLO, raw.hello(page_bytes=1 << 63)),
    "hello with a page of 3 bytes less than 2^64": raw.frame(raw.HELLO, raw.hello(page_bytes=(1 << 64) - 3)),
    "claim before hello": raw.frame(raw.CLAIM, raw.claim(65536, 1 << 20)),
    "give back before hello": raw.frame(raw.GIVE_BACK, struct.pack("<II", 1, 1)),
    "give back with 2^32-1 regions": raw.frame(raw.GIVE_BACK, struct.pack("<I", 0xFFFFFFFF)),
    "resume of a client that never was": raw.frame(raw.RESUME, b"\7" * 16 + struct.pack("<IIQQQ", 5, 1, 1, 1, 1)),
    "resume of slot 2^32-1": raw.frame(raw.RESUME, b"\7" * 16 + struct.pack("<IIQQQ", 0xFFFFFFFF, 1, 1, 1, 1)),
    "admin without body": raw.frame(raw.ADMIN),
    "admin that is no command": raw.frame(raw.ADMIN, raw.admin("explode")),
    "admin with arguments that are no JSON": raw.frame(raw.ADMIN, raw.admin("keys", "{{{{")),
    "admin with deep JSON": raw.frame(raw.ADMIN, raw.admin("keys", "[" * 100_000)),
    "admin with a command that is no text": raw.frame(raw.ADMIN, raw.admin(b"\xff\0\xfe")),
    "admin with a cursor of 2^64-1": raw.frame(raw.ADMIN, raw.admin("keys", '{"cursor": 18446744073709551615}')),
    "admin with a negative cursor": raw.frame(raw.ADMIN, raw.admin("regions", '{"cursor": -1}')),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_answered_or_hung_up(domain, data):
    with raw.Peer(domain.socket) as peer:
        peer.send(data)
        answer = peer.receive()
        if answer is not None and answer[0] != raw.ADMIN_ANSWER:
            code, text = raw.failure(answer)
            assert code < 0 and text


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_answered_or_hung_up_after_hello(domain, data):
    """The same from a client that was let in."""
    with raw.Peer(domain.socket) as peer:
        assert peer.ask(raw.HELLO, raw.hello())[0] == raw.WELCOME
        peer.send(data)
        answer = peer.receive()
        if answer is not None and answer[0] not in (raw.ADMIN_ANSWER, raw.DONE, raw.CLAIMED):
            code, text = raw.failure(answer)
            assert code < 0 and text
    wait_until(lambda: "raw" not in domain.clients(), "the raw client's slot is free")


def test_the_answer_names_what_was_wrong(domain):
    with raw.Peer(domain.socket) as peer:
        peer.send(raw.frame(raw.PING, version=99))
        code, text = raw.failure(peer.receive())
        assert code == VERSION and "99" in text and "1" in text


def test_hello_twice(domain):
    with raw.Peer(domain.socket) as peer:
        assert peer.ask(raw.HELLO, raw.hello())[0] == raw.WELCOME
        answer = peer.ask(raw.HELLO, raw.hello())
        assert answer is None or raw.failure(answer)[0] < 0


def test_ping_is_answered_with_its_number(domain):
    with raw.Peer(domain.socket) as peer:
        peer.ask(raw.HELLO, raw.hello())
        assert peer.ask(raw.PING, request=4711)[:2] == (raw.PONG, 4711)


def test_frames_back_to_back(domain):
    """Many questions in one write: an answer to each, in order."""
    with raw.Peer(domain.socket) as peer:
        peer.ask(raw.HELLO, raw.hello())
        assert peer.send(b"".join(raw.frame(raw.PING, request=number) for number in range(500)))
        assert [peer.receive()[1] for _ in range(500)] == list(range(500))


def test_slow_drip(domain):
    """A byte at a time is as good as a whole frame, and blocks nobody."""
    with raw.Peer(domain.socket) as peer:
        for byte in raw.frame(raw.HELLO, raw.hello()):
            assert peer.send(bytes([byte]))
        assert peer.receive()[0] == raw.WELCOME


def test_connect_and_say_nothing(domain):
    """Fifty that say nothing, fifty that stop in the middle of a frame: the others are served."""
    silent = [raw.Peer(domain.socket) for _ in range(100)]
    for peer in silent[:50]:
        peer.send(raw.frame(raw.HELLO, raw.hello())[:20])
    engine = domain.engine(pool=4 * MIB, page=64 * KIB)
    assert engine.good("ping").took_ms < 2000
    assert domain.status()
    engine.good("close")
    for peer in silent:
        peer.close()


def test_asks_and_never_reads(domain):
    """Whoever does not take its answers is cut off, not collected for without end."""
    with raw.Peer(domain.socket) as peer:
        peer.ask(raw.HELLO, raw.hello())
        peer.socket.setblocking(False)
        pings = raw.frame(raw.PING) * 1000
        try:
            for _ in range(2000):
                peer.socket.send(pings)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        assert domain.status()
        resident = int(open(f"/proc/{domain.process.pid}/statm", encoding="ascii").read().split()[1]) * 4096
        assert resident < 512 * MIB


@pytest.mark.parametrize("count", [1, 3, 66, 67, 200])
def test_descriptors_that_nobody_asked_for(domain, count):
    """Descriptors beside a frame that takes none: refused, and closed."""
    sent = [os.open("/dev/null", os.O_RDONLY) for _ in range(count)]
    before = descriptors_of(domain.process.pid)
    with raw.Peer(domain.socket) as peer:
        peer.send(raw.frame(raw.HELLO, raw.hello()), sent)
        peer.receive()
    for number in sent:
        os.close(number)
    wait_until(lambda: descriptors_of(domain.process.pid) <= before, "the descriptors are closed")


def test_descriptors_in_the_middle_of_a_frame(domain):
    data = raw.frame(raw.HELLO, raw.hello())
    with raw.Peer(domain.socket) as peer:
        peer.send(data[:10])
        peer.send(data[10:], [0])
        answer = peer.receive()
        assert answer is None or raw.failure(answer)[0] < 0


def test_regions_of_others_cannot_be_given_back(domain):
    with raw.Peer(domain.socket) as peer:
        peer.ask(raw.HELLO, raw.hello())
        for region in (0, 1, 2, 0xFFFFFFFF):
            answer = peer.ask(raw.GIVE_BACK, struct.pack("<II", 1, region))
            assert answer is None or answer[0] in (raw.DONE, raw.FAILURE)
    assert domain.clients()["engine1"]["regions"] > 0


@pytest.mark.parametrize("page, size", [(0, 1), (1, 1), (3, 1 << 62), (65536, (1 << 64) - 1), ((1 << 64) - 1, 1)])
def test_claims_of_impossible_sizes(domain, page, size):
    with raw.Peer(domain.socket) as peer:
        peer.ask(raw.HELLO, raw.hello())
        answer = peer.ask(raw.CLAIM, raw.claim(page, size))
        assert answer is not None
        assert answer[0] == raw.CLAIMED or raw.failure(answer)[0] in (INVALID, FULL, -2)


def test_noise(domain):
    """Random bytes and random damage to good frames, from a seed that is in the name of what fails."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    noise = random.Random(seed)
    good = [raw.frame(raw.HELLO, raw.hello()), raw.frame(raw.CLAIM, raw.claim(65536, 1 << 20)),
            raw.frame(raw.ADMIN, raw.admin("status")), raw.frame(raw.GIVE_BACK, struct.pack("<II", 1, 1)),
            raw.frame(raw.PING), raw.frame(raw.BYE)]
    for _ in range(300):
        with raw.Peer(domain.socket) as peer:
            data = bytearray(b"".join(noise.choices(good, k=noise.randrange(1, 5))))
            for _ in range(noise.randrange(1, 6)):
                data[noise.randrange(len(data))] = noise.randrange(256)
            peer.send(bytes(data))
    wait_until(lambda: set(domain.clients()) == {"engine1"}, "the slots of the noisy ones are free")


def test_bye_ends_a_client(domain):
    with raw.Peer(domain.socket) as peer:
        peer.ask(raw.HELLO, raw.hello())
        peer.ask(raw.BYE)
        wait_until(lambda: "raw" not in domain.clients(), "bye frees the slot")


def test_welcome_brings_the_memory(domain):
    """The hand-over: a descriptor for the lock and one for each pool, nothing else."""
    with raw.Peer(domain.socket) as peer:
        assert peer.ask(raw.HELLO, raw.hello())[0] == raw.WELCOME
        assert len(peer.descriptors) == 2
        pool = peer.descriptors[1]
        assert os.fstat(pool).st_size == 64 * MIB
