#include "table/poison.hpp"

namespace maru::table {

bool poison_object(Worker& worker, const View& view) {
    if (!worker.retire_damaged(view)) return false;
    // Our own lease keeps the record from becoming FREE. Who tries to take it nevertheless loses this
    // compare-and-swap or wins it, and then meets the bad page in a store of its own.
    Word64& state = worker.control().record(view.record).state;
    for (int round = 0; round < retire_rounds_max; ++round) {
        const std::uint64_t word = state.load(shm::acquire);
        if (phase_of(word) != Phase::retired || generation_of(word) != view.generation) return false;
        if (state.compare_exchange(word, state_word(Phase::bad, view.generation + 1))) return true;
    }
    return false;
}

bool poison_page(Worker& worker, const Page& page) {
    const Control& control = worker.control();
    if (page.record == 0 || page.record >= control.record_count()) return false;
    const std::uint64_t reserved = state_word(Phase::reserved, page.generation, worker.identity().owner());
    if (!control.record(page.record)
             .state.compare_exchange(reserved, state_word(Phase::bad, page.generation + 1)))
        return false;
    PinSlot slot;
    if (page.token != 0 && worker.pins().find(page.token, &slot)) worker.pins().clear(slot);
    return true;
}

}  // namespace maru::table
