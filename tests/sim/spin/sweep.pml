/* Death, sweep, the next client of a slot, who runs alone, and the end. */

/* -- death and sweep */

proctype Killer(byte victim) provided (solo == 0) {
    d_step {
        dead = victim;
        holds[victim] = 0;
        running = running & ~BIT(victim);
        was_absent = was_absent & ~BIT(victim);
        was_present = was_present & ~BIT(victim);
        ended = ended | BIT(victim);
        client[CHUNK(victim)] = victim * 2 + 1
    }
}

inline sweep_record(victim) {
    round = 0;
    do
    :: round == SWEEPS -> break
    :: else ->
        round++;
        d_step { tick(); seen = state[r] };
        if
        :: PHASE(seen) == RESERVED && OWNER(seen) == victim ->
            cas_state(r, seen, STATE(FREE, GENERATION(seen) + 1, 0, 0));
            break
        :: PHASE(seen) == PUBLISHING && OWNER(seen) == victim ->
#ifdef SWEEP_DROPS_COMMITTED
            ok = 0;
#else
            has_final_slot(r, GENERATION(seen));
#endif
            if
            :: ok -> cas_state(r, seen, STATE(PUBLISHED, GENERATION(seen), 0, 0))
            :: else ->
                clear_slots(r, GENERATION(seen), 1);
#ifndef SWEEP_DROPS_COMMITTED
                has_final_slot(r, GENERATION(seen));
#endif
                if
                :: ok
                :: else ->
                    cas_state(r, seen, STATE(FREE, GENERATION(seen) + 1, 0, 0));
                    if
                    :: ok -> break
                    :: else
                    fi
                fi
            fi
        :: (PHASE(seen) == RETIRING_EVICT || PHASE(seen) == RETIRING_DELETE) && OWNER(seen) == victim ->
            cas_state(r, seen, BACK(seen))
        :: PHASE(seen) == RETIRED -> reclaim(r, seen, 0); break
        :: else -> break
        fi
    od;
    atomic { skip; d_step { seen = 0; round = 0; ok = 0 } }
}

/* One word of sweep_chunk_words. */
inline sweep_word(number, victim) {
    d_step { tick(); next = pin[CHUNK(victim) * PINS + number] };
    if
#ifdef SWEEP_ANY_EPOCH
    :: next != 0 ->
#else
    :: next != 0 && P_EPOCH(next) == g ->
#endif
#ifdef SWEEP_PINS_FIRST
        d_step { tick(); if :: pin[CHUNK(victim) * PINS + number] == next -> pin[CHUNK(victim) * PINS + number] = 0 :: else fi };
#endif
        r = P_RECORD(next);
        sweep_record(victim);
        d_step {
            tick();
#ifdef SWEEP_ANY_EPOCH
            ok = 1;
#else
            ok = (pin[CHUNK(victim) * PINS + number] == next);
#endif
            if
            :: ok ->
                assert(chunk_owner[CHUNK(victim)] == victim || pin[CHUNK(victim) * PINS + number] == 0);   /* no pin of who lives */
                pin[CHUNK(victim) * PINS + number] = 0
            :: else
            fi
        };
        if
        :: ok -> sweep_record(victim)
        :: else
        fi
    :: else
    fi
}

#define LEFT_BY(identity, record)                                                                                      \
    (OWNER(state[record]) == (identity) && PHASE(state[record]) != FREE && PHASE(state[record]) != PUBLISHED)

/* sweep_dead: g is the chunk's epoch, read before its owner. */
proctype Sweeper(byte me; byte victim) provided (solo == 0) {
    LOCALS;
    dead == victim;
    d_step { ok = (client[CHUNK(victim)] == victim * 2 + 1); g = chunk_epoch[CHUNK(victim)] };
    if
    :: ok && chunk_owner[CHUNK(victim)] == victim ->
        sweep_word(0, victim);
#if PINS > 1
        sweep_word(1, victim);
#endif
        d_step { if :: chunk_owner[CHUNK(victim)] == victim -> chunk_owner[CHUNK(victim)] = 0 :: else fi }
    :: else
    fi;
    d_step {
        if
        :: client[CHUNK(victim)] == victim * 2 + 1 ->
            assert(!LEFT_BY(victim, 0) && (RECORDS == 1 || !LEFT_BY(victim, 1 % RECORDS)));    /* nothing is left */
            client[CHUNK(victim)] = 0
        :: else
        fi;
        g = 0; r = 0; next = 0; ok = 0;
        ended = ended | BIT(me)
    }
}

