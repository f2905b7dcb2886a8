#include "pool/shm_pool.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/size.hpp"
#include "pool/huge_pages.hpp"
#include "pool/pool_file.hpp"

namespace maru::pool {
namespace {

constexpr std::uint64_t shm_alignment = 4 * KiB;

class ShmPool final : public Pool {
  public:
    ShmPool(PoolConfig config, Descriptor descriptor, bool is_new, std::string pages)
        : config_(std::move(config)),
          descriptor_(std::move(descriptor)),
          is_new_(is_new),
          pages_(std::move(pages)) {}

    Kind kind() const override { return Kind::shm; }
    const std::string& name() const override { return config_.name; }
    const std::string& path() const override { return config_.path; }
    std::uint64_t size() const override { return config_.size; }
    std::uint64_t alignment() const override { return shm_alignment; }
    int descriptor() const override { return descriptor_.get(); }
    bool is_new() const override { return is_new_; }

    Result<void> discard(std::uint64_t offset, std::uint64_t length) override {
        if (offset % shm_alignment != 0 || length % shm_alignment != 0 || offset > config_.size ||
            length > config_.size - offset)
            return Error{Code::invalid, "pool '" + config_.name + "': cannot discard " +
                                            std::to_string(length) + " bytes at " + std::to_string(offset) +
                                            " of " + std::to_string(config_.size)};
        if (config_.reserve || length == 0) return {};
        if (::fallocate(descriptor_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(offset), static_cast<off_t>(length)) != 0)
            return Error{Code::unavailable, "pool '" + config_.name + "': cannot give memory of " +
                                                config_.path + " back: " + strerror(errno)};
        return {};
    }

    Result<void> remove() override { return delete_file(descriptor_.get(), config_.path, config_.name); }

    std::string describe() const override {
        return "tmpfs, " + pages_ + ", " +
               (config_.reserve
                    ? "whole size reserved"
                    : "sparse: memory is taken at first use, and a process that finds none left is killed");
    }

  private:
    PoolConfig config_;
    Descriptor descriptor_;
    bool is_new_;
    std::string pages_;
};

Error refused(const PoolConfig& config, const std::string& text) {
    return Error{Code::invalid, "pool '" + config.name + "': " + text};
}

Result<bool> head_is_zero(int descriptor, const PoolConfig& config) {
    std::array<char, 4096> head{};
    const ssize_t got = ::pread(descriptor, head.data(), head.size(), 0);
    if (got < 0)
        return Error{Code::unavailable,
                     "pool '" + config.name + "': cannot read " + config.path + ": " + strerror(errno)};
    return std::all_of(head.begin(), head.begin() + got, [](char byte) { return byte == 0; });
}

Result<void> check_file_system(int descriptor, const PoolConfig& config) {
    struct statfs status {};
    if (::fstatfs(descriptor, &status) == 0 && status.f_type == TMPFS_MAGIC) return {};
    return refused(config, config.path + " is not on a tmpfs: set a [[pool]] path under /dev/shm");
}

/// Everything after the file is open; the caller deletes a file that it made when this fails.
Result<std::unique_ptr<Pool>> finish(PoolFile& file, const PoolConfig& config) {
    const int descriptor = file.descriptor.get();
    if (const auto checked = check_file_system(descriptor, config); !checked) return checked.error();
    if (!file.empty && file.bytes != config.size)
        return refused(config, config.path + " has " + std::to_string(file.bytes) + " bytes (" +
                                   format_size(file.bytes) + "), the config says " +
                                   std::to_string(config.size) + " (" + format_size(config.size) +
                                   "): set that [[pool]] size, or remove the file");
    const auto pages = huge_pages_of(descriptor, config.huge_pages);
    if (config.huge_pages == HugePages::require && !pages.on)
        return refused(config, "hugepages = \"require\", but " + pages.text + ": " + pages.remedy +
                                   ", or set hugepages = \"advise\"");
    if (const auto done = size_and_reserve(file, config.size, config.reserve, config.path, config.name);
        !done)
        return done.error();
    if (!still_named(descriptor, config.path))
        return refused(config, config.path + " was removed while it was opened: start again");
    const auto blank = head_is_zero(descriptor, config);
    if (!blank) return blank.error();
    return std::unique_ptr<Pool>(
        std::make_unique<ShmPool>(config, std::move(file.descriptor), *blank, pages.text));
}

}  // namespace

Result<std::unique_ptr<Pool>> open_shm(const PoolConfig& config) {
    PoolConfig wanted = config;
    wanted.size = round_down(config.size, shm_alignment);
    if (wanted.size == 0)
        return refused(config, "size " + std::to_string(config.size) + " is below " +
                                   format_size(shm_alignment) + ": raise [[pool]] size");
    auto file = open_file(wanted.path, wanted.name);
    if (!file) return file.error();
    // finish() moves the descriptor away only when it succeeds.
    auto opened = finish(*file, wanted);
    if (!opened && file->made) {
        const auto undone = delete_file(file->descriptor.get(), wanted.path, wanted.name);
        if (!undone)
            return Error{opened.error().code, opened.error().text + " (" + undone.error().text + ")"};
    }
    return opened;
}

}  // namespace maru::pool
