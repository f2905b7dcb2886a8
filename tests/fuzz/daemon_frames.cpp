// The daemon against everything that can come over its socket: the real server with its sessions, requests,
// reaper and maintenance, on a loop whose events are the input. An input is a sequence of connections, frames
// (well-formed, bent and raw), pauses and ends.
//
// Promises: each request has one answer with its number, in order; what is sent reads back as frames; the
// control region is sound afterwards.
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <deque>
#include <nlohmann/json.hpp>

#include "daemon/server.hpp"
#include "memory_pool.hpp"
#include "scripted_loop.hpp"
#include "table/check.hpp"

using namespace maru;
using fuzz::Input;
using fuzz::require;
using std::chrono::milliseconds;

namespace {

constexpr std::uint8_t slow_mark = 0xc5;
constexpr int steps_max = 64;
constexpr std::size_t connections_max = 8;
constexpr std::uint64_t pool_bytes = 2 * MiB;

/// A check takes 100 ms: only a few inputs may ask for one. Decided by the input alone, so that it does the
/// same each time; most children of one that may are quick again.
bool may_be_slow(const std::uint8_t* data, std::size_t size) {
    unsigned sum = 0;
    for (std::size_t i = 0; i < size; ++i)
        sum += data[i];
    return size > 0 && data[0] == slow_mark && sum % 32 == 0;
}

std::uint32_t reached = 0;  // a bit for each wire::Type

void reach(wire::Type type) {
    reached |= 1u << static_cast<unsigned>(type);
}

daemon::Config small_config() {
    daemon::Config config;
    config.daemon.host_id = "fuzz";
    config.metrics.listen = "";
    config.control.max_clients = 5;
    config.control.max_objects = 256;
    config.control.max_hosts = 2;
    config.control.max_namespaces = 4;
    config.control.max_pins = 10 * table::pins_per_chunk;
    config.control.region_size = 128 * KiB;
    return config;
}

/// The domain of all inputs: formatted once, put back before each.
class Ground {
  public:
    Ground() : config(small_config()) {
        spdlog::set_level(spdlog::level::off);
        std::string path = "/tmp/maru-fuzz.XXXXXX";
        const Descriptor made(::mkstemp(path.data()));
        bool busy = false;
        auto lock = daemon::LockFile::take(path, &busy);
        require(made && lock, "no lock file");
        ::unlink(path.c_str());
        domain.locks.push_back(std::move(*lock));
        domain.pools.push_back(std::make_unique<fuzz::MemoryPool>(pool_bytes));
        require(bool(daemon::format_domain(config, &domain)), "the domain cannot be formatted");
        const auto entered = daemon::enter_domain(*domain.control, config);
        require(bool(entered), "the daemon has no slot");
        place = *entered;
        pristine_.assign(bytes().begin(), bytes().end());
    }
    void restore() { std::memcpy(bytes().data(), pristine_.data(), pristine_.size()); }

    daemon::CommandLine command_line;
    daemon::Config config;
    daemon::Domain domain;
    daemon::Place place;

  private:
    std::span<std::byte> bytes() { return domain.mapping.bytes().first(domain.control->control_bytes()); }
    std::vector<std::byte> pristine_;
};

/// The other end of one connection.
struct Peer {
    int socket = -1;
    bool reads = true;  // takes what the daemon sends
    bool is_over = false;
    wire::FrameReader asked, answered;
    std::deque<std::uint32_t> open_requests;
    wire::Welcome welcome;               // the latest
    std::vector<std::uint32_t> regions;  // that it was given
    wire::Hello hello;
};

void note_request(const wire::Frame& frame) {
    const auto decodes = [&]() -> bool {
        switch (frame.type) {
            case wire::Type::hello:
                return bool(wire::open<wire::Hello>(frame));
            case wire::Type::resume:
                return bool(wire::open<wire::Resume>(frame));
            case wire::Type::claim:
                return bool(wire::open<wire::Claim>(frame));
            case wire::Type::give_back:
                return bool(wire::open<wire::GiveBack>(frame));
            case wire::Type::admin:
                return bool(wire::open<wire::Admin>(frame));
            case wire::Type::bye:
            case wire::Type::ping:
            case wire::Type::ask_pools:
                return bool(wire::open_empty(frame, frame.type));
            default:
                return false;  // answers count when the daemon sends them
        }
    };
    if (decodes()) reach(frame.type);
}

class Run {
  public:
    Run(Ground& ground, Input& input, bool may_be_slow)
        : input_(input),
          may_be_slow_(may_be_slow),
          server_(ground.command_line, ground.config, ground.domain, listener_, metrics_, loop_,
                  ground.place),
          pools_(ground.domain.pools.size()) {
        loop_.script = [this] { play(); };
        loop_.sent = [this](int socket, std::span<const std::byte> bytes, std::size_t descriptors) {
            return take(socket, bytes, descriptors);
        };
        server_.take_over(false);
        require(bool(server_.run()), "the loop ended with an error");
    }

