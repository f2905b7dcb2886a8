"""A socket that systemd holds and passes."""

import os
import socket
import subprocess

from harness import KIB, MARU, MIB


def test_a_passed_socket_is_served_and_left(make_domain):
    """mitsuhiko/systemfd 20: a socket passed by systemd was unlinked by the daemon that got it. Twice started and
    stopped over the same one: its file stays, and what came in between waits for the next daemon."""
    domain = make_domain(start=False)
    domain.expect_clean = False  # its daemon is no child that the harness could start again
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(domain.socket))
        listening.listen(64)
        inode = os.stat(domain.socket).st_ino
        for number in range(2):
            with open(domain.log, "ab") as log:
                domain.process = subprocess.Popen(
                    ["/bin/bash", "-c", f'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&{listening.fileno()}', "bash",
                     MARU, "--config", domain.config], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    pass_fds=(listening.fileno(),))
            domain.wait_ready()
            engine = domain.engine(pool=4 * MIB, page=64 * KIB)
            engine.good("put", key=f"k{number}", id=number + 1, size=1000)
            assert engine.good("get", key="k0").id == 1
            engine.good("close")
            assert domain.stop() == 0, domain.log_tail()
            assert os.stat(domain.socket).st_ino == inode, "the socket of somebody else was taken away"
        # Nobody serves; a client that comes now waits in the queue, as systemd would start a daemon for it.
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        waiting.connect(str(domain.socket))
        waiting.close()
    domain.socket.unlink()