/* The next client of a slot: open_client, PinSet::claim_chunk. */
inline connect() {
    d_step { client[CHUNK(me)] == 0 -> client[CHUNK(me)] = me * 2 };
    d_step { chunk_owner[CHUNK(me)] == 0 -> chunk_owner[CHUNK(me)] = me };
    chunk_epoch[CHUNK(me)]++
}
proctype Successor(byte me; byte kind) GUARDED {
    LOCALS;
    connect();
    read(kind);
    end();
    ended = ended | BIT(me)
}
proctype SuccessorStores(byte me) GUARDED {
    LOCALS;
    connect();
    store();
    end();
    ended = ended | BIT(me)
}

/* -- the progress claim */

/* A page that a lone allocator cannot have: it is somebody's, or somebody reads it. */
#define PINNED_BY(word, record) (PROTECTS(word, record, GENERATION(state[record]), 0))
inline not_to_be_had(record) {
    ok = PHASE(state[record]) == RESERVED || PHASE(state[record]) == PUBLISHING && live != record + 1;
    i = 0;
    do
    :: i < PIN_WORDS -> ok = ok || PINNED_BY(pin[i], record); i++
    :: else -> break
    od;
    assert(ok)
}

/* At any state everybody stops for good where he is, and a new client stores the key. */
proctype Lone(byte me) provided (solo == 0 || solo == 1) {
    LOCALS;
    atomic {
        solo = 1;
        store();
        assert(outcome == OK || outcome == EXISTS || outcome == FULL);
        if
        :: outcome == FULL ->
            d_step {
                not_to_be_had(0);
#if RECORDS > 1
                not_to_be_had(1);
#endif
#if RECORDS > 2
                not_to_be_had(2)
#endif
            }
        :: else -> assert(live != 0)
        fi;
        end();
        solo = 2
    }
}

/* At any state everybody stops but one storer, wherever it is. */
proctype Stopper(byte one) { d_step { running & BIT(one) -> solo = 10 + one } }

/* -- the end: nobody can go on */
proctype Watch() {
    byte i, finals;
    timeout;
    d_step {
        assert(solo == 0 || solo == 2);                     /* who runs alone is never stuck */
        if
        :: solo == 0 ->
            assert(ended == started);
            i = 0;
            do
            :: i < SLOTS ->
                if
                :: slot[i] != 0 ->
                    assert(!S_TENTATIVE(slot[i]));
                    if
                    :: live != 0 && slot[i] == SLOT(0, GENERATION(state[live - 1]), live - 1) -> finals++
                    :: else -> assert(GENERATION(state[S_RECORD(slot[i])]) != S_GENERATION(slot[i]) ||
                                      PHASE(state[S_RECORD(slot[i])]) == RETIRED)
                    fi
                :: else
                fi;
                i++
            :: else -> break
            od;
            assert(finals == (live != 0));
            i = 0;
            do
            :: i < RECORDS ->
                assert(PHASE(state[i]) == FREE || PHASE(state[i]) == RETIRED || PHASE(state[i]) == PUBLISHED && live == i + 1);
                i++
            :: else -> break
            od;
            i = 0;
            do
            :: i < PIN_WORDS -> assert(pin[i] == 0); i++
            :: else -> break
            od
        :: else
        fi
    }
}

/* -- who is there; STORED: the key's object lies in page 0 from the start */
#define RUN(process, identity) i = run process; who[i] = identity; started = started | BIT(identity)
#define ALSO(process) run process

init {
    byte i;
    atomic {
        do
        :: i < RECORDS -> state[i] = STATE(FREE, 0, 0, 0); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < CLIENTS -> chunk_owner[i] = i + 1; client[i] = (i + 1) * 2; i++
        :: else -> break
        od;
        i = 0;
#ifdef STORED
        state[0] = STATE(PUBLISHED, 0, 0, 0);
        slot[0] = SLOT(0, 0, 0);
        live = 1;
#endif
        run Watch();
        WHO
    }
}
