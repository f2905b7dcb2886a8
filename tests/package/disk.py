"""The disk of a virtual machine: the root of make-root as an ext4, with an archive of what a test installs, and the unit of
the agent through which tests/vm runs commands."""

import pathlib
import subprocess

from chroot import Machine

AGENT = """[Unit]
Description=Commands for the tests

[Service]
ExecStart=/usr/local/bin/agent / /ctl
# What a command leaves running is no part of this machine's start or stop.
KillMode=process

[Install]
WantedBy=multi-user.target
"""
SIZE = "3G"  # sparse


def make_disk(lower, folder, packages, programs):
    """Makes folder/disk. Beside what is installed on `lower` it holds, in /var/cache/apt/archives, every package of Debian
    that `packages` need (folders below /srv, each with one version of them), and in /usr/local/bin the C `programs`, built
    against the first of them."""
    machine = Machine(lower, folder / "staging")
    try:
        for number, (name, debs) in enumerate(packages.items()):
            there = machine.path("/srv") / name
            there.mkdir()
            for deb in debs:
                (there / deb.name).write_bytes(deb.read_bytes())
            if number == 0:
                machine.run("sh", "-c", f"apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends --download-only "
                                        f"/srv/{name}/*.deb && for deb in /srv/{name}/libmaru-client*.deb; do "
                                        "dpkg -x $deb /tmp/built; done")
        for source in programs:
            machine.path("/tmp/program.c").write_text(pathlib.Path(source).read_text())
            machine.run("sh", "-c", "gcc -O2 -D_GNU_SOURCE -I/tmp/built/usr/include /tmp/program.c -o "
                                    f"/usr/local/bin/{pathlib.Path(source).stem} /tmp/built/usr/lib/*/libmaru-client.so")
        machine.path("/etc/systemd/system/agent.service").write_text(AGENT)
        machine.run("systemctl", "enable", "agent.service")
        machine.path("/etc/fstab").write_text("/dev/vda / ext4 defaults 0 0\n")
        disk = folder / "disk"
        disk.unlink(missing_ok=True)
        # Bound without what is mounted in it, so that neither /proc nor /tmp comes along.
        done = subprocess.run(machine.beside("sh", "-c", f"mkdir flat && mount --bind root flat && mke2fs -q -t ext4 -d flat "
                                                         f"{disk} {SIZE}"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout
        return disk
    finally:
        machine.close()
