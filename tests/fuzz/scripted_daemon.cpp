#include "scripted_daemon.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>

#include "small_domain.hpp"
#include "table/regions.hpp"
#include "table/sweep.hpp"
#include "wire/beside.hpp"

namespace maru::fuzz {
namespace {

constexpr std::size_t descriptors_max = 80;  // more than any frame may carry

/// One sendmsg, whatever it takes of the bytes; true when it took some.
bool send_beside(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
    if (bytes.empty()) return true;
    alignas(cmsghdr) char room[CMSG_SPACE(descriptors_max * sizeof(int))] = {};
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) wire::put_descriptors(message, room, descriptors);
    return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

}  // namespace

Descriptor odd_descriptor(std::uint8_t kind, int memory) {
    switch (kind % 9) {
        case 0:
            return Descriptor(::fcntl(memory, F_DUPFD_CLOEXEC, 0));
        case 1:
            return Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC));
        case 2:
            return Descriptor(::open("/dev/zero", O_RDWR | O_CLOEXEC));
        case 3:
            return Descriptor(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        case 4:
            return Descriptor(::eventfd(0, EFD_CLOEXEC));
        case 5:
            return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        case 6: {  // a file that is too short
            Descriptor file(::memfd_create("maru-fuzz-short", MFD_CLOEXEC));
            (void)!::ftruncate(file.get(), 8192);
            return file;
        }
        case 7: {  // read-only
            const std::string own = "/proc/self/fd/" + std::to_string(memory);
            return Descriptor(::open(own.c_str(), O_RDONLY | O_CLOEXEC));
        }
        default: {  // blank
            Descriptor file(::memfd_create("maru-fuzz-blank", MFD_CLOEXEC));
            (void)!::ftruncate(file.get(), static_cast<off_t>(small_plan().pools[0].bytes));
            return file;
        }
    }
}

bool send_piece(int socket, std::span<const std::byte> bytes, std::size_t descriptors, std::uint8_t kind) {
    const Descriptor one = odd_descriptor(kind, socket);
    const std::vector<int> numbers(std::min(descriptors, descriptors_max), one.get());
    return send_beside(socket, bytes, numbers);
}

ScriptedDaemon::ScriptedDaemon()
    : memory_(::memfd_create("maru-fuzz", MFD_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const table::FormatPlan plan = small_plan();
    require(::ftruncate(memory_.get(), static_cast<off_t>(plan.pools[0].bytes)) == 0, "no memory for a pool");
    auto mapped = shm::Mapping::map(memory_.get(), 0, plan.pools[0].bytes, "pool");
    require(bool(mapped), "the pool cannot be mapped");
    mapping_ = std::move(*mapped);
    auto control = table::Control::format(mapping_.bytes(), plan);
    require(bool(control), "the domain cannot be formatted");
    control_.emplace(std::move(*control));
    table::ClientFacts facts;
    facts.is_daemon = true;
    facts.instance_id = "daemon";
    const auto self = table::open_client(*control_, facts);
    require(self && table::activate_client(*control_, *self), "the daemon has no slot");
    self_ = *self;
    pristine_.assign(control_bytes().begin(), control_bytes().end());

    const char* temporary = std::getenv("TMPDIR");
    folder_ = std::string(temporary != nullptr ? temporary : "/tmp") + "/maru-fuzz.XXXXXX";
    require(::mkdtemp(folder_.data()) != nullptr, "no folder for a socket");
    path_ = folder_ + "/maru.sock";
    listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    require(path_.size() < sizeof address.sun_path, "the folder for the socket has too long a name");
    std::memcpy(address.sun_path, path_.data(), path_.size());
    require(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                ::listen(listener_.get(), 16) == 0,
            "no socket to listen on");
    thread_ = std::thread([this] { run(); });
}

ScriptedDaemon::~ScriptedDaemon() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    thread_.join();
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
}

void ScriptedDaemon::begin(const std::vector<std::uint8_t>& script) {
    const std::lock_guard lock(mutex_);
    std::memcpy(control_bytes().data(), pristine_.data(), pristine_.size());
    worker_ = std::make_unique<table::Worker>(*control_, self_);
    script_bytes_ = script;
    script_.emplace(script_bytes_.data(), script_bytes_.size());
    open_ = true;
}

