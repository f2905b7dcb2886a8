/* What a client does with the key: store, evict, read, pin, delete. */

/* -- operations; me, ok and the locals below are of the process */
#define LOCALS                                                                                                         \
    short seen, next;                                                                                                  \
    byte r, g, i, mine, word, look, round, outcome, lap;                                                               \
    bit ok, got

#define CLEAN 0
#define LOST 1
#define AGAIN 2

inline begin() {
    d_step {
        running = running | BIT(me);
        if
        :: live == 0 -> was_absent = was_absent | BIT(me)
        :: else -> was_present = was_present | BIT(me)
        fi
    }
}
inline end() {
    d_step {
        seen = 0; next = 0; r = 0; g = 0; i = 0; mine = 0; word = 0; look = 0; round = 0; outcome = 0; lap = 0;
        ok = 0; got = 0;
        running = running & ~BIT(me);
        was_absent = was_absent & ~BIT(me);
        was_present = was_present & ~BIT(me)
    }
}

inline reclaim(record, word_, scanned) {
    clear_slots(record, GENERATION(word_), 0);
    ok = 0;
    if
    :: !(scanned) -> scan(record, GENERATION(word_), 0)
    :: else
    fi;
    if
    :: !ok -> cas_state(record, word_, STATE(FREE, GENERATION(word_) + 1, 0, 0))
    :: else
    fi
}

inline take_retired(word_, scanned) {
    set_pin(0, PIN(OWN, r, GENERATION(word_), MY_EPOCH));
    clear_slots(r, GENERATION(word_), 0);
    ok = 0;
    if
    :: !(scanned) -> scan(r, GENERATION(word_), 0)
    :: else
    fi;
    if
    :: !ok ->
        cas_state(r, word_, STATE(RESERVED, GENERATION(word_) + 1, me, 0));
        if
        :: ok -> set_pin(0, PIN(OWN, r, GENERATION(word_) + 1, MY_EPOCH)); d_step { g = GENERATION(word_) + 1; got = 1 }
        :: else
        fi
    :: else
    fi
}

#ifdef ATTEMPT_NOT_RAISED
#define RAISED(word) ATTEMPT(word)
#else
#define RAISED(word) (ATTEMPT(word) + 1)
#endif
#define BACK(word) STATE(PUBLISHED, GENERATION(word), 0, ATTEMPT(word))

/* Worker::visit: what an allocator's hand does with one page. */
inline visit(takes) {
    d_step { tick(); seen = state[r] };
    if
    :: PHASE(seen) == FREE && takes ->
        set_pin(0, PIN(OWN, r, GENERATION(seen), MY_EPOCH));
        cas_state(r, seen, STATE(RESERVED, GENERATION(seen), me, 0));
        if
        :: ok -> d_step { got = 1; g = GENERATION(seen) }
        :: else
        fi
    :: PHASE(seen) == RETIRED && takes -> take_retired(seen, 0)
#ifdef EVICTS
    :: PHASE(seen) == PUBLISHED ->
#if PINS > 1
        set_pin(1, PIN(OWN, r, GENERATION(seen), MY_EPOCH));
#endif
        next = STATE(RETIRING_EVICT, GENERATION(seen), me, RAISED(seen));
        cas_state(r, seen, next);
        if
        :: ok ->
            scan(r, GENERATION(next), 0);
            if
            :: ok -> cas_state(r, next, BACK(next))
            :: else ->
                seen = STATE(RETIRED, GENERATION(next), 0, ATTEMPT(next));
                cas_state(r, next, seen);
                if
                :: ok && takes -> take_retired(seen, 1)
                :: ok && !takes -> reclaim(r, seen, 1)
                :: else
                fi
            fi
        :: else
        fi;
#if PINS > 1
        set_pin(1, 0)
#endif
    :: PHASE(seen) == PUBLISHING ->
        has_final_slot(r, GENERATION(seen));
        if
        :: ok -> cas_state(r, seen, STATE(PUBLISHED, GENERATION(seen), 0, 0))
        :: else
        fi
    #ifndef FOREIGN_LEFT
    :: PHASE(seen) == RETIRING_EVICT && lap > 0 && OWNER(seen) != me -> cas_state(r, seen, BACK(seen))
    :: PHASE(seen) == RETIRING_DELETE && lap > 0 && OWNER(seen) != me ->
        scan(r, GENERATION(seen), 1);
        if
        :: ok -> cas_state(r, seen, BACK(seen))
        :: else -> cas_state(r, seen, STATE(RETIRED, GENERATION(seen), 0, ATTEMPT(seen)))
        fi
#endif
#endif
    :: else
    fi
}

