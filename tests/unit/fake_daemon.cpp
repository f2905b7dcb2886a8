#include "fake_daemon.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace maru {
namespace {

std::atomic<int> daemons{0};

}  // namespace

FakeDaemon::FakeDaemon(Shape shape)
    : shape_(shape),
      path_("/tmp/maru-fake-" + std::to_string(::getpid()) + "-" + std::to_string(daemons++) + ".sock"),
      memory_(::memfd_create("maru-fake", MFD_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    REQUIRE(memory_);
    REQUIRE(::ftruncate(memory_.get(), static_cast<off_t>(shape.pool_bytes)) == 0);
    auto mapped = shm::Mapping::map(memory_.get(), 0, shape.pool_bytes, "fake pool");
    REQUIRE(mapped);
    mapping_ = std::move(*mapped);
    table::FormatPlan plan;
    plan.domain = Uuid::random();
    plan.region_unit = shape.region_unit;
    plan.clients = 16;
    plan.pins = shape.pins;
    plan.checksum = shape.checksum;
    plan.pools.push_back({Uuid::random(), 3, "fake", shape.pool_bytes, 0});
    auto sizes = table::plan_control(plan);
    REQUIRE(sizes);
    plan.pools[0].data_offset = round_up(sizes->control_bytes, MiB);
    auto control = table::Control::format(mapping_.bytes(), plan);
    if (!control) FAIL(control.error().text);
    control_.emplace(std::move(*control));
    table::ClientFacts facts;
    facts.is_daemon = true;
    facts.instance_id = "daemon";
    auto own = table::open_client(*control_, facts);
    REQUIRE(own);
    REQUIRE(table::activate_client(*control_, *own));
    worker_ = std::make_unique<table::Worker>(*control_, *own);
    start();
}

FakeDaemon::~FakeDaemon() {
    stop();
}

void FakeDaemon::start() {
    listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    REQUIRE(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 16) == 0);
    stopping_ = false;
    thread_ = std::thread([this] { run(); });
}

void FakeDaemon::stop() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    thread_.join();
    ::unlink(path_.c_str());
    listener_.reset();
    swallowed_.clear();
    sessions_.clear();
}

