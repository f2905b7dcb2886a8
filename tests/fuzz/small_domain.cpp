#include "small_domain.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "target.hpp"

namespace maru::fuzz {

using namespace table;

FormatPlan small_plan() {
    FormatPlan plan;
    plan.domain.bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    plan.region_unit = 128 * KiB;
    plan.records = 192;
    plan.clients = 8;
    plan.hosts = 2;
    plan.namespaces = 4;
    plan.pins = 10 * pins_per_chunk;
    PoolPlan pool;
    pool.uuid = plan.domain;
    pool.kind = 3;
    pool.name = "small";
    pool.bytes = 2 * MiB;
    plan.pools.push_back(pool);
    return plan;
}

void seal_superblock(std::span<std::byte> memory) {
    const std::uint64_t sum = XXH3_64bits(memory.data(), offsetof(Superblock, checksum));
    std::memcpy(memory.data() + offsetof(Superblock, checksum), &sum, sizeof sum);
}

SmallDomain::SmallDomain() {
    const auto sizes = plan_control(small_plan());
    require(bool(sizes), "the small plan does not fit");
    size_ = sizes->control_bytes;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page_align, size_)));
    require(bool(Control::format(memory(), small_plan())), "the small domain cannot be formatted");
    const std::uint64_t same_each_time = 42;
    std::memcpy(memory_.get() + offsetof(Superblock, hash_seed), &same_each_time, sizeof same_each_time);
    seal_superblock(memory());
    auto attached = Control::attach(memory());
    require(bool(attached), "the small domain cannot be attached");
    control_.emplace(std::move(*attached));
    populate();
    pristine_.assign(memory().begin(), memory().end());
}

void SmallDomain::restore() {
    std::memcpy(memory_.get(), pristine_.data(), size_);
}

Identity SmallDomain::connect(const std::string& name, bool is_daemon) {
    ClientFacts facts;
    facts.pid = 4242;
    facts.is_daemon = is_daemon;
    facts.instance_id = name;
    const auto identity = open_client(*control_, facts);
    require(identity && activate_client(*control_, *identity), "no client slot in the small domain");
    return *identity;
}

void SmallDomain::populate() {
    const Control& c = *control_;
    c.name_space(1).name.set("other");
    c.name_space(1).state.store(1 | std::uint64_t{1} << 32, shm::relaxed);
    daemon = connect("daemon", true);
    c.super().daemon.store(daemon.holder_word(), shm::relaxed);
    writer = connect("writer", false);
    reader = connect("reader", false);
    const Identity gone = connect("gone", false), dead = connect("dead", false);
    Worker by_daemon(c, daemon), by_writer(c, writer), by_reader(c, reader), by_gone(c, gone),
        by_dead(c, dead);

    std::string warning;
    for (const auto& [of, name_space] : {std::pair{writer, 0u}, {reader, 1u}, {dead, 0u}}) {
        const auto region = claim_region(by_daemon, {page_4k, name_space}, of.holder_word(), false, &warning);
        require(bool(region), "the small domain has no region left");
        regions.push_back(region->number);
    }
    const auto store = [&](Worker& worker, std::uint32_t region, std::uint32_t name_space,
                           const std::string& key) {
        Page page;
        require(worker.alloc_from({&region, 1}, {page_4k, name_space}, &page) == Code::ok, "no page left");
        require(worker.publish(c.key(name_space, key), page, 100) == Code::ok, "an object was not published");
        return page;
    };
    for (int n = 0; n < 8; ++n)
        (void)by_writer.free(store(by_writer, regions[0], 0, "key-" + std::to_string(n)));
    tokens.push_back(store(by_reader, regions[1], 1, std::string(200, 'k')).token);
    tokens.push_back(store(by_dead, regions[2], 0, "of the dead").token);
    View view;
    for (const char* key : {"key-1", "key-2", "key-3"}) {
        require(by_reader.retrieve(c.key(0, key), &view) == Code::ok, "an object was not found");
        tokens.push_back(view.token);
    }
    std::uint64_t token = 0;
    std::uint32_t record = 0;
    for (Worker* worker : {&by_writer, &by_gone}) {
        require(worker->pin_key(c.key(0, "key-4"), &token, &record) == Code::ok, "a key was not pinned");
        tokens.push_back(token);
    }
    require(by_writer.remove(c.key(0, "key-3")) == DeleteResult::deleted, "an object was not deleted");
    for (Worker* worker : {&by_writer, &by_dead, &by_gone}) {
        Page page;
        require(worker->alloc_from({regions.data(), 1}, {page_4k, 0}, &page) == Code::ok, "no page left");
        if (worker == &by_writer) pages.push_back(page);
    }
    // An overflow bucket behind the home of a key.
    const std::uint64_t home = c.home_of(c.key(0, "key-0").low);
    c.bucket(home).link.store(1, shm::relaxed);
    c.overflow_claim(0).store(overflow_claim::linked, shm::relaxed);
    require(quarantine_client(c, gone) && declare_dead(c, dead), "a verdict was not taken");
}

}  // namespace maru::fuzz