inline allocate() {
    got = 0;
    lap = 0;
    do
    :: !got && lap < LAPS ->
        r = 0;
        do
        :: !got && r < RECORDS -> visit(1); if :: !got -> r++ :: else fi
        :: else -> break
        od;
        lap++
    :: else -> break
    od;
    atomic { skip; d_step { lap = 0; seen = 0; next = 0; ok = 0 } }
}

inline place_in(number) {
    d_step {
        tick();
        if
        :: mine == 0 && slot[number] == 0 -> slot[number] = SLOT(1, g, r); mine = number + 1
        :: else
        fi
    }
}

/* One other slot of find_same. */
inline find_in(number) {
    look = 0;
    do
    :: mine == number + 1 || outcome != CLEAN -> break
    :: else ->
        if
        :: look == LOOKS -> outcome = AGAIN; break
        :: else -> look++
        fi;
        d_step { tick(); word = slot[number] };
        if
        :: word == 0 -> break
        :: else
        fi;
        d_step { tick(); seen = state[S_RECORD(word)] };
        if
        :: GENERATION(seen) != S_GENERATION(word) || PHASE(seen) == RETIRED -> cas_slot(number, word, 0)     /* stale */
        :: else ->
            if
            :: S_TENTATIVE(word) && PHASE(seen) != PUBLISHING ->
#ifdef TENTATIVE_BY_PHASE
                break
#else
                if
                :: !IS_LIVE(PHASE(seen)) -> cas_slot(number, word, 0)
                :: else
                fi
#endif
            :: !S_TENTATIVE(word) && !IS_LIVE(PHASE(seen)) -> break
            :: else ->
                d_step { tick(); next = state[S_RECORD(word)] };
                if
                :: GENERATION(next) != S_GENERATION(word)
                :: else ->
                    if
                    :: S_TENTATIVE(word) ->
#ifdef TENTATIVE_LEFT
                        break
#else
#ifdef TENTATIVE_WAITED_FOR
                        look = 0                            /* until its writer is through */
#else
                        cas_slot(number, word, 0)           /* thrown out */
#endif
#endif
                    :: !S_TENTATIVE(word) && PHASE(next) == RETIRING_EVICT ->
                        cas_state(S_RECORD(word), next, BACK(next));
                        if
                        :: ok -> outcome = LOST
                        :: else
                        fi
                    :: !S_TENTATIVE(word) && IS_LIVE(PHASE(next)) && PHASE(next) != RETIRING_EVICT -> outcome = LOST
                    :: else
                    fi
                fi
            fi
        fi
    od;
    atomic { skip; d_step { look = 0; word = 0; seen = 0; next = 0; ok = 0 } }
}

#define TENTATIVE SLOT(1, g, r)
#define FINAL SLOT(0, g, r)

inline commit_step() {
    d_step {
        tick();
        if
#ifdef BLIND_COMMIT
        :: true ->
#else
        :: slot[mine - 1] == TENTATIVE ->
#endif
            assert(live == 0);                              /* never two live final entries */
            assert(PHASE(state[r]) == PUBLISHING && GENERATION(state[r]) == g);
            slot[mine - 1] = FINAL;
            key_changes(r + 1);
            holds[me] = r + 1;                              /* the writer's lease */
            ok = 1
#ifndef BLIND_COMMIT
        :: else -> ok = 0
#endif
        fi
    }
}

#define OK 1
#define EXISTS 2
#define CONTENDED 3
#define INDEX_FULL 4
#define FULL 5

