// Sizes, durations, UUIDs, results and descriptors: what is read, what is refused, and the edges between.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <limits>
#include <memory>
#include <set>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "base/size.hpp"
#include "base/uuid.hpp"

using namespace maru;
using std::chrono::milliseconds;

TEST_CASE("sizes are read as people write them") {
    const std::pair<const char*, std::uint64_t> sizes[] = {
        {"0", 0},
        {"1", 1},
        {"4096", 4096},
        {"4096B", 4096},
        {"4KiB", 4 * KiB},
        {"4k", 4 * KiB},
        {"500M", 500 * MiB},
        {"100MB", 100 * MiB},
        {"4GiB", 4 * GiB},
        {"4G", 4 * GiB},
        {"4 GiB", 4 * GiB},
        {" 4gib ", 4 * GiB},
        {"1.5TiB", TiB + TiB / 2},
        {"0.5K", 512},
        {"1P", 1024 * TiB},
        {"9007199254740993", 9007199254740993u},
        {"4611686018427387905", 4611686018427387905u},
        {"8191PiB", 8191 * 1024 * TiB},
    };
    for (const auto& entry : sizes) {
        const std::string text = entry.first;
        CAPTURE(text);
        const auto size = parse_size(text);
        REQUIRE(size);
        CHECK(*size == entry.second);
    }
}

TEST_CASE("what is no size is refused with its text") {
    for (const std::string text :
         {"",     " ",   "G",   "GiB", "-1",   "-4GiB", "4X",   "4GiBs", "4 G iB", "four",
          "0x10", "1e3", "nan", "inf", "4,5G", "1..5G", "4GB4", "4iB",   "1_000",  "\xff"}) {
        CAPTURE(text);
        const auto size = parse_size(text);
        REQUIRE_FALSE(size);
        CHECK(size.error().code == Code::invalid);
        CHECK(size.error().text.find("\"" + text + "\"") == 0);
    }
}

TEST_CASE("a size that no number holds is refused, never wrapped") {
    for (const std::string text :
         {"18446744073709551615", "18446744073709551616", "9223372036854775808", "8192PiB", "16777216TiB",
          "99999999999999999999999999999", "1000000000000P"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_size(text));
    }
    CHECK_FALSE(parse_size(std::string(500, '9')));
}

TEST_CASE("sizes are shown with one decimal in the largest unit") {
    CHECK(format_size(0) == "0 B");
    CHECK(format_size(1023) == "1023 B");
    CHECK(format_size(KiB) == "1.0 KiB");
    CHECK(format_size(64 * MiB) == "64.0 MiB");
    CHECK(format_size(GiB + GiB / 2) == "1.5 GiB");
    CHECK(format_size(TiB) == "1.0 TiB");
    CHECK(format_size(std::numeric_limits<std::uint64_t>::max()) == "16.0 EiB");
}

TEST_CASE("durations are read with and without a unit") {
    const std::pair<const char*, std::int64_t> durations[] = {
        {"0", 0},        {"30", 30'000},     {"30s", 30'000},   {"500ms", 500},     {"1.5s", 1500},
        {"5m", 300'000}, {"2 min", 120'000}, {"1h", 3'600'000}, {"1d", 86'400'000}, {"0.25", 250},
    };
    for (const auto& entry : durations) {
        const std::string text = entry.first;
        CAPTURE(text);
        const auto duration = parse_duration(text);
        REQUIRE(duration);
        CHECK(*duration == milliseconds(entry.second));
    }
}

TEST_CASE("what is no duration is refused with its text") {
    for (const std::string text :
         {"", "s", "-1s", "3x", "10S", "5 minutes", "1h30m", "nan", "1e99", "99999999999999999999d"}) {
        CAPTURE(text);
        const auto duration = parse_duration(text);
        REQUIRE_FALSE(duration);
        CHECK(duration.error().text.find("\"" + text + "\"") == 0);
    }
}

TEST_CASE("rounding goes to multiples of the unit") {
    CHECK(round_up(0, 4096) == 0);
    CHECK(round_up(1, 4096) == 4096);
    CHECK(round_up(4096, 4096) == 4096);
    CHECK(round_down(4095, 4096) == 0);
    CHECK(round_down(8191, 4096) == 4096);
}

