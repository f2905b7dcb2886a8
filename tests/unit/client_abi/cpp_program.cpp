// A program in C++ against the installed header: `cpp_program` without a daemon, `cpp_program SOCKET` with
// one.
#include <maru/maru.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static_assert(std::is_nothrow_move_constructible_v<maru::Client> &&
              !std::is_copy_constructible_v<maru::Client>);
static_assert(std::is_nothrow_move_constructible_v<maru::Page> && !std::is_copy_constructible_v<maru::Page>);
static_assert(std::is_nothrow_move_constructible_v<maru::View> && !std::is_copy_constructible_v<maru::View>);

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "cpp_program: %s; detail: %s\n", what, maru_detail(nullptr));
    std::exit(1);
}

template <class T>
T must(maru::Expected<T> expected, const char* what) {
    if (!expected) std::fprintf(stderr, "%s\n", expected.failure().text.c_str());
    require(expected.has_value(), what);
    return std::move(*expected);
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}
std::string_view text_of(const maru::View& view) {
    return {reinterpret_cast<const char*>(view.data()), static_cast<std::size_t>(view.size())};
}

void without_daemon() {
    maru_options options = MARU_OPTIONS_INIT;
    options.server = "unix:///nonexistent/maru.sock";
    const auto client = maru::Client::connect(options);
    require(!client, "connect without a daemon fails");
    require(client.failure().status == MARU_ERR_UNAVAILABLE, "and is unavailable");
    require(client.failure().text.find("/nonexistent/maru.sock") != std::string::npos,
            "and names the socket");
}

void with_daemon(const char* socket) {
    maru_options options = MARU_OPTIONS_INIT;
    options.server = socket;
    options.page_size = 64 * 1024;
    options.pool_size = 1 << 20;
    maru::Client client = must(maru::Client::connect(options), "connect");
    maru::View longer_than_its_client;
    {
        maru::Page page = must(client.alloc(5), "alloc");
        std::memcpy(page.data(), "first", 5);
        require(must(client.store("cpp-0", page, 5), "store"), "the first store counts");
    }
    require(must(client.put("cpp-1", bytes_of("second")), "put"), "the first put counts");
    require(!must(client.put("cpp-1", bytes_of("third")), "put again"), "the second does not");
    const std::array<std::string_view, 3> keys{"cpp-0", "cpp-1", "cpp-2"};
    require(must(client.match_prefix(keys), "match_prefix") == 2, "two leading keys are there");
    {
        auto views = must(client.retrieve_prefix(keys), "retrieve_prefix");
        require(views.size() == 2 && text_of(views[1]) == "second", "and their bytes are right");
        longer_than_its_client = std::move(views[0]);
    }
    auto batch = must(client.retrieve(keys), "retrieve a batch");
    require(batch[0] && batch[1] && !batch[2], "each key of a batch by itself");
    batch.clear();
    require(must(client.pin("cpp-1"), "pin"), "a key that is there can be pinned");
    const auto pinned = client.remove("cpp-1");
    require(!pinned && pinned.failure().status == MARU_ERR_PINNED, "and is then not removed");
    require(must(client.unpin("cpp-1"), "unpin"), "until it is unpinned");
    require(must(client.remove("cpp-1"), "remove"), "then it is");
    require(!must(client.retrieve("cpp-1"), "retrieve"), "and cannot be found");
    must(client.ping(), "ping");
    must(client.close(), "close");
    require(text_of(longer_than_its_client) == "first", "a view outlives its client");
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 1)
        with_daemon(arguments[1]);
    else
        without_daemon();
    return 0;
}
