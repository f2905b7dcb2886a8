// A control region that is written to by something that is no maru: an input is a sequence of damages and
// operations, and at the end everything that a daemon does with what it finds. Nothing may crash, leave its
// tables or go on without end.
#include <array>

#include "small_domain.hpp"
#include "table/check.hpp"
#include "target.hpp"

using namespace maru;
using namespace maru::table;
using fuzz::Input;
using fuzz::require;

namespace {

constexpr int steps_max = 96;  // what later bytes would do takes longer than it teaches

struct Part {
    std::byte* begin;
    std::size_t entries, entry_bytes;
};

std::array<Part, 13> parts_of(const Control& c) {
    const auto of = [](auto& first, std::uint64_t count) {
        return Part{reinterpret_cast<std::byte*>(&first), static_cast<std::size_t>(count), sizeof first};
    };
    return {of(c.super(), 1),
            of(c.record(0), c.record_count()),
            of(c.bucket(0), std::uint64_t{c.bucket_count()} + c.overflow_count()),
            of(c.chunk(0), c.chunk_count()),
            of(c.region(0), c.region_count()),
            of(c.client(0), c.client_count()),
            of(c.granule_claim(0), c.granule_count()),
            of(c.hint(0), c.granule_count()),
            of(c.overflow_claim(0), c.overflow_count()),
            of(c.pool(0), c.pool_count()),
            of(c.name_space(0), c.namespace_count()),
            of(c.client_stats(0), c.client_count()),
            of(c.host(0), c.host_count())};
}

/// One client's or daemon's hands in a region that may be damaged.
struct Actor {
    Actor(const Control& control, Identity as) : worker(control, as) {}
    Worker worker;
};

class Run {
  public:
    explicit Run(fuzz::SmallDomain& domain)
        : domain_(domain),
          control_(domain.control()),
          actors_{{{control_, domain.writer}, {control_, domain.reader}, {control_, domain.daemon}}},
          tokens_(domain.tokens),
          pages_(domain.pages) {}

    void step(Input& input) {
        const std::uint8_t kind = input.byte();
        if (kind < 96) return damage(input, kind);
        Worker& worker = actors_[kind % 2].worker;
        if (kind < 224) return by_client(worker, input, kind / 2 % 18);
        by_daemon(input, kind % 10);
    }

    /// What a daemon does that starts on this region, and then a client.
    void aftermath() {
        Worker& daemon = actors_[2].worker;
        (void)look(control_);
        recover_regions(daemon, owner_is_dead);
        SweepReport report;
        std::uint32_t from = 0, slices = 0;
        do {
            from = sweep_records(daemon, from, 64, owner_is_dead, &report);
            require(++slices < 1000, "a pass over the records does not end");
        } while (from != 0);
        for (std::uint32_t slot = 0; slot < control_.client_count(); ++slot) {
            const auto view = read_client(control_, slot);
            if (view && view->phase == ClientPhase::dead) (void)sweep_dead(daemon, view->identity);
        }
        if (const auto identity = open_client(control_, {}))
            if (activate_client(control_, *identity)) {
                Worker late(control_, *identity);
                publish(late, 0, "late", 100);
                retrieve(late, control_.key(0, "key-1"));
                (void)late.pins().give_back();
            }
        (void)look(control_);
        (void)Control::attach(domain_.memory());
    }

