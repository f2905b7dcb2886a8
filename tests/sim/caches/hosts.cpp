#include "hosts.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace maru::caches {
namespace {
constexpr std::size_t lines_max = 64;
constexpr std::size_t actors_room = 16;
}  // namespace

Hosts& hosts() {
    static Hosts only;
    return only;
}

/// The addresses are reserved and can't be touched: a raw access of the code under test is a fault.
Hosts::Hosts() {
    void* reserved =
        ::mmap(nullptr, lines_max * shm::cache_line, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reserved == MAP_FAILED) std::abort();
    base_ = static_cast<std::byte*>(reserved);
    actors_.reserve(actors_room);  // a fiber stays where it is
}

Hosts::~Hosts() {
    ::munmap(base_, lines_max * shm::cache_line);
}

void Hosts::begin(std::uint64_t seed, const Config& config, MemoryWatch* watch) {
    config_ = config;
    watch_ = watch;
    random_ = sim::Random(seed);
    memory_.assign(config.lines, Line{});
    caches_.assign(static_cast<std::size_t>(config.hosts), std::vector<Cached>(config.lines));
    stopped_.assign(static_cast<std::size_t>(config.hosts), false);
    actors_.clear();
    running_ = -1;
    steps_ = 0;
    violation_.clear();
    background_percent_ = random_.between(2, 70);
    burst_percent_ = random_.between(0, 90);
    late_loads_ = random_.one_in(2);  // as AArch64 may, as x86 does not
}

int Hosts::add(int host, void (*body)(int)) {
    if (actors_.size() == actors_room) std::abort();
    actors_.emplace_back();
    const int number = static_cast<int>(actors_.size()) - 1;
    actors_.back().host = host;
    actors_.back().body = body;
    restart(number);
    return number;
}

void Hosts::start(void* argument) {
    const int number = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
    hosts().actor(number).body(number);
}

void Hosts::restart(int number) {
    Actor& who = actor(number);
    who.runs = true;
    who.pending.clear();
    who.fiber.prepare(start, reinterpret_cast<void*>(static_cast<std::intptr_t>(number)));
}

void Hosts::run(void (*faults)()) {
    int last = 0;
    while (steps_ < steps_max && violation_.empty()) {
        ++steps_;
        faults();
        if (random_.below(100) < background_percent_) background();
        std::vector<int> ready;
        for (int i = 0; i < static_cast<int>(actors_.size()); ++i)
            if (actor(i).runs && !stopped(actor(i).host)) ready.push_back(i);
        if (ready.empty() || !violation_.empty()) continue;
        const bool again =
            std::find(ready.begin(), ready.end(), last) != ready.end() && random_.below(100) < burst_percent_;
        if (!again) last = ready[random_.below(static_cast<std::uint32_t>(ready.size()))];
        running_ = last;
        sim::Fiber::change(scheduler_, actor(last).fiber);
    }
    running_ = -1;
}

void Hosts::step() {
    sim::Fiber::change(actor(running_).fiber, scheduler_);
}

void Hosts::violate(const std::string& what) {
    note("VIOLATION %s", what.c_str());
    if (violation_.empty()) violation_ = what;
}

void Hosts::note(const char* format, ...) {
    if (!trace) return;
    std::printf("%5llu  ", static_cast<unsigned long long>(steps_));
    if (running_ >= 0) std::printf("h%d.%d  ", my_host(), running_);
    va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::printf("\n");
}

// -- caches
// ------------------------------------------------------------------------------------------------------

std::size_t Hosts::line_of(const void* at) {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(at) - base_);
    if (offset >= config_.lines * shm::cache_line) {
        violate("an access or flush outside the memory");
        return 0;
    }
    return offset / shm::cache_line;
}

void Hosts::fetch(int host, std::size_t line) {
    Cached& mine = cached(host, line);
    if (mine.valid) return;
    mine = {true, false, memory_[line]};
}

void Hosts::to_memory(int host, std::size_t line, const Line& data) {
    const Line before = memory_[line];
    memory_[line] = data;
    if (watch_ != nullptr) watch_->written(host, line, before, data);
}

void Hosts::write_line_back(int host, std::size_t line) {
    Cached& mine = cached(host, line);
    if (!mine.valid || !mine.dirty) return;
    mine.dirty = false;
    note("        h%d writes line %zu back", host, line);
    to_memory(host, line, mine.data);
}

