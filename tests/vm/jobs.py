"""What a pool of any kind must do, and how to tell which memory it is by the kernel's word, so that a fallback does not
pass."""

import json
import re

import report
from domain import Demo
from harness import BUILD, KIB, MARU, MARUCTL, MIB, wait_until

CONFORMANCE = BUILD / "tests/unit/pool_conformance"


def conforms(guest, subject, kind=None):
    """The conformance cases of pools, in the guest, on one pool. `kind`: its column in the report."""
    ended = guest.run([CONFORMANCE, subject], within_s=300)
    rows = re.findall(r"^conformance \| (.+?) *\| (held|FAILED) *$", ended.text, re.MULTILINE)
    for case, cell in rows:
        report.held(kind or subject, case, cell)
    assert ended.code == 0 and rows, ended.text[-6000:] + ended.err
    assert all(cell == "held" for _case, cell in rows), rows


def does_its_job(domain, kind):
    """Chunks go from one process to another; a killed client's pages come back; a killed daemon's successor goes on.
    Returns an engine that has mapped the pool. `kind`: its column in the report."""
    prefill, decode = Demo(domain, "maru-prefill", "--layers", "1"), Demo(domain, "maru-decode")
    decode(prefill.greeting[0])
    keys = [line for line in prefill("keys 0 4") if line.startswith("key ")]
    assert len(keys) == 4 and decode(*keys) == ["ok"] * 4
    assert prefill("store 0 4")[-1] == "ok"
    assert "4 of 4 chunks" in decode("match")[0]
    assert "verified every byte of 4 chunks" in decode("verify")[0]
    assert prefill("where 1")[0].split(", at ")[0] == decode("where 1")[0].split(", at ")[0]
    prefill.end()
    decode.end()
    report.held(kind, "chunks are read in place by another process")

    survivor, victim = (domain.engine(pool=8 * MIB, page=64 * KIB) for _ in range(2))
    victim.good("put", key="by the dead", id=5, size=60_000)
    victim.good("alloc", size=1)
    victim.kill()
    wait_until(lambda: victim.name not in domain.clients(), "the victim is swept")
    assert domain.page_counts()["reserved"] == 0
    report.held(kind, "a killed client's pages come back")
    domain.restart()
    wait_until(lambda: survivor("stats").connected == 1, "the survivor is back")
    assert survivor.good("get", key="by the dead").right
    survivor.good("put", key="after", id=6, size=60_000)
    report.held(kind, "a killed daemon's successor goes on")
    return survivor


def mapping_of(guest, pid, name):
    """The lines of smaps of the largest mapping whose file has `name` in its path."""
    blocks = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", guest.good(f"cat /proc/{pid}/smaps"), flags=re.MULTILINE)
    blocks = {block.splitlines()[0]: block for block in blocks if block}
    ours = [block for first_line, block in blocks.items() if name in first_line]
    assert ours, f"no mapping of {name}: {list(blocks)}"
    return max(ours, key=lambda block: int(re.search(r"^Size: +(\d+)", block, re.MULTILINE).group(1)))


def dax_pool(path="/dev/dax0.0", name="kv", **keys):
    return {"name": name, "kind": "devdax", "path": path, **keys}


def refused(guest, *arguments, code=4, user=None):
    """What the daemon says that does not start."""
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    ended = guest.run([*become, MARU, "--socket", f"/tmp/maru-refused-{user or 0}.sock", *arguments])
    assert ended.code == code, ended
    return ended.err


def only_pool(domain):
    [pool] = domain.ask("pools")["pools"]
    return pool


def is_on_device(domain, *engines, path="/dev/dax0.0"):
    """Daemon and engines have the device itself mapped, and the daemon says so."""
    pool = only_pool(domain)
    assert (pool["kind"], pool["path"]) == ("devdax", path)
    for process in (domain.process, *engines):
        mapping_of(domain.guest, process.pid, path)


def header_of(guest, path="/dev/dax0.0"):
    """What maructl reads from the device."""
    return json.loads(guest.good([MARUCTL, "--json", "device", "show", path]))["header"]
