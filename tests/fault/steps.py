"""A process that stands still where its work comes to a named step (src/base/fault_point.hpp)."""

import pathlib


def held_at(point):
    """Environment of a process that stands for ever when it comes to this point."""
    return {"MARU_FAULT": f"ppm=1000000,us=600000000,seed=1,at={point}"}


def sleeps(pid):
    """A thread of the process stands in the kernel's sleep: it has come to its point."""
    numbers = {"35", "230", "115", "101"}  # nanosleep and clock_nanosleep of x86-64 and AArch64
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            if (task / "syscall").read_text().split()[0] in numbers:
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False
