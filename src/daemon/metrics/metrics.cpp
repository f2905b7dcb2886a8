#include "daemon/metrics/metrics.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/admin.hpp"
#include "daemon/listen_address.hpp"
#include "daemon/metrics/exposition.hpp"

namespace maru::daemon {
namespace {

constexpr int scrape_backlog = 64;
// A killed daemon's sockets outlive it by the moment that the kernel needs to take its ring apart.
constexpr std::chrono::milliseconds port_patience{3000}, port_look{50};
// A large domain is counted in slices, with room for others between them.
constexpr std::chrono::milliseconds count_slice{2}, count_pause{2};
constexpr int answer_age_factor = 4;

Result<MetricsSocket> try_to_listen(const std::string& text) {
    const auto address = parse_listen_address(text);
    if (!address) return address.error();
    MetricsSocket made;
    const auto failed = [&](const char* step) {
        made.may_come_free = errno == EADDRINUSE;
        made.problem = "metrics.listen " + text + ": " + step + ": " + std::strerror(errno) +
                       (made.may_come_free ? "; stop whoever listens there, set metrics.listen to another "
                                             "address, or to \"\" for no metrics"
                                           : "; set metrics.listen to an address of this host, or to \"\" "
                                             "for no metrics");
        made.socket.reset();
        return std::move(made);
    };
    made.socket =
        Descriptor(::socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!made.socket) return failed("socket");
    const int on = 1;
    if (::setsockopt(made.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        return failed("setsockopt");
    if (::bind(made.socket.get(), address->get(), address->size) != 0) return failed("bind");
    if (::listen(made.socket.get(), scrape_backlog) != 0) return failed("listen");
    return made;
}

}  // namespace

Result<MetricsSocket> open_metrics(const Config& config) {
    if (config.metrics.listen.empty()) return MetricsSocket{};
    const bool asked = config.origins.count("metrics.listen") != 0;
    const Deadline deadline = deadline_after(port_patience);
    while (true) {
        auto opened = try_to_listen(config.metrics.listen);
        if (!opened || opened->socket || !asked) return opened;
        if (!opened->may_come_free || milliseconds_left(deadline) == 0)
            return Error{Code::unavailable, opened->problem};
        ::poll(nullptr, 0, static_cast<int>(port_look.count()));
    }
}

Metrics::Metrics(Loop& loop, MetricsSocket& socket, const Config& config, const table::Control& control,
                 DaemonFacts& facts)
    : loop_(loop),
      socket_(socket),
      config_(config),
      control_(control),
      facts_(facts),
      census_(control),
      usage_(control, facts.host),
      server_(loop, [this](ScrapeServer::Answer answer) { ask(std::move(answer)); }) {}

Metrics::~Metrics() {
    loop_.cancel(waiting_);
    facts_.leaving = nullptr;
    facts_.key_pins_expired = nullptr;
}

void Metrics::start() {
    if (socket_.socket) return listen();
    if (socket_.problem.empty()) return;
    if (socket_.may_come_free) return try_again(deadline_after(port_patience));
    spdlog::warn("no metrics: {}", socket_.problem);
}

void Metrics::listen() {
    facts_.metrics = address_of_socket(socket_.socket.get());
    facts_.leaving = [this](table::Identity identity) { usage_.look_at_leaving(identity); };
    facts_.key_pins_expired = [this](std::uint32_t slot, std::uint64_t count) {
        usage_.count_expired(slot, count);
    };
    spdlog::info("metrics at http://{}/metrics", facts_.metrics);
    server_.serve(socket_.socket.get());
}

void Metrics::try_again(Deadline end) {
    waiting_ = loop_.after(port_look, [this, end] {
        waiting_ = 0;
        auto opened = try_to_listen(config_.metrics.listen);
        if (!opened) return spdlog::warn("no metrics: {}", opened.error().text);
        socket_ = std::move(*opened);
        if (socket_.socket) return listen();
        if (socket_.may_come_free && milliseconds_left(end) > 0) return try_again(end);
        spdlog::warn("no metrics: {}", socket_.problem);
    });
}

void Metrics::ask(ScrapeServer::Answer answer) {
    if (MonotonicClock::now() < made_.good_until) return answer(made_.text);
    asked_.push_back(std::move(answer));
    if (asked_.size() == 1) count();
}

void Metrics::count() {
    const auto began = MonotonicClock::now();
    const bool complete = census_.refresh(began + count_slice);
    spent_ += MonotonicClock::now() - began;
    if (complete) return answer_all();
    waiting_ = loop_.after(count_pause, [this] {
        waiting_ = 0;
        count();
    });
}

void Metrics::answer_all() {
    const auto began = MonotonicClock::now();
    usage_.look();
    made_.text = expose({control_, facts_, census_.latest(), usage_.rows()});
    const auto now = MonotonicClock::now();
    spent_ += now - began;
    made_.good_until = now + answer_age_factor * std::exchange(spent_, {});
    for (const auto& answer : std::exchange(asked_, {}))
        answer(made_.text);
}

}  // namespace maru::daemon