void Hosts::write_everything_back() {
    for (int number = 0; number < static_cast<int>(actors_.size()); ++number)
        complete_all(number);
    for (int host = 0; host < config_.hosts; ++host)
        for (std::size_t line = 0; line < config_.lines; ++line)
            write_line_back(host, line);
}

/// Something that no instruction asked for.
void Hosts::background() {
    const int host = static_cast<int>(random_.below(static_cast<std::uint32_t>(config_.hosts)));
    const std::size_t line = random_.below(static_cast<std::uint32_t>(config_.lines));
    Cached& mine = cached(host, line);
    switch (random_.below(4)) {
        case 0:  // eviction
            if (!mine.valid) return;
            write_line_back(host, line);
            mine.valid = false;
            note("        h%d evicts line %zu", host, line);
            break;
        case 1:
            if (mine.valid && !mine.dirty && config_.clean_writes) {
                note("        h%d writes clean line %zu", host, line);
                ++met_["clean line written back"];
                to_memory(host, line, mine.data);
            }
            write_line_back(host, line);
            break;
        case 2:
            if (mine.valid || config_.clean_writes) return;
            note("        h%d prefetches line %zu", host, line);
            fetch(host, line);
            break;
        default: {
            Actor& who = actors_[random_.below(static_cast<std::uint32_t>(actors_.size()))];
            if (!who.pending.empty())
                do_pending(who, random_.below(static_cast<std::uint32_t>(who.pending.size())));
        }
    }
}

/// A load or store brings its line, and by chance a neighbour in its page.
void Hosts::access(std::size_t line) {
    fetch(my_host(), line);
    if (random_.one_in(3)) {
        const std::size_t page = line / lines_per_page * lines_per_page;
        const std::size_t near = page + random_.below(lines_per_page);
        if (near < config_.lines) fetch(my_host(), near);
    }
}

// -- what an instruction begins, and when it is done
// --------------------------------------------------------------

void Hosts::do_pending(Actor& who, std::size_t index) {
    const Pending work = who.pending[index];
    who.pending.erase(who.pending.begin() + static_cast<std::ptrdiff_t>(index));
    Cached& mine = cached(who.host, work.line);
    switch (work.kind) {
        case Pending::Kind::clean:
            write_line_back(who.host, work.line);
            if (random_.one_in(4)) mine.valid = false;  // a processor may drop it as well
            break;
        case Pending::Kind::drop:
            write_line_back(who.host, work.line);
            mine.valid = false;
            note("        h%d drops line %zu", who.host, work.line);
            break;
        case Pending::Kind::stream:
            mine.valid = false;  // the whole line is overwritten
            note("        h%d streams line %zu", who.host, work.line);
            to_memory(who.host, work.line, work.data);
            break;
        case Pending::Kind::load:
            fetch(who.host, work.line);
            std::memcpy(work.to, cached(who.host, work.line).data.data() + work.offset, work.size);
            break;
    }
}

void Hosts::complete(int number, Pending::Kind kind) {
    Actor& who = actor(number);
    for (std::size_t i = 0; i < who.pending.size();)
        if (who.pending[i].kind == kind)
            do_pending(who, i);
        else
            ++i;
}

void Hosts::complete_fenced(int number) {
    Actor& who = actor(number);
    for (std::size_t i = 0; i < who.pending.size();)
        if (who.pending[i].fenced)
            do_pending(who, i);
        else
            ++i;
}

/// What the same actor has begun on a line comes before what it does to that line now.
void Hosts::complete_line(int number, std::size_t line) {
    Actor& who = actor(number);
    for (std::size_t i = 0; i < who.pending.size();)
        if (who.pending[i].line == line && who.pending[i].kind != Pending::Kind::drop &&
            who.pending[i].kind != Pending::Kind::clean)
            do_pending(who, i);
        else
            ++i;
}

void Hosts::complete_all(int number) {
    while (!actor(number).pending.empty())
        do_pending(actor(number), 0);
}

// -- the instructions
// ----------------------------------------------------------------------------------------------

namespace {
template <class OfPiece>
void pieces(const std::byte* at, std::size_t size, OfPiece&& of_piece) {
    for (std::size_t done = 0; done < size;) {
        const std::size_t offset = reinterpret_cast<std::uintptr_t>(at + done) % shm::cache_line;
        const std::size_t length = std::min(size - done, shm::cache_line - offset);
        of_piece(done, offset, length);
        done += length;
    }
}
}  // namespace

