#include "client/memory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>

#include "table/pools.hpp"

namespace maru::client {
namespace {

const char* kind_name(std::uint32_t kind) {
    static constexpr const char* names[] = {"unknown", "devdax", "fsdax", "shm", "hugetlb", "numa"};
    return kind < std::size(names) ? names[kind] : names[0];
}

// A file that is shorter than announced would end in SIGBUS at some later access.
Result<void> check_size(int descriptor, const wire::PoolDescription& pool) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0)
        return Error{Code::damaged, "pool '" + pool.name + "': its descriptor cannot be examined"};
    if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) >= pool.offset + pool.bytes)
        return {};
    return Error{Code::damaged,
                 "pool '" + pool.name + "' is announced with " + format_size(pool.bytes) + ", its file has " +
                     format_size(static_cast<std::uint64_t>(status.st_size)) + ": was it truncated?"};
}

}  // namespace

Result<std::unique_ptr<Memory::Mapped>> Memory::map_pool(int descriptor,
                                                         const wire::PoolDescription& description) {
    const std::uint64_t alignment = description.alignment;
    if (description.bytes == 0 || !std::has_single_bit(alignment) || alignment < 4096 || alignment > GiB ||
        description.bytes % alignment != 0 || description.offset % alignment != 0 ||
        description.offset > INT64_MAX - std::min<std::uint64_t>(description.bytes, INT64_MAX))
        return Error{Code::damaged, "pool '" + description.name + "' is announced with " +
                                        std::to_string(description.bytes) + " bytes at " +
                                        std::to_string(description.offset) + " and alignment " +
                                        std::to_string(alignment)};
    if (auto whole = check_size(descriptor, description); !whole) return whole.error();
    const std::string what = "pool '" + description.name + "'";
    auto mapping =
        shm::Mapping::map(descriptor, description.offset, description.bytes, what.c_str(), alignment);
    if (!mapping) return mapping.error();
    auto mapped = std::make_unique<Mapped>();
    mapped->uuid = description.uuid;
    mapped->alignment = alignment;
    mapped->mapping = std::move(*mapping);
    mapped->facts = {description.bytes, description.name, description.path, kind_name(description.kind),
                     mapped->mapping.data()};
    return mapped;
}

Result<std::unique_ptr<Memory>> Memory::map(const wire::Welcome& welcome, std::span<const Descriptor> pools) {
    if (pools.empty() || pools.size() != welcome.pools.size() || pools.size() > table::max_pools)
        return Error{Code::damaged, "the daemon announced " + std::to_string(welcome.pools.size()) +
                                        " pools and passed " + std::to_string(pools.size())};
    auto memory = std::make_unique<Memory>();
    Slots mapped;
    for (std::size_t p = 0; p < pools.size(); ++p) {
        auto pool = map_pool(pools[p].get(), welcome.pools[p]);
        if (!pool) return pool.error();
        mapped.push_back(std::move(*pool));
    }
    if (auto bound = memory->bind(welcome, std::move(mapped)); !bound) return bound.error();
    return memory;
}

std::span<std::byte> Memory::control_bytes() const {
    return pools_[0]->mapping.bytes().first(control_->control_bytes());
}

std::uint32_t Memory::pool_count() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::uint32_t>(pools_.size());
}

const Memory::Pool* Memory::pool(std::uint32_t number) const {
    static const Pool none;
    const std::lock_guard lock(mutex_);
    if (number >= pools_.size()) return nullptr;
    return pools_[number] ? &pools_[number]->facts : &none;
}

bool Memory::is_unknown(std::uint32_t region) const {
    for (std::uint32_t p = 0; p < control_->pool_count(); ++p) {
        const auto pool = table::read_pool(*control_, p);
        if (!pool || !table::is_live(pool->state) || region < pool->first_unit ||
            region - pool->first_unit >= pool->unit_count)
            continue;
        const std::lock_guard lock(mutex_);
        return p >= pools_.size() || !pools_[p] || pools_[p]->uuid != pool->uuid;
    }
    return false;
}

