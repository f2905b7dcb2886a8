// Frames and messages: what is sent arrives; whatever else arrives is refused, with a reason.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "wire/stream.hpp"

using namespace maru;
using namespace maru::wire;

namespace {

constexpr std::chrono::milliseconds soon{5000};

Hello some_hello() {
    Hello hello;
    hello.instance_id = "prefill-3";
    hello.name_space = "tenant";
    hello.page_bytes = 1 << 20;
    hello.start_time = 0x0102030405060708;
    hello.exec_stamp = ~0ull;
    hello.random = 0x8000000000000001;
    hello.pid_namespace = 4026531836;
    return hello;
}

Welcome some_welcome() {
    Welcome welcome;
    welcome.domain = Uuid::random();
    welcome.slot = 7;
    welcome.generation = 0xfffffff0;
    welcome.name_space = 3;
    welcome.control_bytes = 5 << 20;
    welcome.page_bytes = 1 << 20;
    welcome.free_bytes = 1ull << 40;
    welcome.daemon_version = "0.1.0";
    welcome.pools.push_back({Uuid::random(), 3, "shm0", "/dev/shm/x", 1ull << 30, 4096});
    welcome.pools.push_back({Uuid::random(), 1, "dax", "", 1ull << 41, 2 << 20});
    return welcome;
}

Resume some_resume() {
    return {Uuid::random(), 1023, 5, 6, 7, 8};
}
Claimed some_claimed() {
    return {{{1, 8, 4096}, {9, 100, 1 << 20}}, "fewer records than pages"};
}

bool same(const PoolDescription& a, const PoolDescription& b) {
    return a.uuid == b.uuid && a.kind == b.kind && a.name == b.name && a.path == b.path &&
           a.bytes == b.bytes && a.alignment == b.alignment && a.offset == b.offset;
}
bool same(const Hello& a, const Hello& b) {
    return a.instance_id == b.instance_id && a.name_space == b.name_space && a.page_bytes == b.page_bytes &&
           a.start_time == b.start_time && a.exec_stamp == b.exec_stamp && a.random == b.random &&
           a.pid_namespace == b.pid_namespace;
}
bool same(const std::vector<PoolDescription>& a, const std::vector<PoolDescription>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& one, const auto& other) { return same(one, other); });
}
bool same(const PoolList& a, const PoolList& b) {
    return same(a.pools, b.pools);
}
bool same(const Welcome& a, const Welcome& b) {
    return same(a.pools, b.pools) && a.domain == b.domain && a.slot == b.slot &&
           a.generation == b.generation && a.name_space == b.name_space &&
           a.control_bytes == b.control_bytes && a.page_bytes == b.page_bytes &&
           a.free_bytes == b.free_bytes && a.daemon_version == b.daemon_version;
}
bool same(const Resume& a, const Resume& b) {
    return a.domain == b.domain && a.slot == b.slot && a.generation == b.generation && a.random == b.random &&
           a.start_time == b.start_time && a.pid_namespace == b.pid_namespace;
}
bool same(const Claim& a, const Claim& b) {
    return a.page_bytes == b.page_bytes && a.bytes == b.bytes;
}
bool same(const Claimed& a, const Claimed& b) {
    bool regions = a.regions.size() == b.regions.size();
    for (std::size_t i = 0; regions && i < a.regions.size(); ++i)
        regions = a.regions[i].region == b.regions[i].region &&
                  a.regions[i].page_count == b.regions[i].page_count &&
                  a.regions[i].page_bytes == b.regions[i].page_bytes;
    return regions && a.warning == b.warning;
}
bool same(const GiveBack& a, const GiveBack& b) {
    return a.regions == b.regions;
}
bool same(const Admin& a, const Admin& b) {
    return a.command == b.command && a.arguments == b.arguments;
}
bool same(const AdminAnswer& a, const AdminAnswer& b) {
    return a.json == b.json;
}
bool same(const Failure& a, const Failure& b) {
    return a.code == b.code && a.text == b.text;
}

