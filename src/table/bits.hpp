// The packed words of the control region: what each compare-and-swap compares.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/mutant.hpp"
#include "table/limits.hpp"

namespace maru::table {

template <int Shift, int Width>
struct Field {
    static constexpr std::uint64_t mask = Width == 64 ? ~0ull : (1ull << Width) - 1;
    static constexpr std::uint64_t get(std::uint64_t word) { return word >> Shift & mask; }
    static constexpr std::uint64_t put(std::uint64_t value) { return (value & mask) << Shift; }
};

/// Who acts: a client slot together with the low bits of its generation. Slot 0 is nobody.
struct Owner {
    std::uint16_t slot = 0;
    std::uint8_t generation = 0;  // low owner_generation_bits of the slot's generation

    static constexpr Owner of(std::uint32_t slot, std::uint32_t generation) {
        return {static_cast<std::uint16_t>(slot),
                static_cast<std::uint8_t>(generation & ((1u << owner_generation_bits) - 1))};
    }
    friend constexpr bool operator==(Owner, Owner) = default;
};

/// Phases of a page record. A zeroed record is SEALED: it belongs to no region yet.
enum class Phase : std::uint8_t {
    sealed = 0,
    free = 1,
    reserved = 2,    // owner
    publishing = 3,  // owner
    published = 4,
    retiring_evict = 5,   // retirer
    retiring_delete = 6,  // retirer
    retired = 7,
    bad = 8,
};
inline constexpr int phase_count = 9;
const char* name_of(Phase phase);

/// An object in this phase can be found by its key (its slot must be final and of this generation).
constexpr bool is_live(Phase phase) {
    return phase == Phase::publishing || phase == Phase::published || phase == Phase::retiring_evict ||
           phase == Phase::retiring_delete;
}

/// State word of a page record: phase 4, attempt 12, owner slot 10, owner generation 6, generation 32.
struct State {
    Phase phase = Phase::sealed;
    std::uint16_t attempt = 0;
    Owner owner;
    std::uint32_t generation = 0;

    using PhaseField = Field<0, phase_bits>;
    using AttemptField = Field<phase_bits, attempt_bits>;
    using SlotField = Field<phase_bits + attempt_bits, owner_slot_bits>;
    using OwnerField = Field<phase_bits + attempt_bits + owner_slot_bits, owner_generation_bits>;
    using GenerationField = Field<32, 32>;