void Memory::enter(std::uint32_t number, std::unique_ptr<Mapped> pool) {
    const auto view = table::read_pool(*control_, number);
    const auto bytes = pool->mapping.bytes();
    if (!view || view->data_offset >= bytes.size()) return;
    pool->place = {bytes.data() + view->data_offset, bytes.size() - view->data_offset, view->first_unit,
                   std::countr_zero(control_->region_unit())};
    // A unit beyond the mapping would be damage; such units have no place.
    const std::uint64_t room = (pool->place.bytes - 1) / control_->region_unit() + 1;
    pool->unit_count = static_cast<std::uint32_t>(std::min<std::uint64_t>(view->unit_count, room));
    for (std::uint32_t u = 0; u < pool->unit_count; ++u)
        places_[view->first_unit + u].store(&pool->place, std::memory_order_release);  // pairs with address
    if (number >= pools_.size()) pools_.resize(number + 1);
    pools_[number] = std::move(pool);
}

/// Of one that left: nothing finds a place in it any more. False when that may not be.
bool Memory::forget(std::uint32_t number, Prefault& prefault) {
    if (is_lost()) return false;  // it only looks as if it had left: there may be views of it
    auto& pool = pools_[number];
    for (std::uint32_t u = 0; u < pool->unit_count; ++u)
        places_[pool->place.first_unit + u].store(nullptr, std::memory_order_release);
    prefault.forget(pool->mapping.bytes());
    pool->mapping = {};
    past_.push_back(std::move(pool));
    return true;
}

void Memory::let_go(Prefault& prefault) {
    std::vector<std::optional<Uuid>> mapped(pools_.size());
    for (std::size_t number = 1; number < pools_.size(); ++number)  // the first stays as long as the domain
        if (pools_[number]) mapped[number] = pools_[number]->uuid;
    table::let_go_of_left(
        *control_, slot_, mapped, [&](std::uint32_t number) { return forget(number, prefault); },
        [this] { return may_write_.load(std::memory_order_acquire); });
}

Result<void> Memory::take_in(const wire::PoolList& list, std::span<const Descriptor> descriptors,
                             Prefault& prefault) {
    const std::lock_guard lock(mutex_);
    Result<void> outcome;
    let_go(prefault);
    for (std::size_t p = 0; p < list.pools.size() && p < descriptors.size(); ++p) {
        const auto view = table::find_pool(*control_, list.pools[p].uuid);
        if (!view || view->number == 0 || (view->number < pools_.size() && pools_[view->number])) continue;
        auto mapped = map_pool(descriptors[p].get(), list.pools[p]);
        if (mapped)
            enter(view->number, std::move(*mapped));
        else
            outcome = mapped.error();
    }
    return outcome;
}

/// From here on a loss of the control region is survived. Data that shares its last huge page rules that out:
/// views of it would read zeroes.
void Memory::guard_control(const Mapped& pool, std::uint64_t control_bytes) {
    const std::uint64_t whole = round_up(control_bytes, pool.alignment);
    const std::uint64_t data = round_up(control_bytes, std::min<std::uint64_t>(pool.alignment, 2 * MiB));
    if (whole == data && whole <= pool.mapping.size())
        control_guard_ = shm::ZeroedWhenLost(pool.mapping.bytes().first(whole));
}

Result<void> Memory::bind(const wire::Welcome& welcome, std::vector<std::unique_ptr<Mapped>> pools) {
    const auto head = pools[0]->mapping.bytes();
    if (welcome.control_bytes > head.size())
        return Error{Code::damaged, "the control region has " + format_size(welcome.control_bytes) +
                                        ", its pool only " + format_size(head.size())};
    guard_control(*pools[0], welcome.control_bytes);
    auto control = table::Control::attach(head.first(welcome.control_bytes));
    if (!control) return control.error();
    if (control->domain() != welcome.domain)
        return Error{Code::damaged, "the control region is of domain " + control->domain().text() +
                                        ", the daemon serves " + welcome.domain.text()};
    if (welcome.slot == 0 || welcome.slot >= control->client_count() ||
        welcome.name_space >= control->namespace_count())
        return Error{Code::damaged, "the daemon gave client slot " + std::to_string(welcome.slot) +
                                        " and namespace " + std::to_string(welcome.name_space) +
                                        ", which this domain does not have"};
    control_.emplace(std::move(*control));
    slot_ = welcome.slot;
    place_count_ = control_->region_count();
    places_ = std::make_unique<std::atomic<const Place*>[]>(place_count_);
    enter(0, std::move(pools[0]));
    if (pools_.empty()) return Error{Code::damaged, "the control pool's entry does not fit its memory"};
    for (std::size_t p = 1; p < pools.size(); ++p)
        if (const auto view = table::find_pool(*control_, pools[p]->uuid); view && view->number != 0)
            enter(view->number, std::move(pools[p]));
    return {};
}

}  // namespace maru::client