std::vector<Frame> frames_of(FrameReader& reader) {
    std::vector<Frame> frames;
    while (auto frame = reader.next())
        frames.push_back(std::move(*frame));
    return frames;
}

Bytes body_of(const Bytes& frame) {
    return {frame.begin() + header_bytes, frame.end()};
}

Frame whole(const Bytes& bytes) {
    FrameReader reader;
    REQUIRE(reader.feed(bytes));
    auto frames = frames_of(reader);
    REQUIRE(frames.size() == 1);
    REQUIRE_FALSE(reader.in_frame());
    return std::move(frames[0]);
}

// Given a message, every way of cutting or stretching its body is refused and the body itself is not.
template <class Message>
void survives(const Message& message) {
    const Bytes frame = encode_frame(77, message);
    CAPTURE(name_of(type_of(message)));
    const Frame read = whole(frame);
    CHECK(read.type == type_of(message));
    CHECK(read.request == 77);
    auto decoded = decode<Message>(read.body);
    REQUIRE(decoded);
    CHECK(same(*decoded, message));

    const Bytes body = body_of(frame);
    for (std::size_t size = 0; size < body.size(); ++size) {
        CAPTURE(size);
        auto cut = decode<Message>(std::span(body).first(size));
        REQUIRE_FALSE(cut);
        CHECK(cut.error().code == Code::invalid);
    }
    Bytes longer = body;
    longer.push_back(std::byte{0});
    auto stretched = decode<Message>(longer);
    REQUIRE_FALSE(stretched);
    CHECK(stretched.error().text.find("left over") != std::string::npos);
}

Bytes changed(Bytes frame, std::size_t at, std::uint8_t value) {
    frame[at] = std::byte{value};
    return frame;
}

// A file that can be told from others, to travel as a descriptor.
Descriptor marked_file(char mark) {
    char name[] = "/tmp/maru-wire-test-XXXXXX";
    Descriptor file(::mkostemp(name, O_CLOEXEC));
    REQUIRE(file);
    ::unlink(name);
    REQUIRE(::write(file.get(), &mark, 1) == 1);
    return file;
}
char mark_of(const Descriptor& file) {
    char mark = 0;
    CHECK(::pread(file.get(), &mark, 1, 0) == 1);
    return mark;
}

struct Pair {
    Stream left, right;
};
Pair connected_pair() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    auto left = Stream::adopt(Descriptor(ends[0]));
    auto right = Stream::adopt(Descriptor(ends[1]));
    REQUIRE(left);
    REQUIRE(right);
    return {std::move(*left), std::move(*right)};
}

}  // namespace