/* Worker::publish of page r, then what the client does with it: the lease or the page goes back. */
inline publish() {
    cas_state(r, STATE(RESERVED, g, me, 0), STATE(PUBLISHING, g, me, 0));
    assert(ok);
    set_pin(0, PIN(LEASE, r, g, MY_EPOCH));
    round = 0;
    got = 0;
    do
    :: round == COMMITS -> outcome = CONTENDED; break
    :: else ->
        round++;
        mine = 0;
        place_in(0);
        place_in(1);
#if SLOTS > 2
        place_in(2);
#endif
#if SLOTS > 3
        place_in(3);
#endif
        if
        :: mine == 0 -> outcome = INDEX_FULL; break
        :: else
        fi;
        outcome = CLEAN;
#ifndef NO_RESCAN
        find_in(0);
        find_in(1);
#if SLOTS > 2
        find_in(2);
#endif
#if SLOTS > 3
        find_in(3);
#endif
#endif
        if
        :: outcome == CLEAN ->
            commit_step();
            if
            :: ok -> outcome = OK; break
            :: else
            fi
        :: else ->
            cas_slot(mine - 1, TENTATIVE, 0);
            if
            :: outcome == LOST -> outcome = EXISTS; break
            :: else
            fi
        fi
    od;
    mine = 0;
    if
    :: outcome == OK ->
        cas_state(r, STATE(PUBLISHING, g, me, 0), STATE(PUBLISHED, g, 0, 0));
        d_step { tick(); holds[me] = 0; pin[CHUNK(me) * PINS] = 0 }
    :: else ->
        d_step { assert(outcome != EXISTS || (was_present & BIT(me))) };
        set_pin(0, PIN(OWN, r, g, MY_EPOCH));
        cas_state(r, STATE(PUBLISHING, g, me, 0), STATE(RESERVED, g, me, 0));
        assert(ok);
        cas_state(r, STATE(RESERVED, g, me, 0), STATE(FREE, g + 1, 0, 0));
        assert(ok);
        set_pin(0, 0)
    fi
}

inline store() {
    begin();
    allocate();
    if
    :: got -> publish()
    :: else -> outcome = FULL; set_pin(0, 0)
    fi
}

proctype Storer(byte me) GUARDED {
    LOCALS;
    store();
    end();
    d_step { ended = ended | BIT(me); if :: solo == 10 + me -> solo = 2 :: else fi }
}

/* Worker::evict_to_reuse, and the page goes back; with EVICT_ONLY Worker::evict. */
proctype Evictor(byte me) GUARDED {
    LOCALS;
    begin();
#ifdef EVICT_ONLY
    r = 0;
    do
    :: r < RECORDS -> visit(0); r++
    :: else -> break
    od;
#else
    allocate();
    if
    :: got -> cas_state(r, STATE(RESERVED, g, me, 0), STATE(FREE, g + 1, 0, 0)); assert(ok)
    :: else
    fi;
    set_pin(0, 0);
#endif
    end();
    ended = ended | BIT(me)
}

/* Worker::settle_lease and settle_key_pin, after the pin was announced. `got`: it stands. */
inline settle(kind, number) {
    look = 0;
    got = 0;
    do
    :: look == LOOKS -> break
    :: else ->
        look++;
        d_step { tick(); next = state[r] };
#ifdef NO_RECHECK
        got = 1;
        break;
#endif
        if
        :: GENERATION(next) != g -> break
        :: else ->
            if
            :: PHASE(next) == PUBLISHED -> got = 1; break
            :: PHASE(next) == PUBLISHING -> d_step { tick(); got = (slot[number] == word) }; break
            :: PHASE(next) == RETIRING_DELETE && kind == LEASE -> got = 1; break
            :: PHASE(next) == RETIRING_EVICT || PHASE(next) == RETIRING_DELETE && kind == KEY ->
                cas_state(r, next, BACK(next));
                if
                :: ok -> got = 1; break
                :: else
                fi
            :: else -> break
            fi
        fi
    od
}

