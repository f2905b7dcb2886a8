// The hosts of the domain.
#include "table/hosts.hpp"
#include "daemon/admin/answers.hpp"

namespace maru::daemon {

Json answer_hosts(const Subject& subject) {
    std::vector<std::uint64_t> clients(subject.control.host_count());
    for (std::uint32_t slot = 1; slot < subject.control.client_count(); ++slot) {
        const auto view = table::read_client(subject.control, slot);
        if (view && !view->facts.is_daemon && view->facts.host < clients.size()) ++clients[view->facts.host];
    }
    auto rows = Json::array();
    for (std::uint32_t number = 0; number < subject.control.host_count(); ++number) {
        const auto host = table::read_host(subject.control, number);
        if (!host) continue;
        rows.push_back({{"host", number},
                        {"host_id", wire::printable(host->facts.name)},
                        {"state", table::name_of(host->phase)},
                        {"own", number == subject.facts.host},
                        {"generation", host->generation},
                        {"beat", host->beat},
                        {"clients", clients[number]}});
    }
    return {{"hosts", rows}};
}

}  // namespace maru::daemon
