// The client library against everything a daemon can send: answers that are bent, cut, doubled or missing,
// descriptors that are too few, too many or of the wrong kind, and a control region that is damaged before it
// is mapped.
//
// Promises: a connect that fails leaves no client and says why; calls answer within their time; no descriptor
// stays open.
#include <poll.h>
#include <sys/socket.h>

#include "maru/maru.h"
#include "scripted_daemon.hpp"
#include "wire/stream.hpp"

using namespace maru;
using fuzz::Input;
using fuzz::require;

namespace {

constexpr std::uint32_t timeout_ms = 25;  // an answer that never comes costs this much of the run
constexpr std::uint32_t page_bytes = 8192;
constexpr wire::Type answers[] = {wire::Type::welcome,      wire::Type::claimed, wire::Type::pong,
                                  wire::Type::admin_answer, wire::Type::failure, wire::Type::done,
                                  wire::Type::pool_list};

std::uint32_t reached = 0;  // a bit for each wire::Type

template <class Message>
bool reads(const wire::Frame& frame) {
    const auto message = wire::open<Message>(frame);
    require(message || !message.error().text.empty(), "a frame was refused without a reason");
    return bool(message);
}

void read_frame(const wire::Frame& frame) {
    const auto read = [&]() -> bool {
        switch (frame.type) {
            case wire::Type::welcome:
                return reads<wire::Welcome>(frame);
            case wire::Type::claimed:
                return reads<wire::Claimed>(frame);
            case wire::Type::admin_answer:
                return reads<wire::AdminAnswer>(frame);
            case wire::Type::failure:
                return reads<wire::Failure>(frame);
            case wire::Type::pool_list:
                return reads<wire::PoolList>(frame);
            default:
                return bool(wire::open_empty(frame, frame.type));
        }
    };
    if (read()) reached |= 1u << static_cast<unsigned>(frame.type);
}

/// The stream alone: pieces with descriptors beside them, as a tool sees them.
void pieces(Input& input) {
    int ends[2] = {-1, -1};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no sockets left");
    Descriptor far(ends[1]);
    auto stream = wire::Stream::adopt(Descriptor(ends[0]));
    require(bool(stream), "a connected socket was not taken");
    const bool asks = input.byte() % 2 == 0;
    if (asks)
        require(bool(stream->send(wire::encode_frame(1, wire::Type::ping),
                                  deadline_after(std::chrono::seconds(5)))),
                "a request was not sent");
    while (!input.empty()) {
        const std::size_t descriptors = input.byte() % 128u;
        const auto piece = input.bytes(input.half() % 2048);
        if (piece.empty()) break;
        const std::uint8_t kind = static_cast<std::uint8_t>(descriptors);
        (void)fuzz::send_piece(far.get(), std::as_bytes(piece), descriptors < 80 ? descriptors : 0, kind);
    }
    far.reset();
    const auto soon = deadline_after(std::chrono::seconds(5));
    if (asks) {
        const auto answer = stream->ask(wire::encode_frame(1, wire::Type::ping), soon);
        require(answer || !answer.error().text.empty(), "a request failed without a reason");
    }
    for (int n = 0; n < 1000; ++n) {
        auto frame = stream->try_receive();
        if (!frame || !*frame) break;
        read_frame(**frame);
    }
}

/// Whatever a client does once it is connected. Statuses are the calls' own matter; `data` are bytes it may
/// read.
void use(maru_client* client) {
    char bytes[100] = {}, back[100];
    maru_view view;
    std::uint64_t size = 0;
    for (const char* key : {"a", "b"})
        (void)maru_put(client, key, 1, bytes, sizeof bytes);
    if (maru_get(client, "a", 1, back, sizeof back, &size) == MARU_OK)
        require(size <= sizeof back, "a value grew");
    if (maru_retrieve(client, "b", 1, &view) == MARU_OK) {
        std::memcpy(back, view.data, std::min<std::size_t>(view.size, sizeof back));
        (void)maru_release(client, &view);
    }
    maru_page pages[24];
    std::size_t made = 0;
    while (made < std::size(pages) && maru_alloc(client, page_bytes, &pages[made]) == MARU_OK)
        std::memset(pages[made++].data, 1, page_bytes);
    (void)maru_ping(client);
    maru_statistics statistics{};
    statistics.size = sizeof statistics;
    (void)maru_stats(client, &statistics);
    maru_domain_statistics domain{};
    domain.size = sizeof domain;
    (void)maru_domain_stats(client, &domain);
    maru_region_description region{};
    region.size = sizeof region;
    for (std::uint32_t number = 0; number < 20; ++number)
        (void)maru_region_info(client, number, &region);
    maru_client_description other{};
    other.size = sizeof other;
    for (std::uint32_t slot = 0; slot < 10; ++slot)
        (void)maru_client_info(client, slot, &other);
    maru_pool_description pool{};
    pool.size = sizeof pool;
    (void)maru_pool_info(client, 0, &pool);
    if (made > 1) (void)maru_store(client, "c", 1, &pages[0], page_bytes);
    for (std::size_t p = 0; p < made; ++p)
        (void)maru_free(client, &pages[p]);
    (void)maru_remove(client, "a", 1);
}

void connection(Input& input) {
    static fuzz::ScriptedDaemon daemon;
    static std::string open_before;
    const std::uint8_t how = input.byte();
    std::vector<std::pair<std::size_t, std::uint64_t>> damages;
    if (how >= 128)
        for (int n = 0; n < how % 8; ++n) {
            const std::size_t at = input.half();
            damages.emplace_back(at, input.long_word());
        }
    const std::string script = input.rest();
    daemon.begin({script.begin(), script.end()});
    const auto control = daemon.control_bytes();
    for (const auto& [at, word] : damages)
        std::memcpy(control.data() + at % (control.size() / 8) * 8, &word, sizeof word);

    maru_options options = MARU_OPTIONS_INIT;
    options.server = daemon.socket().c_str();
    options.instance_id = "fuzz";
    options.page_size = page_bytes;
    options.pool_size = 8 * page_bytes;
    options.timeout_ms = timeout_ms;
    options.no_prefault = (how & 64) != 0;
    options.no_claim = (how & 32) != 0;
    maru_client* client = nullptr;
    const maru_status status = maru_connect(&options, &client);
    require((status == MARU_OK) == (client != nullptr), "a failed connect left a client, or a good one none");
    require(status == MARU_OK || maru_detail(nullptr)[0] != 0, "a connect failed without a reason");
    if (client != nullptr) {
        use(client);
        (void)maru_close(client);
    }
    const std::string open = daemon.end();
    if (open_before.empty()) open_before = open;
    const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
    if (lines(open) > lines(open_before))
        fuzz::fail("descriptors stayed open; before:\n" + open_before + "now:\n" + open);
    reached |= daemon.sent_types();
}

}  // namespace

const char* maru_fuzz_unreached() {
    static std::string names;
    names.clear();
    for (const wire::Type type : answers)
        if ((reached >> static_cast<unsigned>(type) & 1) == 0)
            names += std::string(" ") + wire::name_of(type);
    return names.c_str();
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input(data, size);
    if (input.byte() % 4 == 0)
        pieces(input);
    else
        connection(input);
    return 0;
}