/* One slot of retrieve_with or pin_key. */
inline read_in(number, kind) {
    if
    :: !got ->
        d_step { tick(); word = slot[number] };
        if
        :: word != 0 && !S_TENTATIVE(word) ->
            d_step { tick(); r = S_RECORD(word); seen = state[r] };
            if
            :: GENERATION(seen) == S_GENERATION(word) && IS_LIVE(PHASE(seen)) ->
                g = GENERATION(seen);
                set_pin(0, PIN(kind, r, g, MY_EPOCH));
                settle(kind, number)
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

inline read(kind) {
    begin();
    got = 0;
    read_in(0, kind);
    read_in(1, kind);
#if SLOTS > 2
    read_in(2, kind);
#endif
#if SLOTS > 3
    read_in(3, kind);
#endif
    if
    :: got ->
        d_step {
            assert(was_present & BIT(me));
            assert(GENERATION(state[r]) == g);              /* the bytes are those of the object that was found */
            assert(kind == LEASE || live == r + 1);
            holds[me] = (kind == KEY -> r + 9 : r + 1)
        };
        d_step { assert(GENERATION(state[r]) == g); holds[me] = 0; pin[CHUNK(me) * PINS] = 0 }
    :: else ->
        d_step { assert(was_absent & BIT(me)); pin[CHUNK(me) * PINS] = 0 }
    fi
}

proctype Reader(byte me; byte kind) GUARDED {
    LOCALS;
    read(kind);
    end();
    ended = ended | BIT(me)
}

/* One slot of Worker::remove: 0 nothing here, 1 settled, 2 once more. */
#define DELETED 1
#define PINNED 2
#define ONCE_MORE 3

inline delete_in(number) {
    if
    :: outcome == 0 ->
        d_step { tick(); word = slot[number] };
        if
        :: word != 0 && !S_TENTATIVE(word) ->
            d_step { tick(); r = S_RECORD(word); seen = state[r] };
            if
            :: GENERATION(seen) == S_GENERATION(word) && IS_LIVE(PHASE(seen)) ->
                d_step { tick(); g = GENERATION(seen); seen = state[r] };      /* the second look, then its slot */
                d_step { tick(); ok = (GENERATION(seen) == g && slot[number] == word) };
                if
                :: !ok -> outcome = ONCE_MORE
                :: else -> remove_one()
                fi
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

inline remove_one() {
    outcome = ONCE_MORE;
    next = 0;
    if
    :: PHASE(seen) == PUBLISHING -> cas_state(r, seen, STATE(PUBLISHED, g, 0, 0))
    :: PHASE(seen) == PUBLISHED || PHASE(seen) == RETIRING_EVICT ->
        set_pin(0, PIN(OWN, r, g, MY_EPOCH));
        cas_state(r, seen, STATE(RETIRING_DELETE, g, me, RAISED(seen)));
        if
        :: ok -> next = STATE(RETIRING_DELETE, g, me, RAISED(seen))
        :: else
        fi
    :: PHASE(seen) == RETIRING_DELETE -> set_pin(0, PIN(OWN, r, g, MY_EPOCH)); next = seen
    :: else
    fi;
    if
    :: next != 0 ->
        scan(r, g, 1);
        if
        :: ok ->
            cas_state(r, next, BACK(next));
            if
            :: ok -> outcome = PINNED
            :: else
            fi
        :: else ->
            seen = STATE(RETIRED, g, 0, ATTEMPT(next));
            cas_state(r, next, seen);
            if
            :: ok -> outcome = DELETED; reclaim(r, seen, 0)
            :: else
            fi
        fi
    :: else
    fi
}

proctype Deleter(byte me) GUARDED {
    LOCALS;
    begin();
    do
    :: outcome = 0;
        delete_in(0);
        delete_in(1);
#if SLOTS > 2
        delete_in(2);
#endif
#if SLOTS > 3
        delete_in(3);
#endif
        if
        :: outcome != ONCE_MORE || round == 2 -> break      /* retire_rounds_max; then it answers "pinned" */
        :: else -> round++
        fi
    od;
    atomic {
        skip;
        d_step {
            assert(outcome != 0 || (was_absent & BIT(me)));
            assert(outcome != DELETED || (was_present & BIT(me)));
            pin[CHUNK(me) * PINS] = 0
        }
    };
    end();
    ended = ended | BIT(me)
}
