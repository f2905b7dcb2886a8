"""Connecting: to nobody, to somebody silent, as one too many, in a crowd."""

import contextlib
import resource
import socket
import time

import pytest
import raw
from harness import DENIED, FULL, INVALID, KIB, MIB, OK, SLOWER, TIMEOUT, TOO_LARGE, UNAVAILABLE, wait_until


def test_no_daemon_at_all(make_domain):
    """LMCache 4670: a connect hung for 127 seconds. Here it says at once that nobody is there, and where it looked."""
    domain = make_domain(start=False)
    engine = domain.engine(connect=False)
    refused = engine("connect", server=domain.socket, timeout=1000)
    assert refused.status == UNAVAILABLE and not refused.client
    assert str(domain.socket) in refused.detail
    assert refused.took_ms < 1500 * SLOWER


def test_a_socket_that_nobody_serves(make_domain):
    """A socket file left behind by a daemon that was killed."""
    domain = make_domain()
    domain.kill()
    assert domain.socket.exists()
    engine = domain.engine(connect=False)
    refused = engine("connect", server=domain.socket, timeout=1000)
    assert refused.status == UNAVAILABLE and str(domain.socket) in refused.detail
    assert refused.took_ms < 1500 * SLOWER


@pytest.mark.parametrize("server", ["/nowhere/at/all.sock", "/dev/null", "/tmp", "x" * 200, "unix://relative"])
def test_a_path_that_is_no_socket(make_domain, server):
    engine = make_domain(start=False).engine(connect=False)
    refused = engine("connect", server=server, timeout=500)
    assert refused.status in (UNAVAILABLE, INVALID) and not refused.client and refused.detail


def test_somebody_who_never_answers(make_domain):
    domain = make_domain(start=False)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(domain.socket))
        silent.listen()
        refused = domain.engine(connect=False)("connect", server=domain.socket, timeout=700)
    domain.socket.unlink()
    assert refused.status == TIMEOUT and "700" in refused.detail, refused
    assert 600 <= refused.took_ms < 2000 * SLOWER


def test_a_full_backlog(make_domain):
    """Somebody who does not even accept: the time-out covers that too."""
    domain = make_domain(start=False)
    with contextlib.ExitStack() as stack:
        deaf = stack.enter_context(socket.socket(socket.AF_UNIX))
        deaf.bind(str(domain.socket))
        deaf.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(str(domain.socket))
        refused = domain.engine(connect=False)("connect", server=domain.socket, timeout=700)
    domain.socket.unlink()
    assert refused.status in (TIMEOUT, UNAVAILABLE)
    assert refused.took_ms < 2000 * SLOWER


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", raw.frame(raw.DONE), raw.frame(raw.WELCOME),
                                    raw.frame(raw.WELCOME, b"\xff" * 500), raw.frame(raw.WELCOME, announced=1 << 31)])
def test_somebody_who_talks_nonsense(make_domain, answer):
    domain = make_domain(start=False)
    engine = domain.engine(connect=False)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(domain.socket))
        server.listen()
        server.settimeout(5 * SLOWER)
        engine.send("connect", server=domain.socket, timeout=1000)
        with server.accept()[0] as peer:
            peer.recv(1 << 16)
            peer.sendall(answer)
            refused = engine.answer()
    domain.socket.unlink()
    assert refused.status < 0 and not refused.client and refused.detail


def test_a_daemon_that_is_stopped(domain):
    engine = domain.engine(connect=False)
    domain.pause()
    refused = engine("connect", server=domain.socket, timeout=700)
    assert refused.status == TIMEOUT and refused.took_ms < 2000 * SLOWER
    domain.resume()
    wait_until(lambda: domain.serves() and not domain.clients(), "nothing is left of the client that gave up")
    engine.connect()


@pytest.mark.parametrize("arguments", [{"id": "x" * 128}, {"page": (1 << 64) - 1}, {"pool": (1 << 64) - 1}])
def test_options_out_of_range(domain, arguments):
    engine = domain.engine(connect=False)
    reply = engine("connect", server=domain.socket, **arguments)
    assert reply.status in (INVALID, TOO_LARGE) and reply.detail and not reply.client


def test_more_than_is_free_is_claimed_as_far_as_it_goes(domain):
    engine = domain.engine(pool=900 * MIB, page=64 * KIB)
    assert 32 * MIB < engine("stats").held_bytes < 64 * MIB
    engine.good("put", key="k", id=1, size=100)


def test_more_clients_than_max_clients(make_domain):
    domain = make_domain(settings={"control": {"max_clients": 6}})
    engines = []
    while True:
        engine = domain.engine(connect=False)
        reply = engine("connect", "no_claim", server=domain.socket, id=f"client{len(engines)}")
        if reply.status != OK:
            break
        engines.append(engine)
        assert len(engines) < 10
    assert len(engines) >= 4
    assert reply.status == FULL and "max_clients" in reply.detail and "6" in reply.detail, reply
    assert all(other.good("ping") for other in engines)
    engines[0].good("close")
    wait_until(lambda: engine("connect", "no_claim", server=domain.socket).status == OK, "a slot is free again")
    engines[1].kill()
    last = domain.engine(connect=False)
    wait_until(lambda: last("connect", "no_claim", server=domain.socket).status == OK, "a dead client's slot is free")


