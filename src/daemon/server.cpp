#include "daemon/server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "daemon/build.hpp"
#include "daemon/reload.hpp"
#include "table/clients.hpp"

namespace maru::daemon {
namespace {

// Beyond the clients: administrators and newcomers that have not said who they are.
constexpr std::size_t spare_sessions = 64;
constexpr std::chrono::milliseconds accept_pause{100};

std::uint64_t monotonic_ms() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(MonotonicClock::now().time_since_epoch())
            .count());
}

bool out_of_descriptors(int result) {
    return result == -EMFILE || result == -ENFILE;
}

/// Somebody waits for this daemon.
bool has_clients(const table::Control& control) {
    for (std::uint32_t slot = 1; slot < control.client_count(); ++slot) {
        const auto client = table::read_client(control, slot);
        if (client && !client->facts.is_daemon && client->phase != table::ClientPhase::dead) return true;
    }
    return false;
}

/// The whole answer of a connection that cannot be served; not waited for.
void send_refusal(int socket, const Error& error) {
    const wire::Bytes frame = wire::encode_frame(0, wire::to_failure(error));
    if (::send(socket, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        spdlog::debug("a refused connection had ended already: {}", std::strerror(errno));
}

}  // namespace

Server::Server(const CommandLine& command_line, Config& config, Domain& domain, Listener& listener,
               MetricsSocket& metrics, Loop& loop, const Place& place)
    : command_line_(command_line),
      config_(config),
      domain_(domain),
      listener_(listener),
      loop_(loop),
      worker_(*domain.control, place.self),
      reaper_(loop, worker_, domain.lock(), facts_),
      hosts_(worker_, config_, place.host, facts_),
      evictor_(loop, worker_, hosts_, config_),
      maintenance_(loop, worker_, reaper_, hosts_, evictor_, config_, facts_),
      lock_(lock_control(domain)),
      prefault_(domain.pools, domain.configs, has_clients(*domain.control),
                lock_.bytes == 0 ? std::span<std::byte>() : domain.mapping.bytes().first(lock_.bytes)),
      pools_({loop, config_, domain_, worker_, prefault_,
              [this](const auto& visit) {
                  for (const auto& [id, session] : sessions_)
                      if (session->client) visit(*session);
              }}),
      namespaces_({loop, config_, *domain.control, worker_,
                   [this](const auto& visit) {
                       for (const auto& [id, session] : sessions_)
                           if (session->client) visit(*session);
                   }}),
      admin_(config_, *domain.control, facts_),
      check_(loop, *domain.control),
      requests_({config_, domain_, worker_, reaper_, maintenance_, admin_, pools_, namespaces_, check_,
                 facts_, [this](std::uint64_t id) { return find(id); },
                 [this](table::Identity identity) { return find_client(identity); }}),
      signals_(loop, [this](int number) { signalled(number); }),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
    describe_self();
    facts_.host = place.host.number;
    if (!config.metrics.listen.empty())
        metrics_ = std::make_unique<Metrics>(loop, metrics, config, *domain.control, facts_);
    maintenance_.on_lost = [this](Standing standing) { lost_place(standing); };
    facts_.large_page_bytes = [this](std::size_t pool) { return prefault_.gathered(pool); };
    facts_.control_locked_bytes = lock_.bytes;
    facts_.control_not_locked = lock_.refusal;
    reaper_.on_dead = [this](table::Identity identity) {
        if (Session* session = find_client(identity)) {
            session->client.reset();
            session->close();
        }
    };
}

Server::~Server() {
    loop_.cancel(accepting_);
    loop_.cancel(burying_);
    sessions_.clear();
}

void Server::describe_self() {
    facts_.version = MARU_VERSION;
    facts_.commit = commit;
    facts_.socket = listener_.path();
    facts_.host_id = host_id_of(config_);
    facts_.domain = domain_.control->domain().text();
    facts_.event_backend = loop_.name();
    facts_.started_monotonic_ms = monotonic_ms();
    facts_.pid = static_cast<std::uint32_t>(::getpid());
    facts_.pools = &domain_.pools;
}

Result<Standing> Server::run() {
    signals_.start();
    maintenance_.start();
    pools_.start();
    accept();
    if (metrics_) metrics_->start();
    ::sd_notifyf(0, "READY=1\nSTATUS=serving %s", listener_.path().c_str());
    auto ended = loop_.run();
    if (!ended) return ended.error();
    if (standing_ == Standing::current) hosts_.leave(reaper_.watched() != 0);
    return standing_;
}