void Hosts::load(std::byte* to, const std::byte* from, std::size_t size) {
    pieces(from, size, [&](std::size_t done, std::size_t offset, std::size_t length) {
        step();
        const std::size_t line = line_of(from + done);
        note("load line %zu +%zu %zu", line, offset, length);
        for (std::size_t i = 0; i < actor(running_).pending.size();)  // its own streamed stores come first
            if (actor(running_).pending[i].line == line &&
                actor(running_).pending[i].kind == Pending::Kind::stream)
                do_pending(actor(running_), i);
            else
                ++i;
        if (late_loads_ && random_.one_in(3)) {
            actor(running_).pending.push_back(
                {Pending::Kind::load, line, offset, length, to + done, {}, false});
            return;
        }
        access(line);
        std::memcpy(to + done, cached(my_host(), line).data.data() + offset, length);
    });
}

void Hosts::store(const std::byte* to, const std::byte* from, std::size_t size) {
    pieces(to, size, [&](std::size_t done, std::size_t offset, std::size_t length) {
        step();
        complete_fenced(running_);
        const std::size_t line = line_of(to + done);
        note("store line %zu +%zu %zu", line, offset, length);
        complete_line(running_, line);
        access(line);
        Cached& mine = cached(my_host(), line);
        std::memcpy(mine.data.data() + offset, from + done, length);
        mine.dirty = true;
    });
}

void Hosts::stream(const std::byte* to, const std::byte* from, std::size_t size) {
    for (std::size_t done = 0; done < size; done += shm::cache_line) {
        step();
        complete_fenced(running_);
        const std::size_t line = line_of(to + done);
        note("stream line %zu", line);
        complete_line(running_, line);
        Pending work{Pending::Kind::stream, line, 0, shm::cache_line, nullptr, {}, false};
        std::memcpy(work.data.data(), from + done, shm::cache_line);
        actor(running_).pending.push_back(work);
    }
}

void Hosts::flush(const void* at, bool drop) {
    step();
    const std::size_t line = line_of(at);
    note("%s line %zu", drop ? "invalidate" : "write back", line);
    complete_line(running_, line);
    actor(running_).pending.push_back(
        {drop ? Pending::Kind::drop : Pending::Kind::clean, line, 0, 0, nullptr, {}, false});
}

void Hosts::fence_stores() {
    step();
    note("store fence");
    for (Pending& work : actor(running_).pending)
        if (work.kind != Pending::Kind::load) work.fenced = true;
}

void Hosts::fence_all() {
    step();
    note("full fence");
    complete_all(running_);
}

// -- faults
// --------------------------------------------------------------------------------------------------------

void Hosts::kill(int number) {
    Actor& who = actor(number);
    if (!who.runs) return;
    std::erase_if(who.pending, [](const Pending& work) { return work.kind == Pending::Kind::load; });
    complete_all(number);
    who.runs = false;
    note("        kill of actor %d", number);
}

void Hosts::stop_host(int host) {
    stopped_[static_cast<std::size_t>(host)] = true;
    note("        host %d stops", host);
}

void Hosts::fence_host(int host) {
    note("        host %d is fenced", host);
    for (auto& line : caches_[static_cast<std::size_t>(host)])
        line.valid = line.dirty = false;
    for (Actor& who : actors_)
        if (who.host == host) who.pending.clear(), who.runs = false;
    stopped_[static_cast<std::size_t>(host)] = false;
}

}  // namespace maru::caches

namespace maru::shm::line {

void load(void* to, const void* from, std::size_t size) {
    caches::hosts().load(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size);
}
void store(void* to, const void* from, std::size_t size) {
    caches::hosts().store(static_cast<const std::byte*>(to), static_cast<const std::byte*>(from), size);
}
/// Leaves an odd line to the caller, as wide registers do.
std::size_t stream(void* to, const void* from, std::size_t size) {
    const std::size_t streamed = size - size % (2 * cache_line);
    caches::hosts().stream(static_cast<const std::byte*>(to), static_cast<const std::byte*>(from), streamed);
    return streamed;
}
void write_back(const void* at) {
    caches::hosts().flush(at, false);
}
void invalidate(const void* at) {
    caches::hosts().flush(at, true);
}
void store_fence() {
    caches::hosts().fence_stores();
}
void load_fence() {
    caches::hosts().fence_loads();
}
void full_fence() {
    caches::hosts().fence_all();
}

}  // namespace maru::shm::line
