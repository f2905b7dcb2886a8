#include "daemon/admin/census.hpp"

#include <algorithm>

#include "daemon/admin/pinned.hpp"

namespace maru::daemon {
namespace {

constexpr std::uint32_t records_a_step = 256;
constexpr std::chrono::milliseconds good_for{1000};

bool is_reserved(table::Phase phase) {
    return phase == table::Phase::reserved || phase == table::Phase::publishing;
}

}  // namespace

void PageTally::add(const PageTally& other, std::uint64_t unit) {
    free += other.free * unit;
    reserved += other.reserved * unit;
    quarantined += other.quarantined * unit;
    published += other.published * unit;
    retired += other.retired * unit;
    sealed += other.sealed * unit;
    bad += other.bad * unit;
    pinned += other.pinned * unit;
    value_bytes += other.value_bytes;
}

Census::Census(const table::Control& control) : control_(control) {
    latest_.clients.resize(control.client_count());
}

bool Census::refresh(Deadline deadline) {
    const auto now = MonotonicClock::now();
    if (stage_ == Stage::idle) {
        if (!took_one_call_ && now - finished_ < good_for) return true;
        begin();
        took_one_call_ = true;
    } else {
        took_one_call_ = false;
    }
    while (stage_ != Stage::idle) {
        step();
        if (stage_ != Stage::idle && MonotonicClock::now() >= deadline) return false;
    }
    return true;
}

void Census::begin() {
    under_way_ = {};
    under_way_.clients.resize(control_.client_count());
    for (std::uint32_t slot = 1; slot < control_.client_count(); ++slot) {
        // acquire: with the release of who changes the slot's phase
        const auto word = control_.client(slot).state.load(shm::acquire);
        under_way_.clients[slot].phase = table::client_state::phase(word);
        under_way_.clients[slot].generation = table::client_state::generation(word);
    }
    pins_.clear();
    pin_ = 0;
    chunk_ = region_ = page_ = 0;
    chunk_end_ = pin_chunks_in_use(control_);
    in_region_ = false;
    records_done_ = 0;
    stage_ = Stage::pins;
}

void Census::step() {
    if (stage_ == Stage::pins) {
        for (int i = 0; i < 64 && chunk_ < chunk_end_; ++i)
            count_chunk(chunk_++);
        if (chunk_ < chunk_end_) return;
        std::sort(pins_.begin(), pins_.end());
        pins_.erase(std::unique(pins_.begin(), pins_.end()), pins_.end());
        stage_ = Stage::regions;
    } else if (stage_ == Stage::regions) {
        for (int i = 0; i < 64 && !in_region_ && region_ < control_.region_count(); ++i)
            begin_region(region_++);
        if (in_region_) return count_records();
        if (region_ >= control_.region_count()) stage_ = Stage::pinned;
    } else {
        for (int i = 0; i < 256 && pin_ < pins_.size(); ++i)
            count_pinned(pins_[pin_++]);
        if (pin_ >= pins_.size()) finish();
    }
}

void Census::count_chunk(std::uint32_t number) {
    std::uint64_t owner = 0;
    visit_pins(control_, number, &owner, [&](std::uint64_t word) {
        const auto kind = table::pin::kind(word);
        const auto slot = table::holder::slot(owner);
        if (kind == table::PinKind::own || kind == table::PinKind::none) return;
        const bool lease = kind == table::PinKind::lease;
        (lease ? under_way_.leases : under_way_.key_pins) += 1;
        if (slot < under_way_.clients.size())
            (lease ? under_way_.clients[slot].leases : under_way_.clients[slot].key_pins) += 1;
        pins_.push_back(pinned_object(word));
    });
    if (owner == 0) return;
    ++under_way_.pin_chunks;
    if (table::holder::slot(owner) < under_way_.clients.size())
        ++under_way_.clients[table::holder::slot(owner)].pin_chunks;
}

void Census::begin_region(std::uint32_t number) {
    const auto view = table::read_region(control_, number);
    if (!view || view->first_record >= control_.record_count()) return;
    RegionTally tally;
    tally.view = *view;
    tally.view.page_count = std::min(view->page_count, control_.record_count() - view->first_record);
    if (view->holder != 0) {
        const auto slot = table::holder::slot(view->holder);
        if (slot < under_way_.clients.size() &&
            under_way_.clients[slot].generation == table::holder::generation(view->holder)) {
            ++under_way_.clients[slot].regions;
            under_way_.clients[slot].region_bytes += std::uint64_t{view->unit_count} * control_.region_unit();
        }
    }
    under_way_.regions.push_back(tally);
    page_ = 0;
    in_region_ = tally.view.page_count > 0;
}

void Census::count_records() {
    auto& region = under_way_.regions.back();
    const auto end = std::min(region.view.page_count, page_ + records_a_step);
    records_done_ += end - page_;
    for (; page_ < end; ++page_) {
        const auto& record = control_.record(region.view.first_record + page_);
        const auto state = table::State::unpack(record.state.load(shm::relaxed));
        if (is_reserved(state.phase)) {
            const bool known = state.owner.slot < under_way_.clients.size();
            ClientTally* client = known ? &under_way_.clients[state.owner.slot] : nullptr;
            const bool owns =
                client != nullptr && table::Owner::of(state.owner.slot, client->generation) == state.owner;
            if (owns) client->reserved_bytes += region.page_bytes();
            const bool quarantined = owns && client->phase == table::ClientPhase::quarantined;
            ++(quarantined ? region.pages.quarantined : region.pages.reserved);
            continue;
        }
        switch (state.phase) {
            case table::Phase::sealed:
                ++region.pages.sealed;
                break;
            case table::Phase::free:
                ++region.pages.free;
                break;
            case table::Phase::retired:
                ++region.pages.retired;
                break;
            case table::Phase::bad:
                ++region.pages.bad;
                break;
            default:
                ++region.pages.published;
                region.pages.value_bytes += std::min(record.length.load(shm::relaxed), region.page_bytes());
        }
    }
    in_region_ = page_ < region.view.page_count;
}

void Census::count_pinned(std::uint64_t pin) {
    const auto number = table::pin::record(pin);
    if (number == 0 || number >= control_.record_count()) return;
    const auto& record = control_.record(number);
    const auto word = record.state.load(shm::relaxed);
    if (!table::pin::same_generation(pin, table::generation_of(word))) return;
    if (!table::is_live(table::phase_of(word)) && table::phase_of(word) != table::Phase::retired) return;
    const auto region = std::lower_bound(
        under_way_.regions.begin(), under_way_.regions.end(), record.region.load(shm::relaxed),
        [](const RegionTally& tally, std::uint32_t wanted) { return tally.view.number < wanted; });
    if (region != under_way_.regions.end() && region->view.number == record.region.load(shm::relaxed))
        ++region->pages.pinned;
}

void Census::finish() {
    latest_ = std::move(under_way_);
    under_way_ = {};
    finished_ = MonotonicClock::now();
    stage_ = Stage::idle;
}

}  // namespace maru::daemon
