"""A throw-away Debian 12: an overlay over the root of make-root, in a mount namespace of its own with its own /dev/shm,
/run and /tmp, where commands run in a chroot. Nothing of it is seen outside, and it ends with its holder process."""

import pathlib
import shutil
import subprocess

# pivot_root would hide the machine's own programs from strace and nsenter, which start what runs inside.
HOLDER = r"""
set -e
cd "$1"
mount -t tmpfs -o size=2G overlay overlay
mkdir overlay/upper overlay/work
mount -t overlay overlay -o "lowerdir=$2,upperdir=overlay/upper,workdir=overlay/work" root
mount -t proc proc root/proc
mount -t sysfs -o ro sysfs root/sys
mount -t tmpfs -o mode=755 dev root/dev
for device in null zero full random urandom tty; do touch root/dev/$device; mount --bind /dev/$device root/dev/$device; done
ln -s /proc/self/fd root/dev/fd
mkdir -m 1777 root/dev/shm
mount -t tmpfs -o size=1G,mode=1777 shm root/dev/shm
mount -t tmpfs -o mode=755 run root/run
mount -t tmpfs -o mode=1777 tmp root/tmp
echo ready
exec cat
"""
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive", "APT_LISTCHANGES_FRONTEND": "none"}


class Machine:
    def __init__(self, lower, folder):
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("overlay", "root"):
            (self.folder / name).mkdir(parents=True)
        self.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "bash", "-c", HOLDER, "holder",
                                        str(self.folder), str(lower)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True)
        said = self.holder.stdout.readline()
        assert said == "ready\n", f"no mount namespace with an overlay: {said}"
        # How this process sees it: through the holder.
        self.root = pathlib.Path(f"/proc/{self.holder.pid}/cwd/root")

    def enter(self, *command):
        """The command line that runs a command inside, in the process that starts it."""
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "chroot", f"{self.folder}/root", *map(str, command)]

    def beside(self, *command):
        """The same for a command of this machine, with its own files, that sees what is mounted below the folder."""
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "sh", "-c", 'cd "$0" && exec "$@"', str(self.folder),
                *map(str, command)]

    def show(self, folder, inside):
        """Mounts a folder of this machine."""
        self.path(inside).mkdir(parents=True, exist_ok=True)
        subprocess.run(self.beside("mount", "--bind", folder, f"root/{inside.lstrip('/')}"), check=True)

    def start(self, *command, **options):
        return subprocess.Popen(self.enter(*command), env=ENVIRONMENT, text=True, **options)

    def run(self, *command, status=0, timeout=300, **options):
        done = subprocess.run(self.enter(*command), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=timeout, check=False, **options)
        assert status in (done.returncode, None), f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def path(self, inside):
        """A path inside as this process reaches it, while the holder lives."""
        return self.root / inside.lstrip("/")

    def files(self):
        """Every path inside that is not the kernel's or a temporary one."""
        return set(self.run("find", "/", "-xdev", "-not", "-type", "d").splitlines())

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)
