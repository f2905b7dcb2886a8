"""Two and eight clients on one domain: the same pages, the right bytes, one order of events for each key."""

import linear
import pytest
from harness import EXISTS, KIB, MIB, MISS, OK


def test_two_clients_share_a_page_without_a_copy(domain):
    writer = domain.engine(pool=8 * MIB, page=64 * KIB)
    reader = domain.engine("no_claim")
    place = writer.good("alloc", size=60_000)
    writer.good("write", key="chunk", id=77, size=60_000)
    writer.good("store", key="chunk", size=60_000)

    view = reader.good("retrieve", key="chunk")

    assert (view.region, view.page) == (place.region, place.page)
    assert view.right and view.id == 77 and view.size == 60_000
    # The same physical page: the reader finds what it was told, not a copy of its own.
    assert reader("stats").held_regions == 0
    reader.good("release")
    writer.good("free")


def test_a_value_is_seen_by_all_at_once_and_stays_when_its_writer_leaves(domain):
    readers = [domain.engine("no_claim") for _ in range(3)]
    writer = domain.engine(pool=8 * MIB, page=64 * KIB)
    assert [reader("exists", key="k").status for reader in readers] == [MISS] * 3
    writer.good("put", key="k", id=9, size=64 * KIB)
    writer.good("close")
    writer.quit()
    for reader in readers:
        view = reader.good("retrieve", key="k")
        assert view.right and view.id == 9
        reader.good("release")


def test_first_value_stays(domain):
    one = domain.engine(pool=8 * MIB, page=64 * KIB)
    two = domain.engine(pool=8 * MIB, page=64 * KIB)
    one.good("put", key="k", id=1, size=1000)
    assert two("put", key="k", id=2, size=2000).status == EXISTS
    assert two.good("get", key="k").id == 1


def run_mix(domain, count, pool=4 * MIB, **plan):
    """`count` engines on one key space; returns their reports and the history of all."""
    engines = [domain.engine(pool=pool, page=plan["size_max"]) for _ in range(count)]
    prefix = domain.folder / "history"
    for number, engine in enumerate(engines, 1):
        engine.send("mix", client=number, seed=plan["seed"] * 1000 + number, history=f"{prefix}.{number}",
                    **{name: value for name, value in plan.items() if name != "seed"})
    reports = [engine.answer(within_s=100) for engine in engines]
    return reports, linear.read_all(prefix)


@pytest.mark.parametrize("engines, threads, keys", [(2, 1, 8), (8, 1, 48), (4, 4, 96)])
def test_random_operations_have_one_order_for_each_key(domain, engines, threads, keys):
    reports, events = run_mix(domain, engines, threads=threads, operations=6000 // threads, keys=keys, size_max=16 * KIB,
                              seed=engines)
    assert [report.violations for report in reports] == [0] * engines, reports
    assert sum(report.statuses.get(str(OK), 0) for report in reports) > 6000 * engines // 2
    assert len(events) > 6000
    complaint = linear.check(events)
    assert complaint is None, complaint
    domain.check_clean()


def test_random_operations_on_a_full_pool(make_domain):
    """Batches and single calls evict each other's values under readers that hold views: LMCache 3130 saw eviction free
    bytes in use."""
    domain = make_domain(pool="12MiB")
    reports, events = run_mix(domain, 8, threads=1, operations=4000, keys=1500, size_max=16 * KIB, seed=77, pool=MIB)
    assert [report.violations for report in reports] == [0] * 8, reports
    assert sum(client["counters"]["evictions"] for client in domain.clients().values()) > 0
    complaint = linear.check(events)
    assert complaint is None, complaint
    domain.check_clean()
