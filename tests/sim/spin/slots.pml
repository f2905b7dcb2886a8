/* One key's slots, the pages behind them, and the sweep: the protocol of src/table, each access to shared memory a step.
 * README.md beside this file maps the steps to the code; verify.py says who takes part. */

#ifndef RECORDS
#define RECORDS 2       /* pages */
#endif
#ifndef SLOTS
#define SLOTS 2         /* of the key's bucket: 2, 3 or 4 */
#endif
#ifndef CLIENTS
#define CLIENTS 2       /* client slots, each with one pin chunk */
#endif
#ifndef PINS
#define PINS 1          /* words of a chunk; the second one names the page that an evictor retires */
#endif
#ifndef COMMITS
#define COMMITS 2       /* publish_rounds_max */
#endif
#ifndef LAPS
#define LAPS 1          /* of the hand; from the second on it decides for those who stopped */
#endif
#ifndef SOLO_STEPS
#define SOLO_STEPS 200
#endif
#define LOOKS 3         /* recheck_rounds_max */
#define SWEEPS 8        /* retire_rounds_max */
#define PIN_WORDS (CLIENTS * PINS)

/* State word of a page: phase, attempt, owner, generation (table/bits.hpp, State). Owners are whole identities, slot and
 * generation in one number: 1 to CLIENTS are the first clients of their slots, CLIENTS + 1 the successor of the first. */
#define FREE 1
#define RESERVED 2
#define PUBLISHING 3
#define PUBLISHED 4
#define RETIRING_EVICT 5
#define RETIRING_DELETE 6
#define RETIRED 7
#define STATE(phase, generation, owner, attempt) ((phase) | (attempt) << 4 | (owner) << 7 | (generation) << 10)
#define PHASE(word) ((word) & 15)
#define ATTEMPT(word) ((word) >> 4 & 7)
#define OWNER(word) ((word) >> 7 & 7)
#define GENERATION(word) ((word) >> 10 & 15)
#define IS_LIVE(phase) ((phase) >= PUBLISHING && (phase) <= RETIRING_DELETE)

/* Index slot: tentative, generation, record + 1; 0 is empty. */
#define SLOT(tentative, generation, record) ((record) + 1 | (tentative) << 2 | (generation) << 3)
#define S_RECORD(word) (((word) & 3) - 1)
#define S_TENTATIVE(word) ((word) >> 2 & 1)
#define S_GENERATION(word) ((word) >> 3)

/* Pin word: kind, record + 1, generation, epoch of the chunk; 0 is free. */
#define LEASE 1
#define KEY 2
#define OWN 3
#define PIN(kind, record, generation, epoch) ((kind) | (record) + 1 << 2 | (generation) << 4 | (epoch) << 8)
#define P_KIND(word) ((word) & 3)
#define P_RECORD(word) (((word) >> 2 & 3) - 1)
#define P_EPOCH(word) ((word) >> 8)
#define PROTECTS(word, record, generation, keys)                                                                       \
    (P_RECORD(word) == (record) && ((word) >> 4 & 15) == (generation) &&                                               \
     (P_KIND(word) == KEY || !(keys) && P_KIND(word) == LEASE))

/* -- shared memory */
short state[RECORDS];
byte slot[SLOTS];
short pin[PIN_WORDS];
byte chunk_owner[CLIENTS], chunk_epoch[CLIENTS];
byte client[CLIENTS];                      /* 0 free, else identity * 2, + 1 when it is DEAD */
#define CHUNK(identity) (((identity) - 1) % CLIENTS)

/* -- what is true, seen by no step */
byte live;                                 /* record + 1 of the key's object, 0 when there is none */
byte holds[2 * CLIENTS + 1];               /* what each identity counts on: record + 1, + 8 for a key pin */
byte running, was_absent, was_present;     /* a bit for each identity: in an operation, and what it saw meanwhile */
byte dead;                                 /* identity that was killed */
byte ended, started;                       /* a bit for each process that counts at the end */
byte solo;                                 /* 0; 1: only the lone client runs; 10 + identity: only that one; 2: it has ended */
byte steps;                                /* of who runs alone */

#define BIT(identity) (1 << (identity))
#if defined(DEATH) || defined(SOLO)
#define GUARDED provided (MAY_RUN)
#else
#define GUARDED
#endif
byte who[12];                              /* identity of each process, for MAY_RUN */
#define MAY_RUN (dead != who[_pid] && (solo == 0 || solo == 10 + who[_pid]))
#define HELD(record)                                                                                                   \
    ((holds[1] & 7) == (record) + 1 || (holds[2] & 7) == (record) + 1 || CLIENTS > 2 && (holds[3 % (2 * CLIENTS + 1)] & 7) == (record) + 1 ||  \
     (holds[CLIENTS + 1] & 7) == (record) + 1)