TEST_CASE("a UUID reads back from its text") {
    const Uuid made = Uuid::random();
    const std::string text = made.text();
    REQUIRE(text.size() == 36);
    CHECK(text[14] == '4');                                          // version
    CHECK(std::string("89ab").find(text[19]) != std::string::npos);  // variant
    const auto again = Uuid::parse(text);
    REQUIRE(again);
    CHECK(*again == made);
    CHECK_FALSE(made.empty());
    CHECK(Uuid{}.empty());
    CHECK(Uuid{}.text() == "00000000-0000-0000-0000-000000000000");
}

TEST_CASE("a UUID is read in either case and without hyphens, as machine-id writes it") {
    const auto plain = Uuid::parse("0123456789abcdef0123456789abcdef");
    const auto hyphens = Uuid::parse("01234567-89AB-CDEF-0123-456789ABCDEF");
    REQUIRE(plain);
    REQUIRE(hyphens);
    CHECK(*plain == *hyphens);
    CHECK(plain->text() == "01234567-89ab-cdef-0123-456789abcdef");
}

TEST_CASE("what is no UUID is refused") {
    for (const std::string text :
         {"", "0", "0123456789abcdef0123456789abcde", "0123456789abcdef0123456789abcdef0",
          "g123456789abcdef0123456789abcdef", "01234567 89ab-cdef-0123-456789abcdef", "--------"}) {
        CAPTURE(text);
        CHECK_FALSE(Uuid::parse(text));
    }
}

TEST_CASE("random UUIDs differ") {
    std::set<std::string> seen;
    for (int i = 0; i < 1000; ++i)
        seen.insert(Uuid::random().text());
    CHECK(seen.size() == 1000);
    CHECK(random_bits() != random_bits());
}

TEST_CASE("a result holds a value or an error") {
    Result<std::string> good = std::string("value");
    REQUIRE(good);
    CHECK(*good == "value");
    CHECK(good->size() == 5);

    const Result<std::string> bad = Error{Code::full, "no room"};
    REQUIRE_FALSE(bad);
    CHECK(bad.error().code == Code::full);
    CHECK(bad.error().text == "no room");

    CHECK(Result<void>{});
    const Result<void> nothing = Error{Code::denied, "not yours"};
    REQUIRE_FALSE(nothing);
    CHECK(nothing.error().code == Code::denied);

    Result<std::unique_ptr<int>> moved = std::make_unique<int>(7);
    const std::unique_ptr<int> taken = std::move(*moved);
    CHECK(*taken == 7);
}

TEST_CASE("every code has a sentence of its own") {
    std::set<std::string> sentences;
    for (int code = -15; code <= 2; ++code)
        sentences.insert(describe(static_cast<Code>(code)));
    CHECK(sentences.size() == 18);  // 15 errors, three answers
    CHECK(std::string(describe(static_cast<Code>(99))) == "unknown status");
    CHECK(std::string(describe(Code::version)) != "unknown status");
}

namespace {
bool is_open(int number) {
    return ::fcntl(number, F_GETFD) >= 0;
}
int open_null() {
    return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}
}  // namespace

TEST_CASE("a descriptor closes what it owns, once") {
    int number = -1;
    {
        const Descriptor owner(open_null());
        number = owner.get();
        REQUIRE(owner);
        CHECK(is_open(number));
    }
    CHECK_FALSE(is_open(number));
    const Descriptor none;
    CHECK_FALSE(none);
}

TEST_CASE("a moved descriptor leaves nothing behind") {
    Descriptor first(open_null());
    const int number = first.get();
    Descriptor second(std::move(first));
    CHECK(second.get() == number);
    CHECK_FALSE(first);  // NOLINT: what it promises

    Descriptor third(open_null());
    const int replaced = third.get();
    third = std::move(second);
    CHECK(third.get() == number);
    CHECK_FALSE(is_open(replaced));
    CHECK(is_open(number));

    const int released = third.release();
    CHECK_FALSE(third);
    CHECK(is_open(released));
    ::close(released);
}

TEST_CASE("a deadline says how long is left, never less than nothing") {
    CHECK(milliseconds_left(MonotonicClock::now() - milliseconds(50)) == 0);
    const int left = milliseconds_left(deadline_after(milliseconds(60'000)));
    CHECK(left > 50'000);
    CHECK(left <= 60'000);
    CHECK(milliseconds_left(deadline_after(std::chrono::hours(100'000))) == 3600'000);
}
