"""A domain whose pools come and go, and what its clients find in them."""

import os
import pathlib

from harness import KIB, MIB, SHM, Domain

PAGE = 64 * KIB


class GrowingDomain(Domain):
    """A domain whose further pools are taken away at its end."""

    def __init__(self, **options):
        super().__init__(**{"pool": "16MiB", **options})
        self.more = []  # names of pools in /dev/shm
        self.config_pools = []

    def pool_sections(self):
        return super().pool_sections() + getattr(self, "config_pools", [])

    def name(self, letter):
        """Of a pool that nobody else has; its file has the process in its name, so that a leftover is noticed."""
        name = f"e2e-{self.unique}-{letter}"
        self.more.append(name)
        return name

    def file_of(self, name):
        return SHM / f"maru-{name}-{os.geteuid()}"

    def add(self, letter, size="16MiB"):
        name = self.name(letter)
        self.ask("pool", "add", f"shm:{name}:{size}")
        return name

    def pools(self):
        return {row["name"]: row for row in self.ask("pools")["pools"]}

    def finish(self):
        try:
            super().finish()
        finally:
            for name in self.more:
                for path in (self.file_of(name), pathlib.Path(f"{self.file_of(name)}.lock")):
                    path.unlink(missing_ok=True)


def writer(domain, **options):
    return domain.engine(pool=2 * MIB, page=PAGE, **options)


def fill(engine, first, count, size=PAGE - 100):
    for number in range(first, first + count):
        engine.good("put", key=f"k{number}", id=number + 1, size=size)


def read(engine, numbers):
    return {number: engine("get", key=f"k{number}") for number in numbers}


def in_pool(domain, name):
    """Numbers of the keys whose page lies in this pool."""
    pool = domain.pools()[name]["pool"]
    regions = {row["region"] for row in domain.ask("regions")["regions"] if row["pool"] == pool}
    return sorted(int(row["key"][1:]) for row in domain.keys() if row["region"] in regions)


def grown(domain):
    """A reader that is connected before a pool is added, and objects in the old and in the new pool."""
    reader = domain.engine("no_claim")
    engine = writer(domain)
    fill(engine, 0, 120)
    name = domain.add("b")
    fill(engine, 1000, 200)
    return engine, reader, name
