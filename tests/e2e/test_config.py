"""The daemon's command line and config: errors that name the line, exit codes, one daemon for a domain."""

import signal

import pytest
from harness import KIB, MARU, MIB, run, wait_until

BAD_CONFIG, OWNED = 2, 3

ERRORS = {
    "unknown key": ('[daemon]\nsockt = "/x"\n', ["sockt", "socket", ":2"]),
    "unknown section": ("[deamon]\n", ["deamon", ":1", "did you mean [daemon]?"]),
    "unknown key of a pool": ('[[pool]]\nkind = "shm"\nsise = "1GiB"\n', ["sise", "size", ":3"]),
    "not TOML": ("[daemon\n", [":1"]),
    "wrong type": ("[daemon]\nsocket = 5\n", ["socket", ":2"]),
    "bad size": ('[[pool]]\nkind = "shm"\nsize = "lots"\n', ["lots", ":3"]),
    "negative size": ('[[pool]]\nkind = "shm"\nsize = "-1GiB"\n', ["-1GiB"]),
    "bad duration": ('[control]\nkey_pin_ttl = "soon"\n', ["soon", ":2"]),
    "unknown kind": ('[[pool]]\nkind = "floppy"\nsize = "1GiB"\n', ["floppy", "shm"]),
    "no size": ('[[pool]]\nkind = "shm"\n', ["size"]),
    "bad level": ('[daemon]\nlog_level = "loud"\n', ["loud", "debug"]),
    "bad policy": ('[eviction]\npolicy = "random"\n', ["random", "clock"]),
    "metrics by name": ('[metrics]\nlisten = "localhost:9464"\n', ["localhost:9464", "127.0.0.1:9464", ":2"]),
    "metrics without a port": ('[metrics]\nlisten = "127.0.0.1"\n', ["metrics.listen", ":2"]),
    "metrics with a strange port": ('[metrics]\nlisten = "127.0.0.1:70000"\n', ["70000", ":2"]),
    "a network address for clients": ('[listen]\ntcp = "[::]:9860"\n', ["listen.tcp", "not supported by this version", ":2"]),
    "a memory node": ('[remote]\nlisten = "[::]:9861"\n', ["remote.listen", "not supported by this version", ":2"]),
    "two pools of one name": ('[[pool]]\nname = "a"\nkind = "shm"\nsize = "64MiB"\n' * 2, ["a"]),
    "too many clients": ("[control]\nmax_clients = 1000000\n", ["max_clients", "1000000"]),
    "zero clients": ("[control]\nmax_clients = 0\n", ["max_clients"]),
    "control pool that is not there": ('[control]\npool = "z"\n[[pool]]\nname = "a"\nkind = "shm"\nsize = "64MiB"\n',
                                       ["z"]),
}


@pytest.mark.parametrize("text, says", ERRORS.values(), ids=ERRORS.keys())
@pytest.mark.parametrize("option", ["run", "check"])
def test_config_errors(tmp_path, text, says, option):
    config = tmp_path / "bad.toml"
    config.write_text(text)
    socket = tmp_path / "m.sock"
    ended = run(MARU, "--config", config, "--socket", socket, *(["--check-config"] if option == "check" else []),
                within_s=10)
    assert ended.code == BAD_CONFIG, ended
    said = ended.err + ended.text
    assert all(word in said for word in says) and "bad.toml" in said, said
    assert not socket.exists()


COMMAND_LINES = [["--unknown"], ["--pool"], ["--pool", "floppy:x:1GiB"], ["--pool", "shm:x:lots"], ["--config"],
                 ["--config", "/nowhere/maru.toml"], ["--log-level", "loud"], ["stray"]]


@pytest.mark.parametrize("words", COMMAND_LINES, ids=[" ".join(words) for words in COMMAND_LINES])
def test_command_line_errors(tmp_path, words):
    ended = run(MARU, "--socket", tmp_path / "m.sock", *words, within_s=10)
    assert ended.code == BAD_CONFIG and (ended.err + ended.text).strip(), ended


