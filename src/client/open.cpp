// How a client comes to be: find the daemon, say hello, map the domain, claim memory.
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>

#include "base/fault_point.hpp"
#include "client/client.hpp"
#include "client/process_facts.hpp"
#include "table/clients.hpp"
#include "table/regions.hpp"
#include "wire/socket_path.hpp"

namespace maru::client {
namespace {

struct Found {
    wire::Stream stream;
    std::string path;
};

Result<Found> find_daemon(const std::string& server, ForkWard& ward, Deadline deadline) {
    const auto paths = wire::socket_candidates_to_connect(server);
    std::string tried;
    Code code = Code::unavailable;
    for (const auto& path : paths) {
        auto stream = connect_warded(path, ward, deadline);
        if (stream) return Found{std::move(*stream), path};
        if (paths.size() == 1) return stream.error();
        if (stream.error().code != Code::unavailable) code = stream.error().code;
        tried += (tried.empty() ? "" : "; ") + stream.error().text;
    }
    return Error{code, "no daemon found: " + tried};
}

/// The error of a daemon that was found: which one, and what it kept us waiting for.
Error at_daemon(Error error, const Found& daemon, const Settings& settings) {
    if (error.code == Code::timeout)
        error.text += ": " + daemon.path + " was given " + std::to_string(settings.timeout.count()) +
                      " ms; is it stopped, or timeout_ms too short?";
    if (error.code == Code::unavailable) error.text += ": " + daemon.path;
    return error;
}

}  // namespace

Deadline Client::deadline() const {
    return deadline_after(settings_.timeout);
}

Result<maru_client*> Client::open(const Settings& settings) {
    auto made = std::make_unique<maru_client>();
    Client& client = *made;
    client.settings_ = settings;
    client.serial_ = next_serial();
    prepare_quiesce();
    const Deadline deadline = client.deadline();
    register_ward(client.ward);
    const auto opened = [&]() -> Result<void> {
        auto found = find_daemon(settings.server, client.ward, deadline);
        if (!found) return found.error();
        wire::Welcome welcome;
        if (auto hello = client.say_hello(found->stream, deadline, &welcome); !hello)
            return at_daemon(hello.error(), *found, settings);
        if (settings.claim && client.may_write())
            if (auto claimed = client.first_claim(found->stream, deadline); !claimed)
                return at_daemon(claimed.error(), *found, settings);
        client.keep_up(std::move(found->stream), found->path);
        return {};
    }();
    if (opened) {
        client.life_ = Life::open;
        // Release: who sees the serial sees everything set up before; threads get the pointer by their own
        // means.
        client.ward.serial.store(client.serial_, std::memory_order_release);
        return made.release();
    }
    // Marked for the case that no daemon sees the connection close: the next one finds a slot given up, and
    // not one that this process, which lives on, may still use.
    if (client.control != nullptr) (void)table::declare_dead(*client.control, client.identity_);
    unregister_ward(client.ward);  // its descriptors close with it: the daemon takes the slot back
    return opened.error();
}

Result<void> Client::say_hello(wire::Stream& stream, Deadline deadline, wire::Welcome* welcome) {
    const auto facts = process_facts();
    hello_.instance_id = settings_.instance_id;
    hello_.name_space = settings_.name_space;
    hello_.page_bytes = settings_.claim || settings_.page_bytes_given ? settings_.page_bytes : 0;
    hello_.start_time = facts.start_time;
    hello_.exec_stamp = facts.exec_stamp;
    hello_.pid_namespace = facts.pid_namespace;
    hello_.random = random_bits();
    if (auto sent = stream.send(wire::encode_frame(1, hello_), deadline); !sent) return sent.error();
    if (auto started = start_watching(); !started) return started;
    if (auto there = stream.await_bytes(deadline); !there) return there.error();
    std::vector<Descriptor> pools;
    {
        // No fork may fall between the arrival of the lock and its entry in the ward.
        const std::lock_guard gate(fork_gate());
        auto frame = stream.receive(deadline);
        if (!frame) return frame.error();
        if (frame->type == wire::Type::failure) {
            auto failure = wire::open<wire::Failure>(*frame);
            return failure ? wire::to_error(*failure) : failure.error();
        }
        auto opened = wire::open<wire::Welcome>(*frame);
        if (!opened) return opened.error();
        *welcome = std::move(*opened);
        lock_ = std::move(frame->descriptors[0]);
        ward.lock.store(lock_.get(), std::memory_order_relaxed);  // read by a fork, which takes the gate
        pools.assign(std::make_move_iterator(frame->descriptors.begin() + 1),
                     std::make_move_iterator(frame->descriptors.end()));
    }
    return take_in(*welcome, pools);
}

Result<void> Client::take_in(const wire::Welcome& welcome, std::span<const Descriptor> pools) {
    auto mapped = Memory::map(welcome, pools);
    if (!mapped) return mapped.error();
    memory_ = std::move(*mapped);
    memory = memory_.get();
    control = &memory_->control();
    domain_ = welcome.domain;
    daemon_version_ = welcome.daemon_version;
    identity_ = {welcome.slot, welcome.generation};
    name_space = welcome.name_space;
    checksums = control->checksum_mode() != table::ChecksumMode::off;
    verify = control->checksum_mode() == table::ChecksumMode::verify;
    page_bytes = welcome.page_bytes != 0 ? welcome.page_bytes : settings_.page_bytes;
    if (page_bytes % table::page_align != 0 || page_bytes / table::page_align > UINT32_MAX)
        return Error{Code::damaged, "the daemon announced pages of " + std::to_string(page_bytes) + " bytes"};
    fault_point("connect.welcomed");
    if (!table::activate_client(*control, identity_))
        return Error{Code::fenced, "the daemon took client slot " + std::to_string(identity_.slot) +
                                       " back while this client connected: connect again"};
    fault_point("connect.activated");
    roster_ = std::make_shared<Roster>(*control, identity_);
    held_ = std::make_unique<HeldRegions>(control->region_count());
    key_pins_ = std::make_unique<KeyPins>(*control, identity_);
    page_marks_ = std::make_unique<PageMarks>(control->chunk_count());
    if (settings_.prefault) prefault_.add(memory_->control_bytes());
    return {};
}

Result<void> Client::first_claim(wire::Stream& stream, Deadline deadline) {
    auto answer = stream.ask(wire::encode_frame(2, wire::Claim{page_bytes, settings_.pool_bytes}), deadline);
    if (!answer) {
        if (answer.error().code != Code::full) return answer.error();
        remark(answer.error().text);
        note_none_left();
        return {};
    }
    auto claimed = wire::open<wire::Claimed>(*answer);
    if (!claimed) return claimed.error();
    adopt(*claimed);
    if (!claimed->warning.empty()) remark(claimed->warning);
    return {};
}

Result<void> Client::start_watching() {
    event_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!event_)
        return Error{Code::unavailable,
                     std::string("cannot make an event descriptor: ") + std::strerror(errno)};
    connection_ = std::make_unique<Connection>(ward, prefault_);
    return connection_->start();
}