    static constexpr State unpack(std::uint64_t word) {
        return {static_cast<Phase>(PhaseField::get(word)),
                static_cast<std::uint16_t>(AttemptField::get(word)),
                Owner{static_cast<std::uint16_t>(SlotField::get(word)),
                      static_cast<std::uint8_t>(OwnerField::get(word))},
                static_cast<std::uint32_t>(GenerationField::get(word))};
    }
    constexpr std::uint64_t pack() const {
        return PhaseField::put(static_cast<std::uint64_t>(phase)) | AttemptField::put(attempt) |
               SlotField::put(owner.slot) | OwnerField::put(owner.generation) |
               GenerationField::put(generation);
    }
};

constexpr std::uint64_t state_word(Phase phase, std::uint32_t generation, Owner owner = {},
                                   std::uint32_t attempt = 0) {
    return State{phase, static_cast<std::uint16_t>(attempt), owner, generation}.pack();
}
constexpr Phase phase_of(std::uint64_t word) {
    return static_cast<Phase>(State::PhaseField::get(word));
}
constexpr std::uint32_t generation_of(std::uint64_t word) {
    return static_cast<std::uint32_t>(State::GenerationField::get(word));
}

/// Index slot: tentative 1, tag 11, generation 24, record 28. Zero is an empty slot.
namespace slot {
using Record = Field<0, record_bits>;
using Generation = Field<record_bits, slot_generation_bits>;
using Tag = Field<record_bits + slot_generation_bits, slot_tag_bits>;
using Tentative = Field<63, 1>;

constexpr std::uint64_t pack(bool tentative, std::uint32_t tag, std::uint32_t generation,
                             std::uint32_t record) {
    return Tentative::put(tentative) | Tag::put(tag) | Generation::put(generation) | Record::put(record);
}
constexpr bool is_tentative(std::uint64_t word) {
    return Tentative::get(word) != 0;
}
constexpr std::uint32_t record(std::uint64_t word) {
    return static_cast<std::uint32_t>(Record::get(word));
}
constexpr std::uint32_t tag(std::uint64_t word) {
    return static_cast<std::uint32_t>(Tag::get(word));
}
/// The slot was made for this generation of the record, as far as its bits can tell.
constexpr bool same_generation(std::uint64_t word, std::uint32_t generation) {
    if (!std::is_constant_evaluated() && mutant(Mutant::generation_three_bits))
        return ((Generation::get(word) ^ generation) & 7) == 0;
    return Generation::get(word) == (generation & Generation::mask);
}
}  // namespace slot

enum class PinKind : std::uint8_t { none = 0, lease = 1, key = 2, own = 3 };

/// Pin word: kind 2, sequence 8, chunk epoch 8, generation 18, record 28. Zero is a free pin slot.
namespace pin {
using Record = Field<0, record_bits>;
using Generation = Field<record_bits, pin_generation_bits>;
using Epoch = Field<record_bits + pin_generation_bits, pin_epoch_bits>;
using Sequence = Field<record_bits + pin_generation_bits + pin_epoch_bits, pin_sequence_bits>;
using Kind = Field<62, pin_kind_bits>;

constexpr std::uint64_t pack(PinKind kind, std::uint32_t sequence, std::uint32_t epoch,
                             std::uint32_t generation, std::uint32_t record) {
    return Kind::put(static_cast<std::uint64_t>(kind)) | Sequence::put(sequence) | Epoch::put(epoch) |
           Generation::put(generation) | Record::put(record);
}
constexpr PinKind kind(std::uint64_t word) {
    return static_cast<PinKind>(Kind::get(word));
}
constexpr std::uint32_t record(std::uint64_t word) {
    return static_cast<std::uint32_t>(Record::get(word));
}
constexpr bool same_generation(std::uint64_t word, std::uint32_t generation) {
    return Generation::get(word) == (generation & Generation::mask);
}
/// The word protects the object in this generation of the record against a scan that looks for `keys_only`.
constexpr bool protects(std::uint64_t word, std::uint32_t record, std::uint32_t generation, bool keys_only) {
    if (Record::get(word) != record || !same_generation(word, generation)) return false;
    return kind(word) == PinKind::key || (!keys_only && kind(word) == PinKind::lease);
}
}  // namespace pin

/// Names one pin from outside: what a view or a page handle carries.
/// Generation 32, sequence 8, index in its chunk 6, chunk 18. Zero names nothing (generations of
/// announced pins start at 1).
struct PinToken {
    using Chunk = Field<0, 18>;
    using Index = Field<18, 6>;
    using Sequence = Field<24, 8>;
    using Generation = Field<32, 32>;
};

/// `last` of a record: the youngest epoch in which somebody took a lease, and whether a key pin may exist.
namespace last {
inline constexpr std::uint64_t key_pinned = 1ull << 63;
inline constexpr std::uint64_t epoch_mask = key_pinned - 1;
/// An epoch that no bound ever passes: the record is scanned until its page is given up.
inline constexpr std::uint64_t always_scan = epoch_mask;
}  // namespace last

/// Owner word of a pin chunk, holder word of a region: valid bit, client slot, whole slot generation.
namespace holder {
using Generation = Field<0, 32>;
using Slot = Field<32, 16>;
using Valid = Field<63, 1>;
constexpr std::uint64_t pack(std::uint32_t slot, std::uint32_t generation) {
    return Valid::put(1) | Slot::put(slot) | Generation::put(generation);
}
constexpr std::uint32_t slot(std::uint64_t word) {
    return static_cast<std::uint32_t>(Slot::get(word));
}
constexpr std::uint32_t generation(std::uint64_t word) {
    return static_cast<std::uint32_t>(Generation::get(word));
}
}  // namespace holder

/// Claim word of an overflow bucket: 0 free, 1 linked for good, else being linked by an owner to a parent.
namespace overflow_claim {
using Parent = Field<0, 40>;
using OwnerGeneration = Field<40, owner_generation_bits>;
using OwnerSlot = Field<46, owner_slot_bits>;
using Valid = Field<63, 1>;
inline constexpr std::uint64_t linked = 1;
constexpr std::uint64_t pack(Owner owner, std::uint64_t parent) {
    return Valid::put(1) | OwnerSlot::put(owner.slot) | OwnerGeneration::put(owner.generation) |
           Parent::put(parent);
}
constexpr bool in_progress(std::uint64_t word) {
    return Valid::get(word) != 0;
}
constexpr Owner owner(std::uint64_t word) {
    return {static_cast<std::uint16_t>(OwnerSlot::get(word)),
            static_cast<std::uint8_t>(OwnerGeneration::get(word))};
}
}  // namespace overflow_claim

/// Phases of a region (an entry stands for its first unit; further units of a run are `part`).
enum class RegionPhase : std::uint8_t {
    free = 0,
    formatting = 1,
    held = 2,
    draining = 3,
    sealing = 4,
    part = 5
};
const char* name_of(RegionPhase phase);

/// State word of a region: phase 4, owner of a format or seal in progress 16, epoch 32.
struct RegionState {
    RegionPhase phase = RegionPhase::free;
    Owner owner;
    std::uint32_t epoch = 0;  // goes up with each change of phase

    using PhaseField = Field<0, 4>;
    using SlotField = Field<4, owner_slot_bits>;
    using OwnerField = Field<4 + owner_slot_bits, owner_generation_bits>;
    using EpochField = Field<32, 32>;