#define KEY_HELD(record)                                                                                               \
    (holds[1] == (record) + 9 || holds[2] == (record) + 9 || CLIENTS > 2 && holds[3 % (2 * CLIENTS + 1)] == (record) + 9)

inline tick() {
    if
    :: solo != 0 -> steps++; assert(steps <= SOLO_STEPS)    /* the progress claim */
    :: else
    fi
}

/* The object comes or goes: everybody in an operation has seen both. */
inline key_changes(record) {
    live = record;
    was_absent = was_absent | running;
    was_present = was_present | running
}

/* What each change of a state word must keep. */
inline judge(record, from, to) {
    if
    :: GENERATION(to) != GENERATION(from) ->
        assert(GENERATION(to) == GENERATION(from) + 1 && GENERATION(to) < 15);
        assert(!HELD(record));                              /* no page recycled under a lease or key pin */
        assert(live != (record) + 1)                        /* nor while its object lives */
    :: else
    fi;
    if
    :: PHASE(to) == RETIRED ->
        assert(live == (record) + 1);                       /* nothing retires twice */
        assert(!KEY_HELD(record));
        assert(PHASE(from) != RETIRING_EVICT || !HELD(record));
        key_changes(0)
    :: PHASE(from) == PUBLISHING && PHASE(to) != PUBLISHED ->
        assert(live != (record) + 1)                        /* a committed object is not thrown away */
    :: PHASE(to) == PUBLISHED -> assert(live == (record) + 1)
    :: else
    fi;
    if
    :: (PHASE(from) == RESERVED || PHASE(from) == PUBLISHING) && PHASE(to) <= PUBLISHING ->
        assert(OWNER(from) == me || OWNER(from) == dead)    /* no page taken from who lives */
    :: PHASE(to) == RETIRING_EVICT || PHASE(to) == RETIRING_DELETE -> assert(ATTEMPT(from) < 7)
    :: else
    fi
}

/* -- single steps */
inline cas_state(record, from, to) {
    d_step {
        tick();
        if
        :: state[record] == (from) -> judge(record, from, to); state[record] = (to); ok = 1
        :: else -> ok = 0
        fi
    }
}

inline cas_slot(number, from, to) {
    d_step {
        tick();
        if
        :: slot[number] == (from) ->
            if
            :: (to) == 0 ->                                 /* no live slot cleared */
                assert(S_TENTATIVE(from) || live != S_RECORD(from) + 1 ||
                       S_GENERATION(from) != GENERATION(state[S_RECORD(from)]))
            :: else
            fi;
            slot[number] = (to);
            ok = 1
        :: else -> ok = 0
        fi
    }
}

inline set_pin(number, word) { d_step { tick(); pin[CHUNK(me) * PINS + number] = (word) } }
#define MY_EPOCH chunk_epoch[CHUNK(me)]

/* is_pinned, scan_pins: each word is a load. The answer is in `ok`. */
inline see_pin(number, record, generation, keys) {
    d_step { tick(); ok = ok || PROTECTS(pin[number], record, generation, keys) }
}
inline scan(record, generation, keys) {
#ifdef NO_PIN_SCAN
    ok = 0;
#else
    atomic { ok = 0; see_pin(0, record, generation, keys) };
#if PIN_WORDS > 1
    see_pin(1, record, generation, keys);
#endif
#if PIN_WORDS > 2
    see_pin(2, record, generation, keys);
#endif
#if PIN_WORDS > 3
    see_pin(3, record, generation, keys);
#endif
#if PIN_WORDS > 4
    see_pin(4, record, generation, keys);
    see_pin(5, record, generation, keys);
#endif
#endif
}

inline clear_one(number, record, generation, tentative_only) {
    d_step {
        tick();
        if
        :: (slot[number] & ~4) == SLOT(0, generation, record) && (S_TENTATIVE(slot[number]) || !(tentative_only)) ->
            assert(S_TENTATIVE(slot[number]) || live != (record) + 1 || GENERATION(state[record]) != (generation));
            slot[number] = 0
        :: else
        fi
    }
}
inline clear_slots(record, generation, tentative_only) {
    clear_one(0, record, generation, tentative_only);
    clear_one(1, record, generation, tentative_only);
#if SLOTS > 2
    clear_one(2, record, generation, tentative_only);
#endif
#if SLOTS > 3
    clear_one(3, record, generation, tentative_only);
#endif
}

inline see_slot(number, record, generation) {
    d_step { tick(); ok = ok || slot[number] == SLOT(0, generation, record) }
}
inline has_final_slot(record, generation) {
    atomic { ok = 0; see_slot(0, record, generation) };
    see_slot(1, record, generation);
#if SLOTS > 2
    see_slot(2, record, generation);
#endif
#if SLOTS > 3
    see_slot(3, record, generation);
#endif
}

#include "operations.pml"
#include "sweep.pml"