void Client::keep_up(wire::Stream stream, const std::string& path) {
    wire::Resume resume;
    resume.domain = domain_;
    resume.slot = identity_.slot;
    resume.generation = identity_.generation;
    resume.random = hello_.random;
    resume.start_time = hello_.start_time;
    resume.pid_namespace = hello_.pid_namespace;
    Connection::Events events;
    events.descriptor = event_.get();
    events.unasked = [this](const wire::Frame& frame) {
        if (frame.type == wire::Type::pool_list) {
            (void)take_in_pools(frame);  // what could not be mapped is asked for again by who meets it
            return;
        }
        // The answer to a claim that nobody waited for: the memory is this client's all the same.
        if (auto claimed = wire::open<wire::Claimed>(frame)) adopt(*claimed);
        claim_unanswered_.store(false, std::memory_order_relaxed);
    };
    events.resumed = [this] {
        (void)memory_->take_in({}, {}, prefault_);  // what left meanwhile; what came is asked for when met
        find_held();
        no_claim_until_ms_.store(0, std::memory_order_relaxed);
        claim_unanswered_.store(false, std::memory_order_relaxed);
    };
    events.refused = [roster = roster_] { roster->fence(); };
    connection_->begin(std::move(stream), path, resume, std::move(events));
}

}  // namespace maru::client