def test_more_connections_than_descriptors(make_domain):
    """The daemon may open 40 files and 100 connect: some are served, none hangs the daemon, and when they are gone
    everybody is served again."""
    domain = make_domain(start=False)
    domain.start(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    engine = domain.engine("no_claim")
    peers = []
    for _ in range(100):
        with contextlib.suppress(OSError):
            peers.append(raw.Peer(domain.socket))
    assert len(peers) > 10
    for peer in peers:
        peer.send(raw.frame(raw.PING))
    # Whoever was let in before goes on.
    assert engine.good("ping", within_s=10)
    spent = process_seconds(domain.process.pid)
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() > begun + 1, "a second passes")
    assert process_seconds(domain.process.pid) - spent < 0.7, "the daemon spins on what it cannot accept"
    for peer in peers:
        peer.close()
    wait_until(lambda: domain.maructl("--json", "status").code == 0, "the daemon accepts again")
    late = domain.engine("no_claim")
    late.good("ping")
    late.good("close")


def process_seconds(pid):
    fields = open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_fifty_connect_while_the_dead_are_swept(make_domain):
    """iceoryx2 927 and 1578: clean-up raced with whoever was just starting, a client that connected was taken for
    dead. Here fifty connect while the sweeps of others run; each of them works."""
    domain = make_domain(pool="128MiB")
    doomed = [domain.engine(pool=2 * MIB, page=4 * KIB) for _ in range(4)]
    for engine in doomed:
        engine.good("put_many", prefix=f"d{engine.name}-", count=300, size=100)
        engine.good("match", prefix=f"d{engine.name}-", count=300, v="m")
    host = [domain.engine(connect=False) for _ in range(5)]
    for round_number in range(10):
        if round_number % 3 == 0:
            doomed.pop().kill()
        for number, engine in enumerate(host):
            engine.send("connect", "no_claim", server=domain.socket, c=f"c{round_number}",
                        id=f"crowd-{number}-{round_number}", page=4 * KIB)
        assert [engine.answer().status for engine in host] == [OK] * 5
    for number, engine in enumerate(host):
        for round_number in range(10):
            engine.good("put", c=f"c{round_number}", key=f"{number}-{round_number}", id=1, size=100)
            engine.good("ping", c=f"c{round_number}")
    wait_until(lambda: len(domain.clients()) == 50, "fifty live, the dead are gone")
    for engine in host:
        for round_number in range(10):
            engine.good("close", c=f"c{round_number}")


def test_disconnect_time_is_independent_of_the_objects_of_others(make_domain):
    """arrow 2015: disconnecting took longer the more objects others had. The dead client's own things count only."""
    domain = make_domain(pool="256MiB", settings={"control": {"max_objects": 60_000}})

    def seconds_until_gone():
        engine = domain.engine(pool=2 * MIB, page=4 * KIB)
        engine.good("put", key=f"own-{engine.name}", id=1, size=10)
        for number in range(50):
            engine.good("alloc", size=1, p=f"p{number}")
        begun = time.monotonic()
        engine.kill()
        wait_until(lambda: engine.name not in domain.clients(), "the dead client's slot is free")
        return time.monotonic() - begun

    few = min(seconds_until_gone() for _ in range(3))
    other = domain.engine(pool=200 * MIB, page=4 * KIB)
    assert other.good("put_many", prefix="k", count=40_000, size=16, within_s=60).stored == 40_000
    many = min(seconds_until_gone() for _ in range(3))
    assert many < few * 5 + 0.25, (few, many)


def test_disconnect_harms_nobody(domain):
    """arrow 1299: one client's disconnect aborted objects of others that were being written."""
    writer = domain.engine(pool=4 * MIB, page=64 * KIB)
    writer.good("alloc", size=60_000)
    writer.good("write", key="k", id=5, size=60_000)
    for _ in range(3):
        other = domain.engine(pool=4 * MIB, page=64 * KIB)
        other.good("alloc", size=100)
        other.kill()
    wait_until(lambda: len(domain.clients()) == 1, "the others are gone")
    assert writer("exists", key="k").status != OK, "visible before it was stored"
    writer.good("store", key="k", size=60_000)
    assert writer.good("get", key="k").right
    writer.good("free")


def test_namespaces_never_meet(domain):
    one = domain.engine(pool=4 * MIB, page=64 * KIB, namespace="one")
    two = domain.engine(pool=4 * MIB, page=64 * KIB, namespace="two")
    one.good("put", key="k", id=1, size=100)
    assert two("exists", key="k").status != OK
    two.good("put", key="k", id=2, size=100)
    assert one.good("get", key="k").id == 1
    assert two.good("get", key="k").id == 2


def test_more_namespaces_than_max_namespaces(make_domain):
    domain = make_domain(settings={"control": {"max_namespaces": 3}})
    refused = None
    for number in range(5):
        reply = domain.engine(connect=False)("connect", "no_claim", server=domain.socket, namespace=f"space{number}")
        if reply.status != OK:
            refused = reply
            break
    assert refused is not None and refused.status in (FULL, DENIED) and "max_namespaces" in refused.detail, refused
    domain.engine("no_claim", namespace="space0").good("ping")
