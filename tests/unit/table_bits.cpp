// Packed words keep every field apart at its extremes.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "table/bits.hpp"

using namespace maru::table;

TEST_SUITE("table bits") {
    TEST_CASE("a state word gives back what was packed, at the extremes of each field") {
        for (const std::uint32_t generation : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu})
            for (const std::uint32_t slot : {0u, 1u, max_clients - 1})
                for (const std::uint32_t owner_generation : {0u, 1u, 63u})
                    for (const std::uint32_t attempt : {0u, 1u, 4095u})
                        for (int phase = 0; phase < phase_count; ++phase) {
                            const auto word = state_word(static_cast<Phase>(phase), generation,
                                                         Owner::of(slot, owner_generation), attempt);
                            const State state = State::unpack(word);
                            REQUIRE(state.phase == static_cast<Phase>(phase));
                            REQUIRE(state.generation == generation);
                            REQUIRE(state.owner == Owner::of(slot, owner_generation));
                            REQUIRE(state.attempt == attempt);
                            REQUIRE(state.pack() == word);
                            REQUIRE(phase_of(word) == state.phase);
                            REQUIRE(generation_of(word) == generation);
                        }
    }

    TEST_CASE("the attempt counter wraps into itself and touches nothing else") {
        State state = State::unpack(state_word(Phase::published, 7, Owner::of(3, 5), 4095));
        ++state.attempt;
        const State wrapped = State::unpack(state.pack());
        CHECK(wrapped.attempt == 0);
        CHECK(wrapped.generation == 7);
        CHECK(wrapped.owner == Owner::of(3, 5));
        CHECK(wrapped.phase == Phase::published);
    }

    TEST_CASE("an owner keeps the low bits of its slot's generation") {
        CHECK(Owner::of(9, 64 + 5) == Owner::of(9, 5));
        CHECK_FALSE(Owner::of(9, 5) == Owner::of(9, 6));
        CHECK_FALSE(Owner::of(8, 5) == Owner::of(9, 5));
    }

    TEST_CASE("a zero word means empty everywhere") {
        CHECK(State::unpack(0).phase == Phase::sealed);
        CHECK_FALSE(slot::is_tentative(0));
        CHECK(slot::record(0) == 0);
        CHECK(pin::kind(0) == PinKind::none);
        CHECK(RegionState::unpack(0).phase == RegionPhase::free);
        CHECK(client_state::phase(0) == ClientPhase::free);
        CHECK_FALSE(overflow_claim::in_progress(0));
        CHECK_FALSE(is_live(State::unpack(0).phase));
    }

    TEST_CASE("what names slot 0 and generation 0 still differs from an empty word") {
        CHECK(holder::pack(0, 0) != 0);
        CHECK(overflow_claim::pack({}, 0) != 0);
        CHECK(overflow_claim::pack({}, 0) != overflow_claim::linked);
        CHECK(granule_claim::pack(0, 0, {}) != 0);
    }

    TEST_CASE("an index slot keeps tag, generation and record apart") {
        for (const bool tentative : {false, true})
            for (const std::uint32_t tag : {0u, 1u, 2047u})
                for (const std::uint32_t generation : {0u, 1u, (1u << 24) - 1})
                    for (const std::uint32_t record : {1u, max_records - 1}) {
                        const auto word = slot::pack(tentative, tag, generation, record);
                        REQUIRE(slot::is_tentative(word) == tentative);
                        REQUIRE(slot::tag(word) == tag);
                        REQUIRE(slot::record(word) == record);
                        REQUIRE(slot::same_generation(word, generation));
                        REQUIRE_FALSE(slot::same_generation(word, generation + 1));
                    }
        CHECK((slot::pack(true, 5, 6, 7) ^ slot::pack(false, 5, 6, 7)) == 1ull << 63);
    }

    TEST_CASE("a slot compares the bits of a generation that it has") {
        CHECK(slot::same_generation(slot::pack(false, 0, 0xffffffff, 1), 0x00ffffff));
        CHECK(slot::same_generation(slot::pack(false, 0, 0x01000003, 1), 3));
    }

    TEST_CASE("a pin word keeps kind, sequence, epoch, generation and record apart") {
        for (const auto kind : {PinKind::lease, PinKind::key, PinKind::own})
            for (const std::uint32_t sequence : {0u, 255u})
                for (const std::uint32_t epoch : {0u, 255u})
                    for (const std::uint32_t generation : {0u, (1u << 18) - 1})
                        for (const std::uint32_t record : {1u, max_records - 1}) {
                            const auto word = pin::pack(kind, sequence, epoch, generation, record);
                            REQUIRE(pin::kind(word) == kind);
                            REQUIRE(pin::Sequence::get(word) == sequence);
                            REQUIRE(pin::Epoch::get(word) == epoch);
                            REQUIRE(pin::record(word) == record);
                            REQUIRE(pin::same_generation(word, generation));
                        }
    }

    TEST_CASE("what a pin protects: its record and generation, by kind") {
        const auto lease = pin::pack(PinKind::lease, 1, 1, 9, 5);
        const auto key = pin::pack(PinKind::key, 1, 1, 9, 5);
        const auto own = pin::pack(PinKind::own, 1, 1, 9, 5);

        CHECK(pin::protects(lease, 5, 9, false));
        CHECK_FALSE(pin::protects(lease, 5, 9, true));  // a delete looks at key pins only
        CHECK(pin::protects(key, 5, 9, false));
        CHECK(pin::protects(key, 5, 9, true));
        CHECK_FALSE(pin::protects(own, 5, 9, false));  // an announcement protects nothing
        CHECK_FALSE(pin::protects(own, 5, 9, true));
        CHECK_FALSE(pin::protects(lease, 6, 9, false));
        CHECK_FALSE(pin::protects(lease, 5, 10, false));
        CHECK_FALSE(pin::protects(0, 0, 0, false));
        // 18 bits of generation: a wrap only delays
        CHECK(pin::protects(lease, 5, 9 + (1u << 18), false));
    }

    TEST_CASE("a token names chunk, index, sequence and generation") {
        const std::uint64_t token = PinToken::Chunk::put(max_pin_chunks - 1) |
                                    PinToken::Index::put(pins_per_chunk - 1) | PinToken::Sequence::put(255) |
                                    PinToken::Generation::put(0xffffffff);
        CHECK(token == ~0ull);
        CHECK(PinToken::Chunk::get(token) == max_pin_chunks - 1);
        CHECK(PinToken::Index::get(PinToken::Index::put(17)) == 17);
        CHECK(PinToken::Chunk::get(PinToken::Index::put(17)) == 0);
    }

    TEST_CASE("holder, overflow claim and granule claim give back what was packed") {
        for (const std::uint32_t slot : {0u, 1u, max_clients - 1})
            for (const std::uint32_t generation : {0u, 1u, 0xffffffffu}) {
                const auto word = holder::pack(slot, generation);
                REQUIRE(holder::slot(word) == slot);
                REQUIRE(holder::generation(word) == generation);

                const Owner owner = Owner::of(slot, generation);
                const auto claim = overflow_claim::pack(owner, (1ull << 40) - 1);
                REQUIRE(overflow_claim::in_progress(claim));
                REQUIRE(overflow_claim::owner(claim) == owner);
                REQUIRE(overflow_claim::Parent::get(claim) == (1ull << 40) - 1);

                const auto granule = granule_claim::pack(max_units - 1, 0x7fff, owner);
                REQUIRE(granule_claim::region(granule) == max_units - 1);
                REQUIRE(granule_claim::owner(granule) == owner);
                REQUIRE(granule_claim::Epoch::get(granule) == 0x7fff);
            }
        CHECK_FALSE(overflow_claim::in_progress(overflow_claim::linked));
    }

    TEST_CASE("region and client words give back what was packed") {
        for (const auto phase : {RegionPhase::free, RegionPhase::formatting, RegionPhase::held,
                                 RegionPhase::draining, RegionPhase::sealing, RegionPhase::part})
            for (const std::uint32_t epoch : {0u, 0xffffffffu}) {
                const RegionState state{phase, Owner::of(max_clients - 1, 63), epoch};
                const RegionState back = RegionState::unpack(state.pack());
                REQUIRE(back.phase == phase);
                REQUIRE(back.owner == state.owner);
                REQUIRE(back.epoch == epoch);
            }
        for (const auto phase : {ClientPhase::free, ClientPhase::connecting, ClientPhase::active,
                                 ClientPhase::quarantined, ClientPhase::dead}) {
            const auto word = client_state::pack(phase, 0xffffffff);
            REQUIRE(client_state::phase(word) == phase);
            REQUIRE(client_state::generation(word) == 0xffffffff);
        }
    }

    TEST_CASE("`last` has a flag and an epoch that no bound passes") {
        CHECK((last::key_pinned & last::epoch_mask) == 0);
        CHECK((last::key_pinned | last::epoch_mask) == ~0ull);
        CHECK((last::always_scan & last::key_pinned) == 0);
    }

    TEST_CASE("live phases are those in which a key can be found") {
        CHECK(is_live(Phase::publishing));
        CHECK(is_live(Phase::published));
        CHECK(is_live(Phase::retiring_evict));  // undecided: live for everybody
        CHECK(is_live(Phase::retiring_delete));
        for (const auto phase : {Phase::sealed, Phase::free, Phase::reserved, Phase::retired, Phase::bad})
            CHECK_FALSE(is_live(phase));
    }

    TEST_CASE("each phase has a name of its own, and an impossible one does not crash") {
        std::set<std::string> names;
        for (int phase = 0; phase < phase_count; ++phase)
            names.insert(name_of(static_cast<Phase>(phase)));
        CHECK(names.size() == phase_count);
        CHECK(names.count(name_of(static_cast<Phase>(15))) == 0);
        CHECK(std::string(name_of(static_cast<RegionPhase>(15))) == "unknown");
        CHECK(std::string(name_of(static_cast<ClientPhase>(15))) == "unknown");
    }
}