    static constexpr RegionState unpack(std::uint64_t word) {
        return {static_cast<RegionPhase>(PhaseField::get(word)),
                Owner{static_cast<std::uint16_t>(SlotField::get(word)),
                      static_cast<std::uint8_t>(OwnerField::get(word))},
                static_cast<std::uint32_t>(EpochField::get(word))};
    }
    constexpr std::uint64_t pack() const {
        return PhaseField::put(static_cast<std::uint64_t>(phase)) | SlotField::put(owner.slot) |
               OwnerField::put(owner.generation) | EpochField::put(epoch);
    }
};

/// Claim word of a granule of page records: valid, owner, low bits of the region's epoch, region.
namespace granule_claim {
using Region = Field<0, 32>;
using Epoch = Field<32, 15>;
using OwnerGeneration = Field<47, owner_generation_bits>;
using OwnerSlot = Field<53, owner_slot_bits>;
using Valid = Field<63, 1>;
constexpr std::uint64_t pack(std::uint32_t region, std::uint32_t epoch, Owner owner) {
    return Valid::put(1) | Region::put(region) | Epoch::put(epoch) | OwnerGeneration::put(owner.generation) |
           OwnerSlot::put(owner.slot);
}
constexpr std::uint32_t region(std::uint64_t word) {
    return static_cast<std::uint32_t>(Region::get(word));
}
constexpr Owner owner(std::uint64_t word) {
    return {static_cast<std::uint16_t>(OwnerSlot::get(word)),
            static_cast<std::uint8_t>(OwnerGeneration::get(word))};
}
}  // namespace granule_claim

/// Phases of a client slot.
enum class ClientPhase : std::uint8_t {
    free = 0,
    connecting = 1,   // given out by a daemon; may be taken back
    active = 2,       // the client's own compare-and-swap
    quarantined = 3,  // gone without proof of death: its pages and leases stay, its calls are refused
    dead = 4,         // proven dead: a sweep is due or under way
};
const char* name_of(ClientPhase phase);

/// State word of a client slot: phase 4, generation 32. While CONNECTING it also names the host whose daemon
/// gave the slot out: the fields of the entry are filled only after the compare-and-swap that takes it.
namespace client_state {
using PhaseField = Field<0, 4>;
using ConnectingHost = Field<4, host_bits>;
using Generation = Field<32, 32>;
constexpr std::uint64_t pack(ClientPhase phase, std::uint32_t generation) {
    return PhaseField::put(static_cast<std::uint64_t>(phase)) | Generation::put(generation);
}
constexpr std::uint64_t connecting(std::uint32_t generation, std::uint32_t host) {
    return pack(ClientPhase::connecting, generation) | ConnectingHost::put(host);
}
constexpr std::uint32_t connecting_host(std::uint64_t word) {
    return static_cast<std::uint32_t>(ConnectingHost::get(word));
}
constexpr ClientPhase phase(std::uint64_t word) {
    return static_cast<ClientPhase>(PhaseField::get(word));
}
constexpr std::uint32_t generation(std::uint64_t word) {
    return static_cast<std::uint32_t>(Generation::get(word));
}
}  // namespace client_state

/// Phases of a host entry.
enum class HostPhase : std::uint8_t {
    free = 0,
    active = 1,   // its daemon beats, or did so less than the grace ago
    fenced = 2,   // silent for longer than the grace: its clients are quarantined
    left = 3,     // ended in good order, with no client left
    joining = 4,  // taken, not yet filled
};
const char* name_of(HostPhase phase);

/// State word of a host entry: phase 4, generation 32; the generation goes up with each daemon that enters.
namespace host_state {
using PhaseField = Field<0, 4>;
using Generation = Field<32, 32>;
constexpr std::uint64_t pack(HostPhase phase, std::uint32_t generation) {
    return PhaseField::put(static_cast<std::uint64_t>(phase)) | Generation::put(generation);
}
constexpr HostPhase phase(std::uint64_t word) {
    return static_cast<HostPhase>(PhaseField::get(word));
}
constexpr std::uint32_t generation(std::uint64_t word) {
    return static_cast<std::uint32_t>(Generation::get(word));
}
}  // namespace host_state

/// State word of a namespace entry. The generation of the id is mixed into hash and compare.
namespace namespace_state {
using InUse = Field<0, 1>;
using Flushing = Field<1, 1>;  // objects of an epoch before the present one may be left
using Removing = Field<2, 1>;  // nobody may enter; it goes when nothing is left in it
using Generation = Field<32, 32>;
constexpr bool is_sound(std::uint64_t word) {
    return (word & 0xffffffff) < 8 && (InUse::get(word) != 0 || (word & 0xffffffff) == 0);
}
}  // namespace namespace_state

/// Which half of a namespace's members counts, and how many of each kind stand there, in this order. One
/// store of this word changes the rules as a whole.
namespace namespace_rules {
using Half = Field<0, 1>;
using Users = Field<1, 5>;
using Groups = Field<6, 5>;
using Readers = Field<11, 5>;
using ByAdministrator = Field<16, 1>;  // the last change of quota or rules did not come from a config
constexpr bool is_sound(std::uint64_t word) {
    return word >> 17 == 0 && Users::get(word) + Groups::get(word) + Readers::get(word) <= 16;
}
}  // namespace namespace_rules

}  // namespace maru::table
