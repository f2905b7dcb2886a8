"""Is a recorded history one that a single, sequential store could have given?

Each key is a register of its own, written once until it is removed or evicted. A value leaves unasked (eviction) at any
moment when nobody has pinned its key. The search keeps every configuration that is still possible: the state of the
key and which of the operations under way have taken effect.
"""

import collections
import dataclasses
import pathlib
import struct

STORE, RETRIEVE, EXISTS, REMOVE, PIN, UNPIN = range(1, 7)
SLOW_CALL = 7  # any call that took long, on no key
NAMES = {SLOW_CALL: "call",
         STORE: "store", RETRIEVE: "retrieve", EXISTS: "exists", REMOVE: "remove", PIN: "pin", UNPIN: "unpin"}
OK, ALREADY, MISS, PINNED, FENCED, PENDING = 0, 1, 2, -4, -6, -1000
EVENT = struct.Struct("<QQQIIiI")
FOREVER = 1 << 63


@dataclasses.dataclass(frozen=True)
class Event:
    start_ns: int
    end_ns: int  # of one that is PENDING: when its dead process could do nothing more
    operation: int
    key: int
    result: int
    id: int = 0
    client: int = 0

    @property
    def spent_ns(self):
        return self.end_ns - self.start_ns

    def __str__(self):
        end = "..." if self.end_ns == FOREVER else self.end_ns
        return f"client {self.client} {NAMES[self.operation]} key {self.key} id {self.id:x} -> {self.result} " \
               f"[{self.start_ns}, {end}]"


def read_with_slow_calls(path, dead_ns=FOREVER):
    """The events of one thread of an engine, and its slow calls as (start, end). What it had begun when it was killed
    may take effect until `dead_ns`; what was refused because the client had been fenced may have taken effect before."""
    events, slow = [], []
    for start, end, value, operation, key, result, client in EVENT.iter_unpack(pathlib.Path(path).read_bytes()):
        if start == 0:
            break
        if operation == SLOW_CALL:
            if result != PENDING:
                slow.append((start, end))
            continue
        if result == PENDING:
            end = dead_ns
        events.append(Event(start, end, operation, key, PENDING if result == FENCED else result, value, client))
    return events, slow


def read(path, dead_ns=FOREVER):
    return read_with_slow_calls(path, dead_ns)[0]


def read_all(prefix, dead_ns=FOREVER):
    """Every thread's events behind one --history prefix."""
    path = pathlib.Path(prefix)
    return [event for file in sorted(path.parent.glob(path.name + ".*")) for event in read(file, dead_ns)]


ABSENT = 0


def effects(event, value, pins, count_pins):
    """The states after the event took effect on a key with this value and number of pins; none: it could not."""
    present = value != ABSENT
    operation, result = event.operation, event.result
    if result < 0 and result != PENDING and not (operation == REMOVE and result == PINNED):
        return [(value, pins)]  # refused: it did nothing
    if operation == STORE:
        if result == ALREADY:
            return [(value, pins)] if present else []
        return [] if present else [(event.id, 0)]
    if operation == RETRIEVE:
        if result == OK:
            return [(value, pins)] if value == event.id else []
        return [] if present else [(value, pins)]
    if operation == EXISTS:
        return [(value, pins)] if present == (result == OK) else []
    if operation == REMOVE:
        if result == PINNED:
            return [(value, pins)] if present and (pins > 0 or not count_pins) else []
        if result == MISS:
            return [] if present else [(value, pins)]
        return [(ABSENT, 0)] if present and pins == 0 else []
    if operation == PIN:
        if result == OK:
            return [(value, pins + count_pins)] if present else []
        return [] if present else [(value, pins)]
    assert operation == UNPIN, event
    return [(value, max(0, pins - count_pins))] if result == OK else [(value, pins)]


def changes(event):
    """Only these can alter the state; the others may take effect as soon as the state allows them."""
    if event.operation in (STORE, REMOVE):
        return event.result in (OK, PENDING)
    return event.operation in (PIN, UNPIN) and event.result == OK


def settle(value, pins, waiting, observers, count_pins):
    """Lets every observer take effect that the state allows: that never closes a way."""
    if not waiting:
        return waiting
    return frozenset(number for number in waiting
                     if number not in observers or not effects(observers[number], value, pins, count_pins))


def closure(configurations, events, observers, count_pins):
    """Everything reachable by effects of the operations under way, and by eviction."""
    seen = set()
    frontier = [(value, pins, settle(value, pins, waiting, observers, count_pins))
            for value, pins, waiting in configurations]
    while frontier:
        configuration = frontier.pop()
        if configuration in seen:
            continue
        seen.add(configuration)
        value, pins, waiting = configuration
        if value != ABSENT and pins == 0:
            frontier.append((ABSENT, 0, settle(ABSENT, 0, waiting, observers, count_pins)))
        for number in waiting:
            if number in observers:
                continue
            for after in effects(events[number], value, pins, count_pins):
                frontier.append((*after, settle(*after, waiting - {number}, observers, count_pins)))
    return seen


def check_key(events, count_pins):
    """None, or the event that no order explains."""
    moments = []
    for number, event in enumerate(events):
        moments.append((event.start_ns, 0, number))
        if event.end_ns != FOREVER:
            moments.append((event.end_ns, 1, number))
    moments.sort()
    configurations = {(ABSENT, 0, frozenset())}
    observers = {}
    for _, ends, number in moments:
        event = events[number]
        if not ends:
            if not changes(event):
                if event.result == PENDING:
                    continue  # saw nothing that anybody knows of
                observers[number] = event
            configurations = {(value, pins, waiting | {number}) for value, pins, waiting in configurations}
            continue
        if event.result == PENDING and not changes(event):
            continue
        reachable = closure(configurations, events, observers, count_pins)
        if event.result == PENDING:  # it may never have happened
            configurations = {(value, pins, waiting - {number}) for value, pins, waiting in reachable}
        else:
            configurations = {configuration for configuration in reachable if number not in configuration[2]}
        observers.pop(number, None)
        if not configurations:
            return event
    return None


def check(events, count_pins=True):
    """Checks every key; the complaint about the first that fails, with what happened around it."""
    by_key = collections.defaultdict(list)
    for event in events:
        by_key[event.key].append(event)
    for key, of_key in by_key.items():
        of_key.sort(key=lambda event: event.start_ns)
        wrong = check_key(of_key, count_pins)
        if wrong is not None:
            around = [other for other in of_key
                      if other.end_ns >= wrong.start_ns - 3_000_000 and other.start_ns <= wrong.end_ns][-40:]
            return f"key {key}: no sequential order explains\n  {wrong}\namong\n  " + \
                "\n  ".join(str(other) for other in around)
    return None
