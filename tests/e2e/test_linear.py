"""The checker of histories itself: it accepts what a store may do and sees what none may."""

import pytest
from linear import ALREADY, EXISTS, FOREVER, MISS, OK, PENDING, PIN, PINNED, REMOVE, RETRIEVE, STORE, UNPIN, Event, check


def history(*steps):
    """Steps (start, end, operation, result, id) on one key."""
    return [Event(start, end, operation, 7, result, value, number)
            for number, (start, end, operation, result, value) in enumerate(steps)]


POSSIBLE = {
    "store then read": [(1, 2, STORE, OK, 5), (3, 4, RETRIEVE, OK, 5)],
    "read overlaps the store, either way": [(1, 9, STORE, OK, 5), (2, 3, RETRIEVE, MISS, 0), (4, 5, RETRIEVE, OK, 5)],
    "evicted, then stored again": [(1, 2, STORE, OK, 5), (3, 4, RETRIEVE, MISS, 0), (5, 6, STORE, OK, 6),
                                   (7, 8, RETRIEVE, OK, 6)],
    "store over a value that had been evicted": [(1, 2, STORE, OK, 5), (3, 4, STORE, OK, 6)],
    "the loser of a race": [(1, 5, STORE, OK, 5), (2, 6, STORE, ALREADY, 6), (7, 8, RETRIEVE, OK, 5)],
    "a store that died may have happened": [(1, FOREVER, STORE, PENDING, 5), (9, 10, RETRIEVE, OK, 5)],
    "a store that died may not have happened": [(1, FOREVER, STORE, PENDING, 5), (9, 10, RETRIEVE, MISS, 0)],
    "a remove that died": [(1, 2, STORE, OK, 5), (3, FOREVER, REMOVE, PENDING, 0), (4, 5, STORE, OK, 6)],
    "a store that died, and another of the same key": [(1, 20, STORE, PENDING, 5), (3, 4, STORE, OK, 6),
                                                       (5, 6, RETRIEVE, OK, 6), (30, 31, RETRIEVE, OK, 6)],
    "a read that died": [(1, FOREVER, RETRIEVE, PENDING, 0), (2, 3, STORE, OK, 5)],
    "pinned against removal": [(1, 2, STORE, OK, 5), (3, 4, PIN, OK, 0), (5, 6, REMOVE, PINNED, 0),
                               (7, 8, UNPIN, OK, 0), (9, 10, REMOVE, OK, 0)],
    "a refused store did nothing": [(1, 2, STORE, -3, 5), (3, 4, RETRIEVE, MISS, 0)],
}

IMPOSSIBLE = {
    "a value that nobody stored": [(3, 4, RETRIEVE, OK, 5)],
    "the loser's value": [(1, 5, STORE, OK, 5), (2, 6, STORE, ALREADY, 6), (7, 8, RETRIEVE, OK, 6)],
    "a value that came back": [(1, 2, STORE, OK, 5), (3, 4, RETRIEVE, MISS, 0), (5, 6, RETRIEVE, OK, 5)],
    "an old value after its successor": [(1, 2, STORE, OK, 5), (3, 4, STORE, OK, 6), (5, 6, RETRIEVE, OK, 5)],
    "exists on an empty key": [(1, 2, EXISTS, OK, 0)],
    "refused by nobody": [(1, 2, STORE, ALREADY, 5)],
    "two stores won the same key while it was pinned": [(1, 2, STORE, OK, 5), (3, 4, PIN, OK, 0), (5, 6, STORE, OK, 6)],
    "lost under a pin": [(1, 2, STORE, OK, 5), (3, 4, PIN, OK, 0), (5, 6, RETRIEVE, MISS, 0)],
    "two removals of one value": [(1, 2, STORE, OK, 5), (3, 4, REMOVE, OK, 0), (5, 6, REMOVE, OK, 0)],
    "pinned by nobody": [(1, 2, STORE, OK, 5), (5, 6, REMOVE, PINNED, 0)],
    "a dead process's store after it was swept": [(1, 4, STORE, PENDING, 5), (5, 6, RETRIEVE, MISS, 0),
                                                  (7, 8, RETRIEVE, OK, 5)],
    "read before the store began": [(1, 2, RETRIEVE, OK, 5), (3, 4, STORE, OK, 5)],
}


@pytest.mark.parametrize("steps", POSSIBLE.values(), ids=POSSIBLE.keys())
def test_accepts(steps):
    assert check(history(*steps)) is None


@pytest.mark.parametrize("steps", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_refuses(steps):
    assert "no sequential order" in check(history(*steps))
