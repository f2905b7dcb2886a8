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
        if (start != facts.start_time || runs_another_program(lock, client)) return Life::dead;
        // Without its lock it is not what it was, unless the lock file was taken away or somebody closed the
        // descriptor: only its stamp tells.
        return lock.is_new() || exec_stamp_of(facts.pid) ? Life::lives : Life::unknown;
    }
    // In a pid namespace that this process does not see. A lock file that is younger than the client knows
    // nothing.
    return lock.is_new() ? Life::unknown : Life::dead;
}

bool runs_another_program(const LockFile& lock, const table::ClientView& client) {
    const auto& facts = client.facts;
    // An exec drops the lock: while it is held, a stamp says nothing.
    if (facts.exec_stamp == 0 || lock.held(client.identity.slot)) return false;
    if (facts.pid == 0 || facts.pid_namespace != own_pid_namespace()) return false;
    const auto stamp = exec_stamp_of(facts.pid);
    return stamp && *stamp != facts.exec_stamp;
}

std::string text_of_client(const table::ClientFacts& client) {
    return "'" + wire::printable(client.instance_id) + "' (process " + std::to_string(client.pid) + ")";
}

}  // namespace maru::daemon
