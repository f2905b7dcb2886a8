#include "client/memory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>

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

Result<Memory::Pool> map_pool(int descriptor, const wire::PoolDescription& description) {
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
    Memory::Pool pool;
    pool.mapping = std::move(*mapping);
    pool.name = description.name;
    pool.path = description.path;
    pool.kind = kind_name(description.kind);
    return pool;
}

}  // namespace

Result<std::unique_ptr<Memory>> Memory::map(const wire::Welcome& welcome, std::span<const Descriptor> pools) {
    if (pools.empty() || pools.size() != welcome.pools.size() || pools.size() > table::max_pools)
        return Error{Code::damaged, "the daemon announced " + std::to_string(welcome.pools.size()) +
                                        " pools and passed " + std::to_string(pools.size())};
    auto memory = std::make_unique<Memory>();
    for (std::size_t p = 0; p < pools.size(); ++p) {
        auto pool = map_pool(pools[p].get(), welcome.pools[p]);
        if (!pool) return pool.error();
        memory->pools_.push_back(std::move(*pool));
    }
    if (auto bound = memory->bind(welcome); !bound) return bound.error();
    return memory;
}

std::span<std::byte> Memory::control_bytes() const {
    return pools_[0].mapping.bytes().first(control_->control_bytes());
}

Result<void> Memory::bind(const wire::Welcome& welcome) {
    const auto head = pools_[0].mapping.bytes();
    if (welcome.control_bytes > head.size())
        return Error{Code::damaged, "the control region has " + format_size(welcome.control_bytes) +
                                        ", its pool only " + format_size(head.size())};
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
    places_.resize(control_->region_count());
    for (std::uint32_t region = 0; region < control_->region_count(); ++region) {
        std::uint32_t pool = 0;
        std::uint64_t offset = 0;
        if (!control_->region_place(region, &pool, &offset) || pool >= pools_.size()) continue;
        const auto bytes = pools_[pool].mapping.bytes();
        if (offset < bytes.size()) places_[region] = {bytes.data() + offset, bytes.size() - offset};
    }
    return {};
}

}  // namespace maru::client
