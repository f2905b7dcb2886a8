"""A real terminal for programs with a screen: tmux, with a server of its own."""

import os
import secrets
import shlex
import subprocess

from harness import Late, wait_until


class Terminal:
    """Runs a command in a terminal of `width` by `height`."""

    def __init__(self, command, width=80, height=24):
        self.server = f"maru-test-{os.getpid()}-{secrets.token_hex(4)}"
        words = " ".join(shlex.quote(str(word)) for word in command)
        # The shell stays behind the command, so that its last screen and its status can be read.
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height),
                  f"{words}; status=$?; echo; echo ended with $status; exec cat")

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", "-u", "-L", self.server, *arguments], capture_output=True, text=True, timeout=20,
                              env={**os.environ, "LC_ALL": "C.UTF-8"}, check=False)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def lines(self, colours=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else [])).split("\n")[:-1]

    def text(self):
        return "\n".join(self.lines())

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, width, height):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def wait_for(self, condition, what, within_s=10.0):
        """The lines of the screen once `condition` holds for them."""
        try:
            return wait_until(lambda: (lines := self.lines()) and condition(lines) and lines, what, within_s)
        except Late as late:
            raise Late(f"{late}; the screen shows:\n{self.text()}") from None

    def wait_for_text(self, text, within_s=10.0):
        return self.wait_for(lambda lines: any(text in line for line in lines), f"\"{text}\" on the screen", within_s)

    def close(self):
        subprocess.run(["tmux", "-L", self.server, "kill-server"], capture_output=True, timeout=20, check=False)