TEST_CASE("every message comes back as it went, and no shortened or lengthened one does") {
    survives(some_hello());
    survives(Hello{});
    survives(some_welcome());
    survives(Welcome{});
    survives(some_resume());
    survives(Claim{1 << 20, 100 << 20});
    survives(some_claimed());
    survives(Claimed{});
    survives(GiveBack{{1, 2, 0xffffffff}});
    survives(PoolList{{{Uuid::random(), 3, "more", "/dev/shm/more", 1 << 20, 4096, 0}}});
    survives(Admin{"keys", R"({"limit":10})"});
    survives(AdminAnswer{std::string(100'000, 'x')});
    survives(Failure{-3, std::string("with a zero \0 inside", 20)});
}

TEST_CASE("frames without content stay without") {
    for (const Type type : {Type::bye, Type::ping, Type::pong, Type::done, Type::ask_pools}) {
        const Frame frame = whole(encode_frame(5, type));
        CHECK(open_empty(frame, type));
        CHECK_FALSE(open_empty(frame, Type::hello));
    }
    Bytes with_body = encode_frame(5, Type::ping);
    with_body[12] = std::byte{1};
    with_body.push_back(std::byte{9});
    const auto refused = open_empty(whole(with_body), Type::ping);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().text.find("left over") != std::string::npos);
}

TEST_CASE("a count that cannot fit is refused before anything is made for it") {
    Bytes body = body_of(encode_frame(1, GiveBack{{1}}));
    for (int b = 0; b < 4; ++b)
        body[static_cast<std::size_t>(b)] = std::byte{0xff};
    CHECK_FALSE(decode<GiveBack>(body));
    Bytes text = body_of(encode_frame(1, AdminAnswer{"{}"}));
    for (int b = 0; b < 4; ++b)
        text[static_cast<std::size_t>(b)] = std::byte{0xff};
    CHECK_FALSE(decode<AdminAnswer>(text));
    Bytes regions = body_of(encode_frame(1, some_claimed()));
    regions[0] = std::byte{200};  // 200 regions announced, bytes for 2 follow
    CHECK_FALSE(decode<Claimed>(regions));
}

TEST_CASE("a header that is not ours is refused, and the stream stays refused") {
    const Bytes good = encode_frame(1, Claim{4096, 4096});
    const auto refused = [](const Bytes& bytes) {
        FrameReader reader;
        auto fed = reader.feed(bytes);
        REQUIRE_FALSE(fed);
        CHECK_FALSE(reader.next());
        CHECK_FALSE(reader.feed(encode_frame(1, Type::ping)));
        return fed.error();
    };
    CHECK(refused(changed(good, 0, 'X')).code == Code::invalid);
    const Error version = refused(changed(good, 4, 9));
    CHECK(version.code == Code::version);
    CHECK(version.text.find("version 9") != std::string::npos);
    CHECK(refused(changed(good, 6, 0)).text.find("unknown type 0") != std::string::npos);
    CHECK(refused(changed(good, 6, 16)).text.find("unknown type 16") != std::string::npos);
    CHECK(refused(changed(good, 7, 1)).text.find("unknown type") != std::string::npos);
    CHECK(refused(changed(good, 15, 1)).text.find("16777232 bytes") != std::string::npos);
}

TEST_CASE("a reader takes bodies up to its own limit only") {
    FrameReader reader(16);
    CHECK(reader.feed(encode_frame(1, Claim{1, 2})));
    CHECK(reader.next());
    CHECK_FALSE(reader.feed(encode_frame(2, Admin{"status", "{\"a\":1}"})));
    CHECK_FALSE(reader.next());
}

TEST_CASE("a message that is too large to send says so instead") {
    const Frame frame = whole(encode_frame(3, AdminAnswer{std::string(body_max, 'x')}));
    REQUIRE(frame.type == Type::failure);
    CHECK(frame.request == 3);
    auto failure = open<Failure>(frame);
    REQUIRE(failure);
    CHECK(to_error(*failure).code == Code::too_large);
    // The largest that fits goes through.
    CHECK(whole(encode_frame(3, AdminAnswer{std::string(body_max - 4, 'x')})).type == Type::admin_answer);
}

TEST_CASE("frames come out whole however the stream was split") {
    Bytes stream;
    for (const Bytes& frame : {encode_frame(1, some_hello()), encode_frame(2, Type::ping),
                               encode_frame(3, Claim{4096, 1}), encode_frame(4, Type::bye)})
        stream.insert(stream.end(), frame.begin(), frame.end());
    const std::span<const std::byte> all(stream);
    for (std::size_t split = 0; split <= stream.size(); ++split) {
        CAPTURE(split);
        FrameReader reader;
        REQUIRE(reader.feed(all.first(split)));
        auto frames = frames_of(reader);
        REQUIRE(reader.feed(all.subspan(split)));
        for (auto& frame : frames_of(reader))
            frames.push_back(std::move(frame));
        REQUIRE(frames.size() == 4);
        for (std::size_t i = 0; i < 4; ++i)
            CHECK(frames[i].request == i + 1);
        REQUIRE(open<Hello>(frames[0]));
        CHECK(same(*open<Hello>(frames[0]), some_hello()));
        CHECK_FALSE(reader.in_frame());
    }
    FrameReader reader;
    std::size_t count = 0;
    for (const std::byte& byte : stream) {
        REQUIRE(reader.feed({&byte, 1}));
        count += frames_of(reader).size();
    }
    CHECK(count == 4);
}

TEST_CASE("descriptors belong to the frame whose first byte they came with") {
    const Bytes ping = encode_frame(1, Type::ping);
    const Bytes welcome = encode_frame(2, some_welcome());
    Bytes both = ping;
    both.insert(both.end(), welcome.begin(), welcome.begin() + 20);
    FrameReader reader;
    std::vector<Descriptor> three;
    for (const char mark : {'l', '0', '1'})
        three.push_back(marked_file(mark));
    // The kernel joins a frame without descriptors to the piece that follows it.
    REQUIRE(reader.feed(both, std::move(three)));
    REQUIRE(reader.feed(std::span(welcome).subspan(20)));
    auto frames = frames_of(reader);
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].descriptors.empty());
    REQUIRE(frames[1].descriptors.size() == 3);
    CHECK(mark_of(frames[1].descriptors[0]) == 'l');
    CHECK(mark_of(frames[1].descriptors[2]) == '1');
    CHECK(open<Welcome>(frames[1]));
}

