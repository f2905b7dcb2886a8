#include "mix.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace engine {

std::string mix_key(const std::string& prefix, std::uint32_t number) {
    std::string key = prefix + std::to_string(number);
    const std::size_t lengths[] = {0, 0, 80, 120, 0, 121, 0, 300, 0, 0, 0, 4096};
    const std::size_t length = lengths[number % 12];
    while (key.size() < length)
        key.push_back(static_cast<char>('a' + key.size() % 26));
    return key;
}

void MixReport::add(const MixReport& other) {
    operations += other.operations;
    verified_bytes += other.verified_bytes;
    violations += other.violations;
    if (first_violation.empty()) first_violation = other.first_violation;
    for (const auto& [status, count] : other.statuses)
        statuses[status] += count;
    if (other.slowest_ns > slowest_ns) {
        slowest_ns = other.slowest_ns;
        slowest_call = other.slowest_call;
    }
}

namespace {

constexpr int child_lives_ms = 20'000;

/// The child has its parent's mappings and none of its rights; it outlives a parent that is killed.
void fork_in_the_middle(maru_client* client) {
    const pid_t child = ::fork();
    if (child != 0) {
        std::printf("{\"child\":%d}\n", child);
        std::fflush(stdout);
        return;
    }
    char byte = 'x';
    const maru_status status = maru_put(client, "of a child", 10, &byte, 1);
    if (status != MARU_ERR_FORKED) std::fprintf(stderr, "VIOLATION: a forked child's put gave %d\n", status);
    ::close(STDIN_FILENO);
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
    ::poll(nullptr, 0, child_lives_ms);
    ::_exit(0);
}

void become_another_program() {
    ::execlp("sleep", "sleep", "60", nullptr);
    std::perror("sleep");
    std::exit(2);
}

/// Until the mix is to end, or has ended by itself.
void obey(maru_client* client, const std::atomic<std::uint32_t>& running) {
    constexpr int look_ms = 5;
    while (running.load() > 0) {
        pollfd waiting{STDIN_FILENO, POLLIN, 0};
        if (std::cin.rdbuf()->in_avail() <= 0 && ::poll(&waiting, 1, look_ms) == 0) continue;
        std::string line;
        if (!std::getline(std::cin, line) || line == "mix-stop") return;
        if (line == "mix-fork") fork_in_the_middle(client);
        if (line == "mix-exec") become_another_program();
    }
}

}  // namespace

bool obey_after_mix(const std::string& line) {
    if (line == "mix-exec") become_another_program();
    return line == "mix-stop" || line == "mix-fork";
}

MixReport run_mix(maru_client* client, const MixPlan& plan) {
    std::vector<MixReport> reports(plan.threads);
    std::vector<std::thread> threads;
    std::atomic<bool> told = false;
    std::atomic<std::uint32_t> running = plan.threads;
    for (std::uint32_t number = 0; number < plan.threads; ++number)
        threads.emplace_back([&, number] {
            reports[number] = Mixer(client, plan, number, told).run();
            --running;
        });
    if (plan.until_told) {
        obey(client, running);
        told = true;
    }
    for (auto& thread : threads)
        thread.join();
    MixReport all;
    for (const auto& report : reports)
        all.add(report);
    return all;
}

Mixer::Mixer(maru_client* client, const MixPlan& plan, std::uint32_t thread, const std::atomic<bool>& told)
    : client_(client),
      plan_(plan),
      thread_(thread),
      told_(told),
      random_(plan.seed * 1'000'003 + thread),
      history_(plan.history.empty() ? "" : plan.history + "." + std::to_string(thread), plan.client,
               plan.history_events, plan.history_step),
      buffer_(plan.size_max) {
    for (std::uint32_t number = 0; number < plan.keys; ++number)
        keys_.push_back(mix_key(plan.prefix, number));
}

MixReport Mixer::run() {
    const std::uint64_t end_ns = now_ns() + plan_.run_ms * 1'000'000;
    while (!stop_ && !told_ && !history_.full()) {
        const bool timed = plan_.operations == 0 && !plan_.until_told;
        if (timed ? now_ns() >= end_ns : plan_.operations != 0 && report_.operations >= plan_.operations)
            break;
        ++report_.operations;
        step();
    }
    let_go_of_all();
    return report_;
}

void Mixer::step() {
    using Step = void (Mixer::*)();
    static constexpr Step steps[] = {
        // an entry for each part of the mix
        &Mixer::put,      &Mixer::put,          &Mixer::put,      &Mixer::put,      &Mixer::put,
        &Mixer::store,    &Mixer::store,        &Mixer::store,    &Mixer::reserve,  &Mixer::store_batch,
        &Mixer::retrieve, &Mixer::retrieve,     &Mixer::retrieve, &Mixer::retrieve, &Mixer::retrieve_batch,
        &Mixer::exists,   &Mixer::exists_batch, &Mixer::match,    &Mixer::get,      &Mixer::pin,
        &Mixer::unpin,    &Mixer::remove,       &Mixer::remove,   &Mixer::let_go,   &Mixer::let_go,
    };
    (this->*steps[random_() % std::size(steps)])();
}

std::uint64_t Mixer::new_id() {
    return std::uint64_t{plan_.client} << 44 | std::uint64_t{thread_} << 36 | ++counter_;
}

void Mixer::violation(const std::string& text) {
    ++report_.violations;
    if (report_.first_violation.empty()) report_.first_violation = text;
    std::fprintf(stderr, "VIOLATION client %u thread %u seed %llu: %s\n", plan_.client, thread_,
                 static_cast<unsigned long long>(plan_.seed), text.c_str());
}

}  // namespace engine