std::string ScriptedDaemon::end() {
    const std::lock_guard lock(mutex_);
    open_ = false;
    sessions_.clear();
    // Who waits in the queue of the listener is let in and sent away, so that no input leaves one to the
    // next.
    while (Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC))) {
    }
    std::vector<std::string> open;
    std::error_code gone;  // the descriptor that lists them
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const std::string what = std::filesystem::read_symlink(entry, gone).string();
        // Not pipes: the client opens none, and libFuzzer's symbolizer comes when it wants.
        if (what.compare(0, 5, "pipe:") != 0) open.push_back(entry.path().filename().string() + " " + what);
    }
    std::sort(open.begin(), open.end());
    std::string lines;
    for (const auto& line : open)
        lines += line + "\n";
    return lines;
}

void ScriptedDaemon::run() {
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
        std::erase_if(sessions_, [&](const auto& session) {
            const bool ready = std::any_of(waits.begin() + 2, waits.end(), [&](const pollfd& wait) {
                return wait.fd == session->socket.get() && wait.revents != 0;
            });
            return ready && !serve(*session);
        });
        Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket || !open_) continue;
        sessions_.push_back(std::make_unique<Session>());
        sessions_.back()->socket = std::move(socket);
    }
}

bool ScriptedDaemon::serve(Session& session) {
    std::byte bytes[4096];
    const ssize_t got = ::recv(session.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    require(bool(session.reader.feed({bytes, static_cast<std::size_t>(got)})),
            "the client sent something that is no frame");
    while (auto frame = session.reader.next())
        if (!answer(session, *frame)) return false;
    return true;
}

bool ScriptedDaemon::send(Session& session, std::span<const std::byte> bytes,
                          std::span<const Descriptor> descriptors) {
    std::vector<int> numbers;
    for (const Descriptor& descriptor : descriptors)
        numbers.push_back(descriptor.get());
    return send_beside(session.socket.get(), bytes, numbers);
}

/// Something else than the right answer, or beside it.
void ScriptedDaemon::bend(Answer& answer, Input& script) const {
    const std::uint8_t how = script.byte();
    switch (how % 8) {
        case 0:  // bytes of the body replaced
            for (int n = 0; n < 1 + how / 32 && answer.frame.size() > wire::header_bytes; ++n) {
                const std::size_t body = answer.frame.size() - wire::header_bytes;
                answer.frame[wire::header_bytes + script.half() % body] =
                    static_cast<std::byte>(script.byte());
            }
            return;
        case 1: {  // any body under a right header
            wire::Header header;
            header.type = static_cast<wire::Type>(script.byte() % 16);
            header.request = script.byte() % 4 == 0 ? script.word() : 1001;
            const auto body = script.bytes(script.byte());
            header.body = static_cast<std::uint32_t>(body.size());
            const auto head = wire::encode_header(header);
            answer.frame.assign(head.begin(), head.end());
            for (const std::uint8_t byte : body)
                answer.frame.push_back(static_cast<std::byte>(byte));
            return;
        }
        case 2:  // no frame at all
            answer.frame.clear();
            for (const std::uint8_t byte : script.bytes(script.byte()))
                answer.frame.push_back(static_cast<std::byte>(byte));
            return;
        case 3:  // header bent
            answer.frame[script.byte() % wire::header_bytes] = static_cast<std::byte>(script.byte());
            return;
        case 4:  // cut short, or longer
            answer.frame.resize(script.half() % (answer.frame.size() + 64));
            return;
        case 5:  // other descriptors
            if (!answer.descriptors.empty())
                answer.descriptors[script.byte() % answer.descriptors.size()] =
                    odd_descriptor(script.byte(), memory_.get());
            return;
        case 6:  // too few, too many
            if (how >= 128)
                answer.descriptors.clear();
            else
                for (int n = 0; n < script.byte() % 70; ++n)
                    answer.descriptors.push_back(odd_descriptor(0, memory_.get()));
            return;
        default:
            answer.frame = wire::encode_frame(
                1001, wire::Failure{static_cast<std::int8_t>(script.byte()), script.text(script.byte())});
    }
}

bool ScriptedDaemon::answer(Session& session, const wire::Frame& frame) {
    Answer made = right_answer(session, frame);
    const std::uint8_t kind = script_->byte();
    if (kind % 8 == 1) return false;  // hangs up instead
    if (kind % 8 >= 5) bend(made, *script_);
    if (kind % 8 == 2 && !send(session, made.frame, made.descriptors)) return false;  // twice
    if (kind % 8 == 3) {                                                              // in two pieces
        const std::size_t cut = 1 + script_->byte() % (made.frame.size() - 1);
        return send(session, std::span(made.frame).first(cut), made.descriptors) &&
               send(session, std::span(made.frame).subspan(cut), {});
    }
    if (kind % 8 == 4) {  // something unasked before it
        const std::uint8_t request = script_->byte();
        const Answer list = request % 2 == 0 ? pool_list(0) : Answer{};
        const wire::Bytes unasked =
            request % 2 == 0 ? list.frame : wire::encode_frame(request, wire::Type::pong);
        if (!send(session, unasked, list.descriptors)) return false;
    }
    return send(session, made.frame, made.descriptors);
}

ScriptedDaemon::Answer ScriptedDaemon::right_answer(Session& session, const wire::Frame& frame) {
    const auto with = [&](wire::Type type, wire::Bytes bytes) {
        sent_types_.fetch_or(1u << static_cast<unsigned>(type), std::memory_order_relaxed);
        return Answer{std::move(bytes), {}};
    };
    switch (frame.type) {
        case wire::Type::hello:
            return welcome(session, frame);
        case wire::Type::resume:
            if (const auto resume = wire::open<wire::Resume>(frame))
                session.client = table::Identity{resume->slot, resume->generation};
            return with(wire::Type::done, wire::encode_frame(frame.request, wire::Type::done));
        case wire::Type::claim:
            return with(wire::Type::claimed, claimed(session, frame));
        case wire::Type::ask_pools:
            return pool_list(frame.request);
        case wire::Type::ping:
            return with(wire::Type::pong, wire::encode_frame(frame.request, wire::Type::pong));
        case wire::Type::bye:
            if (session.client && table::declare_dead(*control_, *session.client))
                (void)table::sweep_dead(*worker_, *session.client);
            session.client.reset();
            return with(wire::Type::done, wire::encode_frame(frame.request, wire::Type::done));
        case wire::Type::admin:
            return with(wire::Type::admin_answer, wire::encode_frame(frame.request, wire::AdminAnswer{"{}"}));
        default:
            return with(wire::Type::failure,
                        wire::encode_frame(frame.request, wire::Failure{-1, "no request"}));
    }
}

ScriptedDaemon::Answer ScriptedDaemon::welcome(Session& session, const wire::Frame& frame) {
    const auto asked = wire::open<wire::Hello>(frame);
    require(bool(asked), "the client's hello does not read");
    table::ClientFacts facts;
    facts.instance_id = asked->instance_id;
    const auto slot = table::open_client(*control_, facts);
    if (!slot) return {wire::encode_frame(frame.request, wire::to_failure(slot.error())), {}};
    session.client = *slot;
    wire::Welcome welcome;
    welcome.domain = control_->domain();
    welcome.slot = slot->slot;
    welcome.generation = slot->generation;
    welcome.control_bytes = control_->control_bytes();
    welcome.page_bytes = asked->page_bytes;
    welcome.daemon_version = "scripted";
    welcome.pools.push_back(pool());
    Answer answer{wire::encode_frame(frame.request, welcome), {}};
    answer.descriptors.emplace_back(
        ::eventfd(0, EFD_CLOEXEC));  // stands for the lock, which only has to stay open
    answer.descriptors.push_back(odd_descriptor(0, memory_.get()));
    sent_types_.fetch_or(1u << static_cast<unsigned>(wire::Type::welcome), std::memory_order_relaxed);
    return answer;
}

wire::PoolDescription ScriptedDaemon::pool() const {
    return {control_->domain(), 3, "small", "/memfd", mapping_.size(), 4096};
}

ScriptedDaemon::Answer ScriptedDaemon::pool_list(std::uint32_t request) {
    Answer answer{wire::encode_frame(request, wire::PoolList{{pool()}}), {}};
    answer.descriptors.push_back(odd_descriptor(0, memory_.get()));
    sent_types_.fetch_or(1u << static_cast<unsigned>(wire::Type::pool_list), std::memory_order_relaxed);
    return answer;
}

wire::Bytes ScriptedDaemon::claimed(Session& session, const wire::Frame& frame) {
    const auto wanted = wire::open<wire::Claim>(frame);
    require(bool(wanted), "the client's claim does not read");
    wire::Claimed claimed;
    const table::PageClass of{static_cast<std::uint32_t>(wanted->page_bytes / table::page_align), 0};
    const std::uint64_t holder = session.client ? session.client->holder_word() : 0;
    for (std::uint64_t covered = 0; holder != 0 && of.page_4k != 0 && covered < wanted->bytes;) {
        const auto region = table::claim_region(*worker_, of, holder, false, &claimed.warning);
        if (!region) break;
        claimed.regions.push_back({region->number, region->page_count, wanted->page_bytes});
        covered += region->page_count * wanted->page_bytes;
    }
    return wire::encode_frame(frame.request, claimed);
}

}  // namespace maru::fuzz