TEST_CASE("a wrong number of descriptors is refused") {
    const auto with = [](const Bytes& bytes, std::size_t count) {
        FrameReader reader;
        std::vector<Descriptor> descriptors;
        for (std::size_t i = 0; i < count; ++i)
            descriptors.push_back(marked_file('x'));
        REQUIRE(reader.feed(bytes, std::move(descriptors)));
        auto frames = frames_of(reader);
        REQUIRE(frames.size() == 1);
        return std::move(frames[0]);
    };
    const Bytes welcome = encode_frame(2, some_welcome());
    CHECK_FALSE(open<Welcome>(with(welcome, 0)));
    CHECK_FALSE(open<Welcome>(with(welcome, 2)));
    CHECK(open<Welcome>(with(welcome, 3)));
    CHECK_FALSE(open<Welcome>(with(welcome, 4)));
    CHECK_FALSE(open<Hello>(with(encode_frame(1, some_hello()), 1)));
    CHECK_FALSE(open_empty(with(encode_frame(1, Type::bye), 1), Type::bye));

    FrameReader none_allowed(body_max, 0);
    std::vector<Descriptor> one;
    one.push_back(marked_file('x'));
    const int number = one[0].get();
    CHECK_FALSE(none_allowed.feed(welcome, std::move(one)));
    CHECK(::fcntl(number, F_GETFD) == -1);  // closed, not leaked

    FrameReader middle;
    REQUIRE(middle.feed(std::span(welcome).first(30)));
    std::vector<Descriptor> late;
    late.push_back(marked_file('x'));
    CHECK_FALSE(middle.feed(std::span(welcome).subspan(30), std::move(late)));
}

TEST_CASE("a frame of another type does not open") {
    const auto opened = open<Claimed>(whole(encode_frame(1, Type::pong)));
    REQUIRE_FALSE(opened);
    CHECK(opened.error().text == "frame pong where claimed was expected");
}

TEST_CASE("codes that only a newer daemon knows read as invalid") {
    CHECK(to_error({-3, "full"}).code == Code::full);
    CHECK(to_error({-15, ""}).code == Code::version);
    CHECK(to_error({-16, "?"}).code == Code::invalid);
    CHECK(to_error({0, "?"}).code == Code::invalid);
    CHECK(to_error({7, "?"}).code == Code::invalid);
}

