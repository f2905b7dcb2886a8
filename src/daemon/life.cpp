#include "daemon/life.hpp"

#include <cerrno>

#include "daemon/process.hpp"
#include "wire/key_text.hpp"

namespace maru::daemon {

Life life_of(const LockFile& lock, const table::ClientView& client) {
    if (lock.held(client.identity.slot)) return Life::lives;
    const auto& facts = client.facts;
    if (facts.pid != 0 && facts.pid_namespace == own_pid_namespace()) {
        const Descriptor process = open_process(facts.pid);
        if (!process) return errno == ESRCH ? Life::dead : Life::unknown;
        if (has_ended(process.get())) return Life::dead;
        const std::uint64_t start = start_time_of(facts.pid);
        if (start == 0) return Life::unknown;
        return start == facts.start_time ? Life::lives : Life::dead;
    }
    // In a pid namespace that this process does not see. A lock file that is younger than the client knows
    // nothing.
    return lock.is_new() ? Life::unknown : Life::dead;
}

std::string text_of_client(const table::ClientFacts& client) {
    return "'" + wire::printable(client.instance_id) + "' (process " + std::to_string(client.pid) + ")";
}

}  // namespace maru::daemon