  private:
    void damage(Input& input, std::uint8_t kind) {
        const Part part = parts_of(control_)[input.byte() % 13];
        const std::size_t entry = input.half() % part.entries;
        const std::size_t at = entry * part.entry_bytes + input.byte() % (part.entry_bytes / 8) * 8;
        std::uint64_t word = 0;
        std::memcpy(&word, part.begin + at, 8);
        switch (kind % 8) {
            case 0:
                word = input.long_word();
                break;
            case 1:
                word ^= std::uint64_t{1} << (input.byte() % 64);
                break;
            case 2:
                word = input.byte();
                break;
            case 3:
                word = ~std::uint64_t{input.byte()};
                break;
            case 4: {  // a plausible word from elsewhere in the table
                const std::size_t from =
                    input.half() % part.entries * part.entry_bytes + at % part.entry_bytes;
                std::memcpy(&word, part.begin + from, 8);
                break;
            }
            case 5:
                word += static_cast<std::uint64_t>(static_cast<std::int8_t>(input.byte()));
                break;
            case 6: {  // one byte of it
                const int shift = input.byte() % 8 * 8;
                word = (word & ~(std::uint64_t{0xff} << shift)) | std::uint64_t{input.byte()} << shift;
                break;
            }
            case 7: {  // the bytes themselves, over several words
                const auto bytes = input.bytes(input.byte());
                const std::size_t room = part.entries * part.entry_bytes - at;
                std::ranges::copy(std::as_bytes(bytes.first(std::min(bytes.size(), room))), part.begin + at);
                return;
            }
        }
        std::memcpy(part.begin + at, &word, 8);
    }

    Key key(Input& input) {
        const std::uint8_t which = input.byte();
        names_[0] = which < 200 ? "key-" + std::to_string(which % 12) : std::string(which, 'k');
        return control_.key(which % 7 == 6 ? 1 : 0, names_[0]);
    }

    /// What a view names lies inside its pool or is refused.
    void use(const PageLocation& location) {
        std::uint32_t pool = 0;
        std::uint64_t offset = 0;
        if (!control_.place(location, &pool, &offset)) return;
        require(pool < control_.pool_count(), "a page in a pool that is none");
        require(location.page_bytes() != 0, "a page without bytes");
    }

    void retrieve(Worker& worker, const Key& wanted) {
        View view;
        if (worker.retrieve(wanted, &view) != Code::ok) return;
        use(view.location);
        tokens_.push_back(view.token);
    }

    void publish(Worker& worker, std::uint32_t name_space, std::string_view name, std::uint64_t length) {
        Page page;
        Code code = worker.alloc_from(domain_.regions, {fuzz::page_4k, name_space}, &page);
        if (code == Code::full) code = worker.alloc_anywhere({fuzz::page_4k, name_space}, &page);
        if (code == Code::full) code = worker.evict_to_reuse({fuzz::page_4k, name_space}, &page);
        if (code != Code::ok) return;
        use(page.location);
        (void)worker.publish(control_.key(name_space, name), page, length);
        pages_.push_back(page);
    }

    std::uint64_t token(Input& input) {
        const std::uint8_t which = input.byte();
        return tokens_.empty() || which == 255 ? input.long_word() : tokens_[which % tokens_.size()];
    }

    void by_client(Worker& worker, Input& input, int operation) {
        switch (operation) {
            case 0:
                return retrieve(worker, key(input));
            case 1: {
                const Key named = key(input);
                return publish(worker, named.name_space, named.bytes, input.word());
            }
            case 2:
                (void)worker.release(token(input));
                return;
            case 3:
                (void)worker.remove(key(input));
                return;
            case 4: {
                std::uint64_t made = 0;
                std::uint32_t record = 0;
                if (worker.pin_key(key(input), &made, &record) == Code::ok) tokens_.push_back(made);
                return;
            }
            case 5:
                (void)worker.unpin(token(input));
                return;
            case 6:
                (void)worker.exists(key(input));
                return;
            case 7:
                if (!pages_.empty()) (void)worker.free(pages_[input.byte() % pages_.size()]);
                return;
            case 8:
                (void)worker.evict({input.byte() % 4u, input.byte() % 2u}, input.byte() % 8u);
                return;
            case 9: {
                View view;
                if (worker.lease_page(input.byte() % 20u, input.byte() % 80u, &view) != Code::ok) return;
                use(view.location);
                tokens_.push_back(view.token);
                return;
            }
            case 10: {
                Page page;
                if (worker.find_reserved(input.byte() % 20u, input.byte() % 80u, &page) == Code::ok)
                    pages_.push_back(page);
                return;
            }
            case 11:
                return batch(worker, input);
            case 12:
                worker.retry_retired();
                return;
            case 13:
                (void)worker.occupancy({fuzz::page_4k, input.byte() % 2u});
                return;
            case 14:
                (void)worker.fenced();
                (void)worker.pins().give_back();
                return;
            case 15: {
                View view;
                if (worker.retrieve(key(input), &view) != Code::ok) return;
                (void)worker.retire_damaged(view);
                (void)worker.release(view.token);
                return;
            }
            case 16:
                if (!pages_.empty())
                    (void)worker.publish(key(input), pages_[input.byte() % pages_.size()], input.half());
                return;
            default:
                if (!pages_.empty()) pages_.erase(pages_.begin());
        }
    }