void FakeDaemon::run() {
    while (true) {
        std::vector<pollfd> waits{{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
        {
            const std::lock_guard lock(mutex_);
            if (stopping_) return;
            for (const auto& session : sessions_)
                waits.push_back({session->socket.get(), POLLIN, 0});
        }
        (void)::poll(waits.data(), waits.size(), 1000);
        const std::lock_guard lock(mutex_);
        std::uint64_t count = 0;
        (void)!::read(wake_.get(), &count, sizeof count);
        std::vector<Session*> ended;
        for (std::size_t i = 2; i < waits.size(); ++i)
            if (waits[i].revents != 0 && !serve(*sessions_[i - 2])) ended.push_back(sessions_[i - 2].get());
        for (Session* gone : ended) {
            std::erase_if(swallowed_, [&](const auto& claim) { return claim.session == gone; });
            std::erase_if(sessions_, [&](const auto& session) { return session.get() == gone; });
        }
        if ((waits[1].revents & POLLIN) == 0) continue;
        auto session = std::make_unique<Session>();
        session->socket = Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!session->socket) continue;
        ++connections;
        sessions_.push_back(std::move(session));
    }
}

bool FakeDaemon::serve(Session& session) {
    std::byte bytes[4096];
    const ssize_t got = ::recv(session.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    if (!session.reader.feed({bytes, static_cast<std::size_t>(got)})) return false;
    while (auto frame = session.reader.next())
        answer(session, *frame);
    return true;
}

void FakeDaemon::send(Session& session, const wire::Bytes& frame, std::span<const int> descriptors) {
    auto stream = wire::Stream::adopt(Descriptor(::fcntl(session.socket.get(), F_DUPFD_CLOEXEC, 0)));
    if (stream) (void)stream->send(frame, deadline_after(std::chrono::milliseconds(5000)), descriptors);
}

void FakeDaemon::answer(Session& session, const wire::Frame& frame) {
    switch (frame.type) {
        case wire::Type::hello:
            return hello(session, frame);
        case wire::Type::resume: {
            ++resumes;
            const auto resume = wire::open<wire::Resume>(frame);
            if (const int code = refuse_resume; code != 0 || !resume)
                return send(session, wire::encode_frame(frame.request, wire::Failure{code, "refused"}));
            session.client = table::Identity{resume->slot, resume->generation};
            return send(session, wire::encode_frame(frame.request, wire::Type::done));
        }
        case wire::Type::claim: {
            ++claims;
            const auto wanted = wire::open<wire::Claim>(frame);
            if (!wanted || !session.client) return;
            if (swallow_claims) return swallowed_.push_back({&session, frame.request, *wanted});
            return claim(session, frame.request, *wanted);
        }
        case wire::Type::ping:
            return send(session, wire::encode_frame(frame.request, wire::Type::pong));
        case wire::Type::bye:
            ++byes;
            if (session.client && table::declare_dead(*control_, *session.client))
                (void)table::sweep_dead(*worker_, *session.client);
            session.client.reset();
            return send(session, wire::encode_frame(frame.request, wire::Type::done));
        default:
            return;
    }
}

void FakeDaemon::hello(Session& session, const wire::Frame& frame) {
    ++hellos;
    const auto asked = wire::open<wire::Hello>(frame);
    if (!asked) return send(session, wire::encode_frame(frame.request, wire::to_failure(asked.error())));
    table::ClientFacts facts;
    facts.pid = static_cast<std::uint32_t>(::getpid());
    facts.instance_id = asked->instance_id;
    auto slot = table::open_client(*control_, facts);
    if (!slot) return send(session, wire::encode_frame(frame.request, wire::to_failure(slot.error())));
    session.client = identity_ = *slot;
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    lock_watch_ = Descriptor(ends[0]);
    const Descriptor lock(ends[1]);
    wire::Welcome welcome;
    welcome.domain = control_->domain();
    welcome.slot = slot->slot;
    welcome.generation = slot->generation;
    welcome.control_bytes = control_->control_bytes();
    welcome.page_bytes = asked->page_bytes;
    welcome.daemon_version = "fake";
    welcome.pools.push_back({Uuid::random(), 3, "fake", "/memfd", shape_.pool_bytes, 4096});
    if (change_welcome) change_welcome(welcome);
    std::vector<int> descriptors{lock.get(), memory_.get()};
    for (int i = 0; i < extra_descriptors; ++i)
        descriptors.push_back(memory_.get());
    send(session, wire::encode_frame(frame.request, welcome), descriptors);
}

void FakeDaemon::claim(Session& session, std::uint32_t request, const wire::Claim& wanted) {
    wire::Claimed claimed;
    std::uint64_t covered = 0;
    const table::PageClass of{static_cast<std::uint32_t>(wanted.page_bytes / table::page_align), 0};
    while (covered < wanted.bytes) {
        auto region =
            table::claim_region(*worker_, of, session.client->holder_word(), false, &claimed.warning);
        if (!region) break;
        claimed.regions.push_back({region->number, region->page_count, wanted.page_bytes});
        covered += region->page_count * wanted.page_bytes;
    }
    send(session, wire::encode_frame(request, claimed));
}

void FakeDaemon::answer_swallowed() {
    const std::lock_guard lock(mutex_);
    for (const auto& one : swallowed_)
        claim(*one.session, one.request, one.claim);
    swallowed_.clear();
}

bool FakeDaemon::lock_is_open() const {
    pollfd wait{lock_watch_.get(), POLLIN, 0};
    return ::poll(&wait, 1, 0) == 0;
}

table::ClientPhase FakeDaemon::phase() const {
    const std::uint64_t word = control_->client(identity_.slot).state.load(shm::acquire);
    if (table::client_state::generation(word) != identity_.generation) return table::ClientPhase::free;
    return table::client_state::phase(word);
}

}  // namespace maru