TEST_CASE("a frame with descriptors crosses a socket") {
    auto [left, right] = connected_pair();
    const Descriptor files[] = {marked_file('l'), marked_file('0'), marked_file('1')};
    const int numbers[] = {files[0].get(), files[1].get(), files[2].get()};
    REQUIRE(left.send(encode_frame(1, Type::ping), deadline_after(soon)));
    REQUIRE(left.send(encode_frame(9, some_welcome()), deadline_after(soon), numbers));
    REQUIRE(left.send(encode_frame(10, Type::done), deadline_after(soon)));
    auto ping = right.receive(deadline_after(soon));
    auto welcome = right.receive(deadline_after(soon));
    auto done = right.receive(deadline_after(soon));
    REQUIRE(ping);
    REQUIRE(welcome);
    REQUIRE(done);
    CHECK(ping->descriptors.empty());
    CHECK(done->descriptors.empty());
    REQUIRE(open<Welcome>(*welcome));
    CHECK(mark_of(welcome->descriptors[0]) == 'l');
    CHECK(mark_of(welcome->descriptors[1]) == '0');
    CHECK((::fcntl(welcome->descriptors[1].get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a frame larger than the socket's buffer is sent in parts") {
    auto [left, right] = connected_pair();
    const AdminAnswer large{std::string(3 << 20, 'k')};
    Result<void> sent;
    std::thread sender([&, &from = left] { sent = from.send(encode_frame(4, large), deadline_after(soon)); });
    auto frame = right.receive(deadline_after(soon));
    sender.join();
    REQUIRE(sent);
    REQUIRE(frame);
    auto answer = open<AdminAnswer>(*frame);
    REQUIRE(answer);
    CHECK(same(*answer, large));
}

TEST_CASE("waiting ends at the deadline, and when the other end goes") {
    auto [left, right] = connected_pair();
    const auto late = right.receive(deadline_after(std::chrono::milliseconds(20)));
    REQUIRE_FALSE(late);
    CHECK(late.error().code == Code::timeout);
    const auto stuck = left.send(encode_frame(1, AdminAnswer{std::string(3 << 20, 'k')}),
                                 deadline_after(std::chrono::milliseconds(20)));
    REQUIRE_FALSE(stuck);
    CHECK(stuck.error().code == Code::timeout);
    left.close();
    auto gone = right.receive(deadline_after(soon));
    while (gone)
        gone = right.receive(deadline_after(soon));
    CHECK(gone.error().code == Code::unavailable);
    CHECK_FALSE(right.send(encode_frame(1, Type::ping), deadline_after(soon)));  // and no SIGPIPE
}

TEST_CASE("an answer is matched with its request, and a failure becomes an error") {
    auto [left, right] = connected_pair();
    REQUIRE(right.send(encode_frame(6, Failure{-3, "all memory is claimed"}), deadline_after(soon)));
    const auto full = left.ask(encode_frame(6, Claim{4096, 1}), deadline_after(soon));
    REQUIRE_FALSE(full);
    CHECK(full.error().code == Code::full);
    CHECK(full.error().text == "all memory is claimed");
    REQUIRE(right.send(encode_frame(8, Type::pong), deadline_after(soon)));
    CHECK_FALSE(left.ask(encode_frame(7, Type::ping), deadline_after(soon)));
    REQUIRE(right.send(encode_frame(0, Failure{-14, "this user may not connect"}), deadline_after(soon)));
    const auto refused = left.ask(encode_frame(9, Type::ping), deadline_after(soon));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().text == "this user may not connect");
}

TEST_CASE("a daemon that is not there is named") {
    const auto absent = Stream::connect("/tmp/maru-no-such-place/maru.sock", deadline_after(soon));
    REQUIRE_FALSE(absent);
    CHECK(absent.error().code == Code::unavailable);
    CHECK(absent.error().text.find("/tmp/maru-no-such-place/maru.sock") != std::string::npos);
    const auto longer = Stream::connect(std::string(200, 'p'), deadline_after(soon));
    REQUIRE_FALSE(longer);
    CHECK(longer.error().code == Code::invalid);
    CHECK_FALSE(Stream::connect("", deadline_after(soon)));
}

TEST_CASE("a daemon that does not accept costs no more than the deadline") {
    const std::string path = "/tmp/maru-wire-test-" + std::to_string(::getpid()) + ".sock";
    Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener.get(), 0) == 0);
    std::vector<Stream> waiting;
    Error error;
    for (int i = 0; i < 16; ++i) {
        auto stream = Stream::connect(path, deadline_after(std::chrono::milliseconds(30)));
        if (!stream) {
            error = stream.error();
            break;
        }
        waiting.push_back(std::move(*stream));
    }
    ::unlink(path.c_str());
    CHECK(error.code == Code::timeout);
}