  private:
    void play() {
        for (int step = 0; step < steps_max && !input_.empty(); ++step) {
            this->step();
            loop_.complete_sends();
        }
        if (asked_for_check_) loop_.poll(milliseconds(1000));
        loop_.complete_sends();
        loop_.advance(milliseconds(300));
        loop_.complete_sends();
    }

    void step() {
        const std::uint8_t kind = input_.byte();
        const std::uint8_t which = input_.byte();
        if (kind < 32 || peers_.empty()) return connect();
        Peer& peer = peers_[which % peers_.size()];
        if (kind < 160) return send(peer, message(peer, kind % 16));
        if (kind < 192) return send(peer, raw_frame());
        switch (kind % 8) {
            case 0:
                return send(peer, bytes(input_.half()));
            case 1: {  // a frame in two pieces, with a pause between
                auto frame = message(peer, input_.byte() % 16);
                const std::size_t cut = std::min<std::size_t>(input_.byte(), frame.size());
                deliver(peer, std::span(frame).first(cut));
                loop_.advance(milliseconds(input_.half() % 6000));
                return deliver(peer, std::span(frame).subspan(cut));
            }
            case 2:
                return end(peer, input_.byte() % 2 == 0 ? 0 : -ECONNRESET);
            case 3:
                return loop_.advance(milliseconds(input_.half()));
            case 4:
                peer.reads = !peer.reads;
                return;
            case 5:
                return with_descriptors(peer);
            case 6:
                return loop_.complete_sends(-EPIPE);
            default:  // several frames in one piece
                auto both = message(peer, input_.byte() % 16);
                const auto second = message(peer, input_.byte() % 16);
                both.insert(both.end(), second.begin(), second.end());
                return send(peer, both);
        }
    }

    void connect() {
        int ends[2] = {-1, -1};
        if (peers_.size() >= connections_max) return;
        require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no sockets left");
        ::close(ends[1]);
        for (Peer& peer : peers_)
            if (peer.socket == ends[0]) peer.is_over = true;  // the daemon has closed that one
        if (!loop_.connect(ends[0])) {
            ::close(ends[0]);
            return;
        }
        Peer peer;
        peer.socket = ends[0];
        peer.hello.instance_id = "peer-" + std::to_string(peers_.size());
        peer.hello.random = 7;
        peers_.push_back(std::move(peer));
    }

    // -- what is sent

    wire::Bytes bytes(std::size_t count) {
        const auto taken = input_.bytes(count % 1024);
        wire::Bytes copy(taken.size());
        std::ranges::copy(std::as_bytes(taken), copy.begin());
        return copy;
    }

    /// A right header before any body, often of another type.
    wire::Bytes raw_frame() {
        wire::Header header;
        header.type = static_cast<wire::Type>(input_.byte() % 16);
        header.request = input_.byte();
        const auto body = bytes(input_.byte());
        header.body = static_cast<std::uint32_t>(body.size());
        const std::uint8_t bend = input_.byte();
        if (bend == 1) header.body = input_.word();
        if (bend == 2) header.version = input_.half();
        if (bend == 3) header.magic = input_.word();
        const auto head = wire::encode_header(header);
        wire::Bytes frame(head.begin(), head.end());
        frame.insert(frame.end(), body.begin(), body.end());
        return frame;
    }

    std::uint64_t some_bytes() {
        const std::uint8_t how = input_.byte();
        if (how < 128) return std::uint64_t{how} * 4096;
        return how < 160 ? input_.long_word() : std::uint64_t{1} << (how % 64);
    }

    wire::Bytes message(Peer& peer, int kind) {
        const std::uint32_t request = input_.byte();
        switch (kind) {
            case 0:
            case 1:
            case 2:
                return hello(peer, request);
            case 3:
            case 4:
                return resume(request);
            case 5:
            case 6:
            case 7:
                return wire::encode_frame(request, wire::Claim{some_bytes(), some_bytes()});
            case 8:
            case 9:
                return give_back(peer, request);
            case 10:
                return wire::encode_frame(request, wire::Type::bye);
            case 11:
                return wire::encode_frame(request, wire::Type::ping);
            case 12:
                return wire::encode_frame(
                    request, wire::Admin{input_.text(input_.byte() % 16), input_.text(input_.byte())});
            case 15:
                return change_namespace(request);
            default:
                return admin(request);
        }
    }

