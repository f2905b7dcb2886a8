"""What a pool of any kind must do, and how to tell which memory it is by the kernel's word, so that a fallback does not
pass."""

import re

from domain import Demo
from harness import BUILD, KIB, MIB, wait_until

CONFORMANCE = BUILD / "tests/unit/pool_conformance"


def conforms(guest, *subjects):
    """The conformance cases of pools, in the guest."""
    ended = guest.run([CONFORMANCE, *subjects], within_s=300)
    cases = re.search(r"test cases:\s+(\d+) \|\s+(\d+) passed \| 0 failed", ended.text)
    assert ended.code == 0 and cases, ended.text[-6000:] + ended.err
    print(f"\nvm: conformance of {' '.join(subjects)}: {cases.group(2)} cases passed")
    assert int(cases.group(2)) > 0


def does_its_job(domain):
    """Chunks go from one process to another; a killed client's pages come back; a killed daemon's successor goes on.
    Returns an engine that has mapped the pool."""
    prefill, decode = Demo(domain, "maru-prefill", "--layers", "1"), Demo(domain, "maru-decode")
    decode(prefill.greeting[0])
    keys = [line for line in prefill("keys 0 4") if line.startswith("key ")]
    assert len(keys) == 4 and decode(*keys) == ["ok"] * 4
    assert prefill("store 0 4")[-1] == "ok"
    assert "verified every byte of 4 chunks" in decode("verify")[0]
    assert prefill("where 1")[0].split(", at ")[0] == decode("where 1")[0].split(", at ")[0]
    prefill.end()
    decode.end()

    survivor, victim = (domain.engine(pool=8 * MIB, page=64 * KIB) for _ in range(2))
    victim.good("put", key="by the dead", id=5, size=60_000)
    victim.good("alloc", size=1)
    victim.kill()
    wait_until(lambda: victim.name not in domain.clients(), "the victim is swept")
    assert domain.page_counts()["reserved"] == 0
    domain.restart()
    wait_until(lambda: survivor("stats").connected == 1, "the survivor is back")
    assert survivor.good("get", key="by the dead").right
    survivor.good("put", key="after", id=6, size=60_000)
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


def only_pool(domain):
    [pool] = domain.ask("pools")["pools"]
    return pool
