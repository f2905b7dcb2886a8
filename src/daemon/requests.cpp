#include "daemon/requests.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

namespace maru::daemon {
namespace {

constexpr std::size_t instance_id_bytes_max = 127;

Error not_a_client(const wire::Frame& frame) {
    return Error{Code::invalid,
                 std::string(wire::name_of(frame.type)) + " without a hello or resume before it"};
}

}  // namespace

void Requests::measure(wire::Type type, MonotonicClock::time_point began, bool done) {
    auto& measures = parts_.facts.measures.requests;
    std::size_t kind = 0;  // the last is for all that are none
    while (kind + 1 < measures.size() && std::strcmp(request_kinds[kind], wire::name_of(type)) != 0)
        ++kind;
    ++(done ? measures[kind].done : measures[kind].refused);
    measures[kind].seconds.add(MonotonicClock::now() - began);
}

void Requests::answer(Session& session, const wire::Frame& frame) {
    const auto began = MonotonicClock::now();
    const auto done = execute(session, frame);
    if (session.is_held()) return;  // it will be answered later
    measure(frame.type, began, bool(done));
    if (parts_.facts.trace) trace(frame, session, began, done);
}

Result<void> Requests::execute(Session& session, const wire::Frame& frame) {
    ++parts_.facts.requests;
    Result<void> done;
    switch (frame.type) {
        case wire::Type::hello:
            done = hello(session, frame);
            break;
        case wire::Type::resume:
            done = resume(session, frame);
            break;
        case wire::Type::claim:
            done = claim(session, frame);
            break;
        case wire::Type::give_back:
            done = give_back(session, frame);
            break;
        case wire::Type::bye:
            done = bye(session, frame);
            break;
        case wire::Type::ping:
            done = ping(session, frame);
            break;
        case wire::Type::ask_pools:
            done = ask_pools(session, frame);
            break;
        case wire::Type::admin:
            done = admin(session, frame);
            break;
        default:
            done = Error{Code::invalid, std::string(wire::name_of(frame.type)) + " is no request"};
            session.fail(frame.request, done.error());
            session.close_after_sending();
            ++parts_.facts.refused;
            return done;
    }
    if (done) return done;
    ++parts_.facts.refused;
    spdlog::debug("{} of process {}: {}", wire::name_of(frame.type), session.peer().pid, done.error().text);
    session.fail(frame.request, done.error());
    // Without a slot there is nothing to go on with.
    const bool opening = frame.type == wire::Type::hello || frame.type == wire::Type::resume;
    if (opening && !session.client) session.close_after_sending();
    return done;
}

Result<void> Requests::ping(Session& session, const wire::Frame& frame) {
    if (auto empty = wire::open_empty(frame, wire::Type::ping); !empty) return empty;
    session.send(wire::encode_frame(frame.request, wire::Type::pong));
    return {};
}

Result<void> Requests::ask_pools(Session& session, const wire::Frame& frame) {
    if (auto empty = wire::open_empty(frame, wire::Type::ask_pools); !empty) return empty;
    if (auto client = check_client(session); !client) return client;
    parts_.pools.send_list(session, frame.request);
    return {};
}

/// Holds the session, since answers come in the order of the requests, until what is returned is called.
std::function<void(Result<std::string>)> Requests::answer_later(Session& session, const wire::Frame& frame) {
    session.hold();
    const auto asked = wire::open<wire::Admin>(frame);
    return [this, id = session.id(), request = frame.request, what = "admin " + (asked ? asked->command : ""),
            began = MonotonicClock::now()](const Result<std::string>& json) {
        measure(wire::Type::admin, began, bool(json));
        Session* waiting = parts_.session(id);
        if (parts_.facts.trace)
            trace(what, waiting, began, json ? Result<void>() : Result<void>(json.error()));
        if (waiting == nullptr) return;
        if (json)
            waiting->send(wire::encode_frame(request, wire::AdminAnswer{*json}));
        else
            waiting->fail(request, json.error());
        waiting->go_on();
    };
}

Result<void> Requests::change_namespace(Session& session, const wire::Frame& frame,
                                        const wire::Admin& asked) {
    const auto now = parts_.namespaces.answer(asked.command, asked.arguments, session.peer().uid,
                                              answer_later(session, frame));
    if (!now) return {};
    session.go_on();  // known at once; the next frame is handed over when this one is done
    if (!*now) return now->error();
    session.send(wire::encode_frame(frame.request, wire::AdminAnswer{**now}));
    return {};
}

Result<void> Requests::admin(Session& session, const wire::Frame& frame) {
    auto asked = wire::open<wire::Admin>(frame);
    if (!asked) return asked.error();
    if (asked->command == "check") {
        parts_.check.ask(answer_later(session, frame));
        return {};
    }
    if (asked->command == "pool_add") {
        auto begun =
            parts_.pools.answer_later(asked->arguments, session.peer().uid, answer_later(session, frame));
        if (!begun) session.go_on();
        return begun;
    }
    if (Namespaces::knows(asked->command)) return change_namespace(session, frame, *asked);
    if (asked->command == "disconnect") return disconnect(session, frame, asked->arguments);
    if (asked->command == "release") return release_host(session, frame, asked->arguments);
    if (asked->command == "evict") return evict(session, frame, asked->arguments);
    if (asked->command == "trace") return set_trace(session, frame, asked->arguments);
    if (asked->command == "log_level") return change_log_level(session, frame, asked->arguments);
    auto answer = Pools::knows(asked->command)
                      ? parts_.pools.answer(asked->command, asked->arguments, session.peer().uid)
                      : parts_.admin.answer(asked->command, asked->arguments);
    if (!answer) return answer.error();
    session.send(wire::encode_frame(frame.request, wire::AdminAnswer{std::move(*answer)}));
    return {};
}

// -- connecting

Result<std::uint32_t> Requests::page_4k_of(std::uint64_t page_bytes) const {
    const std::uint64_t most = table::page_bytes_max(control_);
    if (page_bytes > most)
        return Error{
            Code::too_large,
            "a page of " + format_size(page_bytes) + " (" + std::to_string(page_bytes) +
                " bytes) is wanted, at most " + format_size(most) + " (" + std::to_string(most) +
                " bytes) are possible in these pools: ask for a smaller page_size, or raise [[pool]] size"};
    const std::uint64_t least = control_.super().min_page.load(shm::relaxed);
    return static_cast<std::uint32_t>(round_up(std::max(page_bytes, least), table::page_align) /
                                      table::page_align);
}

Result<void> Requests::check_room() const {
    const std::uint64_t most =
        std::min<std::uint64_t>(parts_.config.control.max_clients, slots_for_clients(control_));
    if (parts_.reaper.watched() < most) return {};
    return Error{Code::full,
                 "all " + std::to_string(most) + " client slots are taken: raise control.max_clients"};
}

table::ClientFacts Requests::facts_of(Session& session, const wire::Hello& hello) const {
    const Peer& peer = session.peer();
    table::ClientFacts facts;
    facts.host = parts_.facts.host;
    facts.uid = peer.uid;
    facts.gid = peer.gid;
    facts.name_space = session.name_space;
    facts.exec_stamp = hello.exec_stamp;
    facts.random = hello.random;
    facts.instance_id = hello.instance_id;
    // The number and the start time as they read from this namespace, so that the next daemon can look them
    // up again.
    facts.pid = peer.pid;
    facts.pid_namespace = peer.pid != 0 ? own_pid_namespace() : hello.pid_namespace;
    const std::uint64_t seen = peer.pid != 0 ? start_time_of(peer.pid) : 0;
    facts.start_time = seen != 0 ? seen : hello.start_time;
    return facts;
}

void Requests::give_slot_back(table::Identity identity) {
    (void)table::declare_dead(control_, identity);
    (void)table::sweep_dead(parts_.worker, identity);
}

Result<table::Identity> Requests::take_slot(const table::ClientFacts& facts, Descriptor* lock) {
    // A slot whose byte is still locked belongs to a process that said goodbye and has not closed its
    // descriptor yet: those are passed over, and given back at the end so that they are not found again at
    // once.
    std::vector<table::Identity> still_locked;
    Result<table::Identity> taken = Error{Code::full, ""};
    for (std::uint32_t attempt = 0; attempt < control_.client_count(); ++attempt) {
        taken = table::open_client(control_, facts);
        if (!taken) break;
        auto locked = parts_.domain.lock().lock_for(taken->slot);
        if (locked && *locked) {
            *lock = std::move(**locked);
            break;
        }
        still_locked.push_back(*taken);
        if (!locked) {
            taken = locked.error();
            break;
        }
        taken = Error{Code::full, "every free client slot is still locked by a process that left: try again"};
    }
    for (const auto& identity : still_locked)
        give_slot_back(identity);
    return taken;
}

wire::Welcome Requests::welcome_for(table::Identity identity, const Session& session,
                                    std::uint64_t page_bytes) const {
    wire::Welcome welcome;
    welcome.domain = control_.domain();
    welcome.slot = identity.slot;
    welcome.generation = identity.generation;
    welcome.name_space = session.name_space;
    welcome.control_bytes = control_.control_bytes();
    welcome.page_bytes = page_bytes;
    welcome.free_bytes = table::free_unit_bytes(control_);
    welcome.daemon_version = parts_.facts.version;
    welcome.pools = parts_.pools.describe();
    return welcome;
}

Result<void> Requests::hello(Session& session, const wire::Frame& frame) {
    const auto hello = wire::open<wire::Hello>(frame);
    if (!hello) return hello.error();
    if (session.client) return Error{Code::invalid, "hello a second time on one connection"};
    if (hello->instance_id.empty() || hello->instance_id.size() > instance_id_bytes_max ||
        hello->instance_id.find('\0') != std::string::npos)
        return Error{Code::invalid, "instance_id has " + std::to_string(hello->instance_id.size()) +
                                        " bytes, it takes 1 to " + std::to_string(instance_id_bytes_max) +
                                        " without a zero byte"};
    std::uint64_t page_bytes = 0;
    if (hello->page_bytes != 0) {
        const auto page_4k = page_4k_of(hello->page_bytes);
        if (!page_4k) return page_4k.error();
        page_bytes = std::uint64_t{*page_4k} * table::page_align;
    }
    if (auto room = check_room(); !room) return room;
    const auto entered = parts_.namespaces.enter(hello->name_space, session.peer());
    if (!entered) return entered.error();
    session.name_space = entered->id;

    Descriptor lock;
    table::ClientFacts facts = facts_of(session, *hello);
    facts.read_only = entered->read_only;
    const auto identity = take_slot(facts, &lock);
    if (!identity) return identity.error();
    session.client = *identity;
    parts_.reaper.connected(*identity, std::move(session.peer().pidfd));
    parts_.maintenance.wake();
    std::vector<Descriptor> owned;
    owned.push_back(std::move(lock));
    for (auto& pool : parts_.pools.descriptors())
        owned.push_back(std::move(pool));
    session.send(wire::encode_frame(frame.request, welcome_for(*identity, session, page_bytes)),
                 std::move(owned));
    spdlog::debug("'{}', process {}, connected as client slot {}", hello->instance_id, session.peer().pid,
                  identity->slot);
    return {};
}

Result<void> Requests::resume(Session& session, const wire::Frame& frame) {
    const auto asked = wire::open<wire::Resume>(frame);
    if (!asked) return asked.error();
    if (session.client) return Error{Code::invalid, "resume on a connection that has a client already"};
    const auto fenced = [](const std::string& why) {
        return Error{Code::fenced, why + ": close this client and connect anew"};
    };
    if (asked->domain != control_.domain())
        return fenced("domain " + asked->domain.text() + " is not served here any more, this is " +
                      control_.domain().text());
    const auto view = asked->slot == 0 || asked->slot >= control_.client_count()
                          ? std::nullopt
                          : table::read_client(control_, asked->slot);
    const bool same = view && view->identity.generation == asked->generation && !view->facts.is_daemon &&
                      view->facts.host == parts_.facts.host && view->facts.random == asked->random &&
                      view->facts.uid == session.peer().uid;
    if (!same)
        return fenced("client slot " + std::to_string(asked->slot) +
                      " belongs to nobody or to another client");
    if (view->phase != table::ClientPhase::active && view->phase != table::ClientPhase::connecting)
        return fenced("client slot " + std::to_string(asked->slot) +
                      " was given up while its client was away");
    const std::uint64_t seen = session.peer().pid != 0 ? start_time_of(session.peer().pid) : 0;
    if (view->facts.start_time != asked->start_time && view->facts.start_time != seen)
        return fenced("client slot " + std::to_string(asked->slot) +
                      " belongs to a process that started at another "
                      "time");
    if (Session* earlier = parts_.session_of_client(view->identity)) {
        earlier->client.reset();  // its end says nothing about the client any more
        earlier->close();
    }
    session.client = view->identity;
    session.name_space = view->facts.name_space;
    parts_.namespaces.settle(session);
    parts_.reaper.connected(view->identity, std::move(session.peer().pidfd));
    ++parts_.facts.reconnects;
    session.send(wire::encode_frame(frame.request, wire::Type::done));
    spdlog::info("'{}', process {}, is back in client slot {}", view->facts.instance_id, session.peer().pid,
                 asked->slot);
    return {};
}

Result<void> Requests::bye(Session& session, const wire::Frame& frame) {
    if (auto empty = wire::open_empty(frame, wire::Type::bye); !empty) return empty;
    if (!session.client) return not_a_client(frame);
    parts_.reaper.goodbye(*session.client);
    session.client.reset();
    session.send(wire::encode_frame(frame.request, wire::Type::done));
    session.close_after_sending();
    return {};
}

}  // namespace maru::daemon
