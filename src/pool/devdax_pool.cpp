// Kind `devdax`.
#include <algorithm>

#include "base/size.hpp"
#include "pool/devices.hpp"
#include "pool/file_pool.hpp"

namespace maru::pool {
namespace {

class DevicePool final : public Pool {
  public:
    DevicePool(PoolFacts facts, OpenDevice device)
        : Pool(std::move(facts), std::move(device.descriptor)), head_(std::move(device.head)) {}

    Result<void> discard(std::uint64_t offset, std::uint64_t length) override {
        if (offset % alignment() != 0 || length % alignment() != 0 || offset > size() ||
            length > size() - offset)
            return Error{Code::invalid, "pool '" + name() + "': cannot discard " + std::to_string(length) +
                                            " bytes at " + std::to_string(offset) + " of " +
                                            std::to_string(size())};
        return {};
    }

    /// The device stays what it is; it belongs to no domain any more.
    Result<void> remove() override {
        DeviceHeader header;
        header.uuid = facts().device ? facts().device->uuid : Uuid::random();
        write_device_header(head_.data(), header);
        return {};
    }

    Result<void> enter_domain(const DeviceHeader& header) override {
        write_device_header(head_.data(), header);
        return {};
    }

  private:
    shm::Mapping head_;
};

}  // namespace

Result<std::unique_ptr<Pool>> open_devdax(const PoolConfig& config, const DeviceTree& tree) {
    const auto prefixed = [&](const Error& error) {
        return Error{error.code, "pool '" + config.name + "': " + error.text};
    };
    const auto path = path_of(config.path, tree);
    if (!path) return prefixed(path.error());
    auto opened = open_device(*path, tree);
    if (!opened) return prefixed(opened.error());
    const DaxDevice device = opened->device;
    const auto& found = opened->found;
    if (found.state == DeviceHead::State::foreign || found.state == DeviceHead::State::damaged)
        return refused(
            config, *path + ": " + found.fault + ": if it may go, run maructl device init --force " + *path);
    PoolFacts facts{config.kind, config.name, *path, device.size - device.alignment, device.alignment};
    facts.offset = device.alignment;
    if (config.size != 0) {
        const std::uint64_t wanted = round_down(config.size, device.alignment);
        if (wanted == 0 || wanted > facts.size)
            return refused(config, "size " + std::to_string(config.size) + " (" + format_size(config.size) +
                                       ") does not fit " + *path + ", which has " + format_size(facts.size) +
                                       " behind its header: leave [[pool]] size out to take all");
        facts.size = wanted;
    }
    if (found.state == DeviceHead::State::header) facts.device = found.header;
    facts.description =
        "device " + device.name + ", aligned to " + format_size(device.alignment) +
        (device.target_node >= 0 ? ", NUMA node " + std::to_string(device.target_node) : std::string());
    if (device.pages_on_device)
        facts.warnings.push_back("pool '" + config.name + "': the kernel keeps its page descriptors on " +
                                 *path +
                                 " itself (namespace with --map=dev): hosts that share it overwrite each "
                                 "other's kernel data; make the "
                                 "namespace anew with ndctl create-namespace -m devdax --map=mem");
    const auto behind = shm::Mapping::map(opened->descriptor.get(), facts.offset, device.alignment,
                                          path->c_str(), device.alignment);
    if (!behind) return prefixed(behind.error());
    const bool zero = std::all_of(behind->data(), behind->data() + device_head_bytes,
                                  [](std::byte byte) { return byte == std::byte{0}; });
    // What lies behind a header without a domain is of no domain.
    facts.is_new = zero || !facts.device || facts.device->domain.empty();
    return std::unique_ptr<Pool>(std::make_unique<DevicePool>(std::move(facts), std::move(*opened)));
}

}  // namespace maru::pool