def test_an_address_to_listen_on_is_not_supported_yet(tmp_path):
    ended = run(MARU, "--socket", tmp_path / "m.sock", "--listen", "[::]:9860", within_s=10)
    assert ended.code == BAD_CONFIG and "--listen [::]:9860 is not supported by this version" in ended.err, ended
    assert not (tmp_path / "m.sock").exists()


def test_version_and_help():
    assert run(MARU, "--version").code == 0 and "0.1" in run(MARU, "--version").text
    shown = run(MARU, "--help")
    assert shown.code == 0
    for option in ("--config", "--check-config", "--pool", "--socket", "--format", "--remove"):
        assert option in shown.text


def test_check_config_touches_nothing(make_domain):
    domain = make_domain(start=False)
    ended = run(MARU, "--config", domain.config, "--check-config", within_s=10)
    assert ended.code == 0, ended
    assert str(domain.socket) in ended.text and "64.0 MiB" in ended.text and "maru.toml" in ended.text
    assert not domain.pool_path.exists() and not domain.socket.exists()
    assert sorted(path.name for path in domain.folder.iterdir()) == ["maru.toml"]


def test_one_line_when_it_starts(domain):
    """Socket, pool, size and coherence on the line that says that it is ready."""
    lines = [line for line in domain.log_tail().splitlines() if str(domain.socket) in line and "64.0 MiB" in line]
    assert lines and any("local" in line for line in lines), domain.log_tail()


def test_second_daemon_on_one_domain(make_domain, tmp_path):
    domain = make_domain()
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=10)
    for socket in (domain.socket, tmp_path / "other.sock"):
        second = run(MARU, "--config", domain.config, "--socket", socket, within_s=10)
        assert second.code == OWNED, second
        assert str(domain.process.pid) in second.err or str(domain.pool_path) in second.err or \
            str(domain.socket) in second.err, second.err
    assert domain.socket.exists() and not (tmp_path / "other.sock").exists()
    assert engine.good("ping") and engine.good("get", key="k").right


def test_second_daemon_on_one_socket(make_domain):
    """Another domain, the same socket: the first keeps it."""
    first, second = make_domain(), make_domain(start=False)
    second.expect_clean = False
    ended = run(MARU, "--config", second.config, "--socket", first.socket, within_s=10)
    assert ended.code == OWNED, ended
    assert str(first.socket) in ended.err
    assert first.status()


def test_a_file_in_the_place_of_the_socket_is_kept(make_domain):
    domain = make_domain(start=False)
    domain.socket.write_text("not a socket")
    domain.expect_clean = False
    ended = run(MARU, "--config", domain.config, within_s=10)
    assert ended.code in (1, BAD_CONFIG, OWNED) and str(domain.socket) in ended.err, ended
    assert domain.socket.read_text() == "not a socket"


def test_signals(domain):
    """SIGHUP and SIGUSR1 end nothing; SIGTERM ends in order while a client keeps reading."""
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=10)
    engine.good("retrieve", key="k")
    before = len(domain.log_tail(1 << 20))
    for number in (signal.SIGHUP, signal.SIGUSR1):
        domain.process.send_signal(number)
    wait_until(lambda: len(domain.log_tail(1 << 20)) > before, "SIGUSR1 writes to the log")
    assert engine.good("ping")
    assert domain.stop() == 0
    assert not domain.socket.exists()
    assert engine.good("verify").right and engine.good("get", key="k").right
    engine.good("release")


@pytest.mark.parametrize("number", [2, 15])
def test_orderly_stop_has_exit_code_0(domain, number):
    domain.process.send_signal(number)
    assert domain.process.wait(10) == 0


def test_socket_mode(make_domain):
    assert make_domain().socket.stat().st_mode & 0o777 == 0o660
