#include "daemon/kept_pools.hpp"

#include <fcntl.h>
#include <systemd/sd-daemon.h>

#include <cstdlib>
#include <cstring>

namespace maru::daemon {
namespace {

// systemd's names of descriptors take letters, digits and some signs; the names of pools are such.
constexpr const char* prefix = "maru-pool-";

std::string stored_name(const pool::PoolConfig& config) {
    return prefix + config.name;
}

Result<Descriptor> kept_descriptor(const pool::PoolConfig& config) {
    const auto passed = passed_descriptors();
    if (!passed) return passed.error();
    for (const auto& [number, name] : *passed)
        if (name == stored_name(config)) return Descriptor(::fcntl(number, F_DUPFD_CLOEXEC, 0));
    return Descriptor();
}

}  // namespace

Result<std::vector<PassedDescriptor>> passed_descriptors() {
    char** names = nullptr;
    const int count = ::sd_listen_fds_with_names(0, &names);
    if (count < 0)
        return Error{Code::invalid,
                     std::string("the descriptors that systemd announced in $LISTEN_FDS are not there: ") +
                         std::strerror(-count)};
    std::vector<PassedDescriptor> passed;
    for (int i = 0; i < count; ++i) {
        passed.push_back({SD_LISTEN_FDS_START + i, names[i]});
        std::free(names[i]);
    }
    std::free(names);
    return passed;
}

bool is_kept_pool(const std::string& name) {
    return name.compare(0, std::strlen(prefix), prefix) == 0;
}

Result<std::unique_ptr<pool::Pool>> open_pool(const pool::PoolConfig& config) {
    Descriptor kept;
    if (config.kind == pool::Kind::hugetlb && config.path.empty()) {
        auto found = kept_descriptor(config);
        if (!found) return found.error();
        kept = std::move(*found);
    }
    const bool was_kept = static_cast<bool>(kept);
    auto opened = pool::open(config, std::move(kept));
    if (!opened || !(*opened)->facts().ends_with_holder || was_kept) return opened;
    const int descriptor = (*opened)->descriptor();
    const std::string message = "FDSTORE=1\nFDNAME=" + stored_name(config);
    ::sd_pid_notify_with_fds(0, 0, message.c_str(), &descriptor, 1);  // without systemd it does nothing
    return opened;
}

void forget_pool(const pool::PoolConfig& config) {
    ::sd_notify(0, ("FDSTOREREMOVE=1\nFDNAME=" + stored_name(config)).c_str());
}

}  // namespace maru::daemon
