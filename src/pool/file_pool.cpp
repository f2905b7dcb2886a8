#include "pool/file_pool.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "pool/numa_placement.hpp"

namespace maru::pool {
namespace {

class FilePool final : public Pool {
  public:
    FilePool(PoolFacts facts, Descriptor descriptor, bool reserved)
        : Pool(std::move(facts), std::move(descriptor)), reserved_(reserved) {}

    Result<void> discard(std::uint64_t offset, std::uint64_t length) override {
        if (offset % alignment() != 0 || length % alignment() != 0 || offset > size() ||
            length > size() - offset)
            return Error{Code::invalid, "pool '" + name() + "': cannot discard " + std::to_string(length) +
                                            " bytes at " + std::to_string(offset) + " of " +
                                            std::to_string(size())};
        if (reserved_ || length == 0) return {};
        if (::fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                        static_cast<off_t>(length)) != 0)
            return Error{Code::unavailable, "pool '" + name() + "': cannot give memory of " + path() +
                                                " back: " + strerror(errno)};
        return {};
    }

    Result<void> remove() override {
        if (facts().ends_with_holder) return {};
        return delete_file(descriptor(), path(), name());
    }

  private:
    bool reserved_;
};

Result<bool> head_is_zero(int descriptor, const PoolConfig& config) {
    std::array<char, 4096> head{};
    const ssize_t got = ::pread(descriptor, head.data(), head.size(), 0);
    if (got < 0)
        return Error{Code::unavailable,
                     "pool '" + config.name + "': cannot read " + config.path + ": " + strerror(errno)};
    return std::all_of(head.begin(), head.begin() + got, [](char byte) { return byte == 0; });
}

void describe_reserve(const PoolConfig& config, PoolFacts* facts) {
    if (config.reserve) {
        facts->description += ", whole size reserved";
        return;
    }
    facts->description +=
        ", sparse: memory is taken at first use, and a process that finds none left is killed";
    facts->warnings.push_back("pool '" + config.name + "' of " + format_size(config.size) +
                              " is sparse (reserve = false): a process that finds no memory left is killed; "
                              "for tests only, set reserve = true for anything else");
}

/// Everything after the file is open; the caller deletes a file that it made when this fails.
Result<std::unique_ptr<Pool>> finish(PoolFile& file, const PoolConfig& config, const FileKind& kind,
                                     bool has_name) {
    const int descriptor = file.descriptor.get();
    PoolFacts facts{config.kind, config.name, has_name ? config.path : std::string(), config.size,
                    kind.alignment};
    facts.ends_with_holder = !has_name;
    if (const auto looked = kind.look(file, &facts); !looked) return looked.error();
    if (!file.empty && file.bytes != config.size)
        return refused(config, config.path + " has " + std::to_string(file.bytes) + " bytes (" +
                                   format_size(file.bytes) + "), the config says " +
                                   std::to_string(config.size) + " (" + format_size(config.size) +
                                   "): set that [[pool]] size, or remove the file");
    Sizing sizing{config.size, config.reserve, kind.blocks_are_data, kind.free, kind.too_full, {}};
    if (!config.numa_nodes.empty())
        sizing.place = [&] { return bind_memory(descriptor, config, kind.alignment); };
    if (const auto done = size_and_reserve(file, sizing, config.path, config.name); !done)
        return done.error();
    if (has_name && !still_named(descriptor, config.path))
        return refused(config, config.path + " was removed while it was opened: start again");
    describe_reserve(config, &facts);
    if (!config.numa_nodes.empty())
        if (const auto got = describe_placement(descriptor, config, kind.alignment, &facts); !got)
            return got.error();
    const auto blank = head_is_zero(descriptor, config);
    if (!blank) return blank.error();
    facts.is_new = *blank;
    return std::unique_ptr<Pool>(
        std::make_unique<FilePool>(std::move(facts), std::move(file.descriptor), config.reserve));
}

Result<PoolConfig> sized(const PoolConfig& config, const FileKind& kind) {
    PoolConfig wanted = config;
    wanted.size = round_down(config.size, kind.alignment);
    if (wanted.size == 0)
        return refused(config, "size " + std::to_string(config.size) + " is below " +
                                   format_size(kind.alignment) + ": raise [[pool]] size");
    return wanted;
}

}  // namespace

Error refused(const PoolConfig& config, const std::string& text) {
    return Error{Code::invalid, "pool '" + config.name + "': " + text};
}

Result<std::unique_ptr<Pool>> open_file_pool(const PoolConfig& config, const FileKind& kind) {
    const auto wanted = sized(config, kind);
    if (!wanted) return wanted.error();
    auto file = open_file(wanted->path, wanted->name);
    if (!file) return file.error();
    // finish() moves the descriptor away only when it succeeds.
    auto opened = finish(*file, *wanted, kind, true);
    if (!opened && file->made) {
        const auto undone = delete_file(file->descriptor.get(), wanted->path, wanted->name);
        if (!undone)
            return Error{opened.error().code, opened.error().text + " (" + undone.error().text + ")"};
    }
    return opened;
}

Result<std::unique_ptr<Pool>> open_nameless_pool(const PoolConfig& config, const FileKind& kind,
                                                 Descriptor file, const std::string& what) {
    auto wanted = sized(config, kind);
    if (!wanted) return wanted.error();
    auto taken = take_file(std::move(file), what, config.name);
    if (!taken) return taken.error();
    wanted->path = what;
    auto opened = finish(*taken, *wanted, kind, false);
    return opened;
}

}  // namespace maru::pool