void Server::lost_place(Standing standing) {
    standing_ = standing;
    if (standing == Standing::fenced) {
        spdlog::error(
            "this host showed no sign of life for longer than host.grace of the others and was fenced: "
            "its {} clients are refused from here on and have to connect anew",
            reaper_.watched());
        reaper_.fence_all();
    } else {
        spdlog::error("this host's place in domain {} is {}: {}", facts_.domain, name_of(standing),
                      standing == Standing::replaced
                          ? "another daemon serves under the same daemon.host_id, or the host was released"
                          : "another host has formatted the memory anew");
    }
    loop_.stop();
}

// -- connections

void Server::accept() {
    accepting_ = loop_.accept(listener_.socket(), [this](int result) {
        accepting_ = 0;
        accepted(result);
    });
}

void Server::accepted(int result) {
    if (result >= 0) {
        open_session(Descriptor(result));
        return accept();
    }
    if (out_of_descriptors(result)) {
        refuse_one(Error{Code::full,
                         "the daemon has no file descriptor left for another connection: raise its limit "
                         "(LimitNOFILE, ulimit -n)"});
    } else {
        spdlog::warn("accept on {}: {}", listener_.path(), std::strerror(-result));
    }
    // A pause, so that a lack that stays does not keep the loop busy.
    accepting_ = loop_.after(accept_pause, [this] { accept(); });
}

void Server::refuse_one(const Error& error) {
    ++facts_.refused;
    spdlog::warn("{}", error.text);
    spare_.reset();
    pollfd waiting{listener_.socket(), POLLIN, 0};
    if (::poll(&waiting, 1, 0) == 1) {
        const Descriptor refused(::accept4(listener_.socket(), nullptr, nullptr, SOCK_CLOEXEC));
        if (refused) send_refusal(refused.get(), error);
    }
    spare_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void Server::open_session(Descriptor socket) {
    const std::size_t most = config_.control.max_clients + spare_sessions;
    if (sessions_.size() >= most) {
        ++facts_.refused;
        return send_refusal(socket.get(),
                            Error{Code::full, std::to_string(most) + " connections are open, that is "
                                                                     "the most: raise control.max_clients"});
    }
    auto peer = peer_of(socket.get());
    if (!peer) {
        ++facts_.refused;
        return send_refusal(socket.get(), Error{Code::denied, "the kernel does not say who connects"});
    }
    const std::uint64_t id = ++last_session_;
    Session::Events events{[this](Session& session, wire::Frame frame) { requests_.answer(session, frame); },
                           [this](Session& session) { session_closed(session); }};
    auto session =
        std::make_unique<Session>(loop_, id, std::move(socket), std::move(*peer), std::move(events));
    Session& opened = *session;
    sessions_.emplace(id, std::move(session));
    facts_.sessions = sessions_.size();
    opened.start();
}

void Server::session_closed(Session& session) {
    if (session.client) reaper_.disconnected(*std::exchange(session.client, std::nullopt));
    const auto found = sessions_.find(session.id());
    if (found == sessions_.end()) return;
    ended_.push_back(std::move(found->second));
    sessions_.erase(found);
    facts_.sessions = sessions_.size();
    if (burying_ != 0) return;
    burying_ = loop_.after(std::chrono::milliseconds(0), [this] {
        burying_ = 0;
        ended_.clear();
    });
}

Session* Server::find(std::uint64_t id) {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.get();
}

Session* Server::find_client(table::Identity identity) {
    for (const auto& [id, session] : sessions_)
        if (session->client && session->client->slot == identity.slot &&
            session->client->generation == identity.generation)
            return session.get();
    return nullptr;
}

// -- signals

void Server::signalled(int number) {
    switch (number) {
        case SIGHUP:
            return reload();
        case SIGUSR1:
            return dump();
        default:
            spdlog::info("{}: stopping; {} clients go on without a daemon", ::strsignal(number),
                         reaper_.watched());
            loop_.stop();
    }
}

void Server::reload() {
    ::sd_notifyf(0, "RELOADING=1");
    auto fresh = load_config(command_line_);
    if (!fresh) {
        spdlog::error("the config is kept as it was: {}", fresh.error().text);
    } else {
        for (const auto& notice : apply_changes(*fresh, &config_))
            spdlog::warn("{}", notice);
        tell_eviction_policy(*domain_.control, config_);
        maintenance_.wake();
        if (auto level = set_log_level(config_.daemon.log_level); !level)
            spdlog::warn("{}", level.error().text);
        spdlog::info("the config was read again");
        pools_.take_config(*fresh);
        namespaces_.take_config(*fresh);
    }
    ::sd_notify(0, "READY=1");
}

void Server::dump() {
    for (const char* command : {"status", "pools", "clients", "regions"}) {
        const auto answer = admin_.answer(command, "{}");
        spdlog::info("{}: {}", command, answer ? *answer : answer.error().text);
    }
}

}  // namespace maru::daemon