    wire::Bytes change_namespace(std::uint32_t request) {
        static constexpr const char* commands[] = {"namespace_create", "namespace_set", "namespace_rm",
                                                   "flush"};
        static constexpr const char* fields[] = {"",
                                                 ",\"dry_run\":true",
                                                 ",\"flush\":true",
                                                 ",\"quota\":65536",
                                                 ",\"uids\":[],\"gids\":[1,1,2]",
                                                 ",\"readonly_gids\":[0]",
                                                 ",\"quota\":-1",
                                                 ",\"uids\":[4294967295]",
                                                 ",\"uids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]",
                                                 ",\"else\":0"};
        const std::uint8_t how = input_.byte(), what = input_.byte();
        const std::string name = how < 128   ? "space-" + std::to_string(how % 8)
                                 : how < 192 ? "default"
                                             : input_.text(input_.byte());
        std::string text =
            nlohmann::json{{"name", name}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        text.insert(text.size() - 1, fields[what / 4 % 10]);
        return wire::encode_frame(request, wire::Admin{commands[what % 4], text});
    }

    wire::Bytes hello(Peer& peer, std::uint32_t request) {
        const std::uint8_t how = input_.byte();
        wire::Hello hello = peer.hello;
        if ((how & 1) != 0) hello.name_space = "space-" + std::to_string(how % 8);
        if ((how & 2) != 0) hello.page_bytes = some_bytes();
        if ((how & 48) == 48) hello.instance_id = input_.text(input_.byte());
        if ((how & 192) == 192) hello.name_space = input_.text(input_.byte());
        return wire::encode_frame(request, hello);
    }

    wire::Bytes resume(std::uint32_t request) {
        const std::uint8_t how = input_.byte();
        const Peer& earlier = peers_[how % peers_.size()];
        wire::Resume resume;
        resume.domain = earlier.welcome.domain;
        resume.slot = earlier.welcome.slot;
        resume.generation = earlier.welcome.generation;
        resume.random = earlier.hello.random;
        if (how >= 128) resume.slot = input_.byte();
        if (how >= 192) resume.generation = input_.word();
        if (how >= 224) resume.start_time = input_.byte();
        if (how >= 240) resume.domain.bytes[0] = input_.byte();
        return wire::encode_frame(request, resume);
    }

    wire::Bytes give_back(const Peer& peer, std::uint32_t request) {
        wire::GiveBack give;
        const std::uint8_t how = input_.byte();
        for (int n = 0; n < how % 5; ++n)
            give.regions.push_back(how >= 128 || peer.regions.empty()
                                       ? input_.half()
                                       : peer.regions[input_.byte() % peer.regions.size()]);
        return wire::encode_frame(request, give);
    }

    wire::Bytes admin(std::uint32_t request) {
        static constexpr const char* commands[] = {"ping",       "status", "pools", "regions", "clients",
                                                   "namespaces", "keys",   "check", "drain",   ""};
        static constexpr const char* arguments[] = {"",
                                                    "{}",
                                                    "{\"cursor\":3}",
                                                    "{\"limit\":1}",
                                                    "{\"prefix_hex\":\"6b\"}",
                                                    "{\"cursor\":18446744073709551615}",
                                                    "[",
                                                    "{\"cursor\":-1}"};
        static constexpr const char* changes[][2] = {
            {"evict", "{\"bytes\":8192}"},
            {"evict", "{\"namespace\":\"a\",\"dry_run\":true}"},
            {"evict", "{\"older_than_s\":1,\"cursor\":64}"},
            {"evict", "{\"bytes\":1,\"cursor\":18446744073709551615}"},
            {"evict", "{\"dry_run\":false}"},
            {"trace", "{\"on\":true}"},
            {"trace", "{\"on\":1}"},
            {"log_level", "{\"level\":\"error\"}"},
            {"log_level", "{\"level\":\"loud\"}"},
            {"log_level", "{}"}};
        const std::uint8_t how = input_.byte();
        if (how >= 200 && how < 210) {
            const auto& change = changes[how - 200];
            return wire::encode_frame(request, wire::Admin{change[0], change[1]});
        }
        std::string text = arguments[how / 10 % 8];
        if (how >= 240)
            text = "{\"" + input_.text(input_.byte() % 12) + "\":" + input_.text(input_.byte()) + "}";
        return wire::encode_frame(request, wire::Admin{commands[how % 10], text});
    }

    void send(Peer& peer, const wire::Bytes& frame) { deliver(peer, frame); }

    void deliver(Peer& peer, std::span<const std::byte> piece) {
        if (peer.is_over || piece.empty()) return;
        const std::string_view text(reinterpret_cast<const char*>(piece.data()), piece.size());
        const bool asks_for_check = text.find("check") != text.npos;
        if (asks_for_check && !may_be_slow_) return;
        asked_for_check_ = asked_for_check_ || asks_for_check;
        // Noted first: the answer may come from within.
        const bool in_step = bool(peer.asked.feed(piece));
        std::size_t added = 0;
        while (in_step) {
            const auto frame = peer.asked.next();
            if (!frame) break;
            note_request(*frame);
            peer.open_requests.push_back(frame->request);
            ++added;
        }
        daemon::Received received;
        received.result = static_cast<int>(piece.size());
        received.bytes = piece;
        const int socket = peer.socket;
        if (loop_.deliver(socket, std::move(received))) return;
        peer.is_over =
            !in_step || added > 0 || peer.is_over;  // the daemon does not listen: what follows is lost
    }

    void end(Peer& peer, int result) {
        daemon::Received received;
        received.result = result;
        if (!peer.is_over) (void)loop_.deliver(peer.socket, std::move(received));
        peer.is_over = true;
    }

    void with_descriptors(Peer& peer) {
        if (peer.is_over) return;
        const auto frame = message(peer, input_.byte() % 16);
        daemon::Received received;
        received.result = static_cast<int>(frame.size());
        received.bytes = frame;
        received.descriptors_lost = input_.byte() % 4 == 0;
        for (int n = 0; n < 1 + input_.byte() % 3; ++n)
            received.descriptors.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        (void)loop_.deliver(peer.socket, std::move(received));
        peer.is_over = true;
    }

    // -- what comes back

    bool take(int socket, std::span<const std::byte> piece, std::size_t descriptors) {
        for (std::size_t n = peers_.size(); n-- > 0;) {
            Peer& peer = peers_[n];
            if (peer.socket != socket) continue;
            if (!peer.reads) return false;
            require(bool(peer.answered.feed(piece)), "the daemon sent something that is no frame");
            while (auto frame = peer.answered.next())
                answered(peer, *frame, descriptors);
            require(!peer.answered.in_frame(), "the daemon sent a part of a frame");
            return true;
        }
        fuzz::fail("the daemon sent to nobody");
    }

    void answered(Peer& peer, const wire::Frame& frame, std::size_t descriptors) {
        require(descriptors == 0 || frame.type == wire::Type::welcome || frame.type == wire::Type::pool_list,
                "descriptors beside an answer that has none");
        const bool last_word = frame.type == wire::Type::failure && frame.request == 0;
        if (!peer.open_requests.empty() && peer.open_requests.front() == frame.request)
            peer.open_requests.pop_front();
        else
            require(last_word, "an answer to something that was not asked, or out of order");
        reach(frame.type);
        switch (frame.type) {
            case wire::Type::welcome: {
                auto welcome = wire::decode<wire::Welcome>(frame.body);
                require(bool(welcome) && descriptors == 1 + pools_, "a welcome that does not read");
                peer.welcome = std::move(*welcome);
                return;
            }
            case wire::Type::pool_list: {
                const auto list = wire::decode<wire::PoolList>(frame.body);
                require(list && descriptors == list->pools.size(), "a list of pools that does not read");
                return;
            }
            case wire::Type::claimed: {
                const auto claimed = wire::open<wire::Claimed>(frame);
                require(bool(claimed), "a claim's answer that does not read");
                for (const auto& region : claimed->regions)
                    peer.regions.push_back(region.region);
                return;
            }
            case wire::Type::admin_answer: {
                const auto answer = wire::open<wire::AdminAnswer>(frame);
                require(answer && nlohmann::json::accept(answer->json),
                        "an answer to an administrator that is no JSON");
                return;
            }
            case wire::Type::failure: {
                const auto failure = wire::open<wire::Failure>(frame);
                require(failure && failure->code < 0 && !failure->text.empty(),
                        "a failure that says nothing");
                return;
            }
            default:
                require(frame.type == wire::Type::done || frame.type == wire::Type::pong,
                        "the daemon sent a request");
                require(bool(wire::open_empty(frame, frame.type)), "an empty answer that is not empty");
        }
    }

    Input& input_;
    const bool may_be_slow_;
    bool asked_for_check_ = false;
    fuzz::ScriptedLoop loop_;
    daemon::Listener listener_;
    daemon::MetricsSocket metrics_;
    daemon::Server server_;
    const std::size_t pools_;
    std::deque<Peer> peers_;
};

}  // namespace

const char* maru_fuzz_unreached() {
    static std::string names;
    names.clear();
    for (unsigned type = 1; std::string_view(wire::name_of(static_cast<wire::Type>(type))) != "unknown";
         ++type)
        if ((reached >> type & 1) == 0)
            names += std::string(" ") + wire::name_of(static_cast<wire::Type>(type));
    return names.c_str();
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static Ground ground;
    ground.restore();
    Input input(data, size);
    (void)input.byte();  // the mark
    { Run run(ground, input, may_be_slow(data, size)); }
    const auto report = table::look(*ground.domain.control);
    if (report.findings_total != 0)
        fuzz::fail("the control region is not sound: " + report.findings[0].what + " at " +
                   report.findings[0].where);
    return 0;
}
