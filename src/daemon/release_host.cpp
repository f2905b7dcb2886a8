// An administrator's word that a silent host will not come back.
#include <spdlog/spdlog.h>

#include "daemon/json.hpp"
#include "daemon/requests.hpp"

namespace maru::daemon {
namespace {

struct ReleaseWish {
    std::uint32_t host = 0;
    bool dry_run = false;
};

Result<ReleaseWish> release_wish(const std::string& arguments) {
    const auto json = Json::parse(arguments, nullptr, false);
    bool whole = json.is_object() && json.contains("host") && json["host"].is_number_unsigned();
    if (whole)
        for (const auto& [name, value] : json.items())
            whole = whole && (name == "host" || (name == "dry_run" && value.is_boolean()));
    if (!whole)
        return Error{Code::invalid, "\"release\" takes {\"host\": a number, \"dry_run\": true or false}"};
    return ReleaseWish{json["host"].get<std::uint32_t>(), json.value("dry_run", false)};
}

/// The host, if it may be released.
Result<table::HostView> find_silent(const table::Control& control, std::uint32_t own, std::uint32_t number) {
    const auto host = table::read_host(control, number);
    if (!host)
        return Error{Code::invalid,
                     "there is no host " + std::to_string(number) + ": `maructl hosts` lists them"};
    if (number == own)
        return Error{Code::invalid, "host " + std::to_string(number) +
                                        " is this one: `maructl client disconnect` ends clients"};
    if (host->phase == table::HostPhase::fenced || host->phase == table::HostPhase::left) return *host;
    return Error{Code::invalid,
                 "host " + std::to_string(number) + " ('" + host->facts.name + "') is " +
                     table::name_of(host->phase) +
                     ": only a host that was fenced after host.grace, or has left, can be released; "
                     "stop its daemon or switch the machine off first"};
}

std::uint64_t clients_of(const table::Control& control, std::uint32_t host) {
    std::uint64_t clients = 0;
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        const auto view = table::read_client(control, slot);
        clients += view && view->facts.host == host && !view->facts.is_daemon;
    }
    return clients;
}

}  // namespace

Result<void> Requests::release_host(Session& session, const wire::Frame& frame,
                                    const std::string& arguments) {
    const auto wish = release_wish(arguments);
    if (!wish) return wish.error();
    const auto host = find_silent(control_, parts_.facts.host, wish->host);
    if (!host) return host.error();
    const std::uint64_t clients = clients_of(control_, wish->host);
    table::SweepReport report;
    if (!wish->dry_run) {
        (void)table::sweep_clients_of(parts_.worker, wish->host, &report);
        parts_.facts.swept.add(report);
        if (!table::free_host(control_, *host))
            return Error{Code::contended, "host " + std::to_string(wish->host) +
                                              " came back while it was released: look at `maructl hosts`"};
        spdlog::warn(
            "host {} ('{}') was released by user {}: {} clients swept, {} pages and {} leases are back",
            wish->host, host->facts.name, session.peer().uid, clients, report.reserved, report.leases);
    }
    session.send(wire::encode_frame(
        frame.request, wire::AdminAnswer{Json{{"host", wish->host},
                                              {"host_id", host->facts.name},
                                              {"released", !wish->dry_run},
                                              {"clients", clients},
                                              {"pages", report.reserved},
                                              {"leases", report.leases},
                                              {"key_pins", report.key_pins}}
                                             .dump(-1, ' ', false, Json::error_handler_t::replace)}));
    return {};
}

}  // namespace maru::daemon