    void batch(Worker& worker, Input& input) {
        std::array<Key, 8> keys;
        std::array<View, 8> views;
        std::array<Code, 8> codes;
        std::array<bool, 8> present;
        for (std::size_t k = 0; k < keys.size(); ++k) {
            names_[k] = "key-" + std::to_string(input.byte() % 12);
            keys[k] = control_.key(0, names_[k]);
        }
        worker.exists_batch(keys, present);
        worker.retrieve_batch(keys, views, codes);
        for (std::size_t k = 0; k < keys.size(); ++k)
            if (codes[k] == Code::ok) tokens_.push_back(views[k].token);
        const std::size_t matched = worker.match_prefix(keys, views.data());
        require(matched <= keys.size(), "more keys matched than there were");
        for (std::size_t k = 0; k < matched; ++k) {
            use(views[k].location);
            (void)worker.release(views[k].token);
        }
    }

    void by_daemon(Input& input, int operation) {
        Worker& daemon = actors_[2].worker;
        const std::uint32_t slot = input.byte() % control_.client_count();
        switch (operation) {
            case 0: {
                std::string warning;
                const std::uint32_t sizes[] = {1, 2, 8, 64};
                const auto region = claim_region(daemon, {sizes[slot % 4], slot % 2},
                                                 domain_.reader.holder_word(), slot >= 4, &warning);
                if (region)
                    require(region->number < control_.region_count(), "a claimed region that is none");
                return;
            }
            case 1:
                return release_region(daemon, input.byte() % control_.region_count(),
                                      domain_.writer.holder_word());
            case 2:
                (void)dissolve_region(daemon, input.byte() % control_.region_count(), slot % 2 == 0);
                return;
            case 3:
                return recover_regions(daemon, owner_is_dead);
            case 4:
                (void)sweep_gone(
                    daemon,
                    {slot, control_.client(slot).state.load(shm::relaxed) == 0
                               ? 1
                               : client_state::generation(control_.client(slot).state.load(shm::relaxed))});
                return;
            case 5:
                if (const auto view = read_client(control_, slot)) {
                    (void)declare_dead(control_, view->identity);
                    (void)sweep_dead(daemon, view->identity);
                }
                return;
            case 6:
                (void)advance_epoch(control_);
                return;
            case 7: {
                KeyPinExpiry expiry(control_);
                std::vector<std::uint64_t> expired(control_.client_count());
                (void)expiry.pass(0, 1, &expired);
                (void)expiry.pass(10, 1, &expired);
                return;
            }
            case 8:
                (void)check(control_, 0);
                (void)count_all(control_);
                (void)free_unit_bytes(control_);
                (void)page_bytes_max(control_);
                for (std::uint32_t r = 0; r < control_.region_count(); ++r)
                    if (const auto region = read_region(control_, r)) (void)count_pages(control_, *region);
                return;
            default:
                (void)count_client(control_, {slot, 1});
        }
    }

    fuzz::SmallDomain& domain_;
    const Control& control_;
    std::array<Actor, 3> actors_;
    std::vector<std::uint64_t> tokens_;
    std::vector<Page> pages_;
    std::array<std::string, 8> names_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static fuzz::SmallDomain domain;
    domain.restore();
    Input input(data, size);
    Run run(domain);
    for (int step = 0; step < steps_max && !input.empty(); ++step)
        run.step(input);
    run.aftermath();
    return 0;
}
