"""Fixtures: `domain` makes daemons; each is proven sound and taken away at the end of its test."""

import contextlib
import os
import signal

import pytest

import harness

TEST_LIMIT_S = 120


@pytest.fixture(scope="session", autouse=True)
def termination_cleans_up():
    """SIGTERM, as a runner's time-out sends it, ends the run through the finalisers: no daemon is left behind."""
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: pytest.exit("terminated", 143))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(autouse=True)
def within_limit(request):
    """No test hangs: after the limit it fails where it stands. A test's attribute `limit_s` replaces the limit."""
    limit_s = getattr(request.function, "limit_s", TEST_LIMIT_S) * harness.SLOWER

    def too_long(_number, _frame):
        raise harness.Late(f"the test ran longer than {limit_s} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def ours_in_shm():
    return {path.name for path in harness.SHM.glob(f"*maru*-{os.getpid()}-*")}


@contextlib.contextmanager
def finished_domains():
    """A list: every domain in it is finished at the end, whatever becomes of the others. The engines of all of them go
    first: hosts of one domain see each other's."""
    domains = []
    yield domains
    failures = []

    def attempt(action):
        try:
            action()
        except Exception as failure:
            failures.append(failure)

    for domain in domains:
        for engine in domain.engines:
            attempt(engine.dispose)
    for domain in domains:
        attempt(domain.finish)
    if failures:
        raise failures[0]


@pytest.fixture
def make_domain():
    """Makes a domain and starts its daemon; `start=False` leaves that to the test. `kind`: another class of domain."""
    with finished_domains() as domains:

        def make(start=True, kind=harness.Domain, **options):
            domains.append(kind(**options))
            return domains[-1].start() if start else domains[-1]

        yield make
    assert not ours_in_shm()


@pytest.fixture
def domain(make_domain):
    """A daemon with a pool of 64 MiB."""
    return make_domain()


@pytest.fixture
def engine(domain):
    """One connected engine of `domain`."""
    return domain.engine(pool=8 * harness.MIB, page=64 * harness.KIB)
