#include "mix.hpp"

#include <cstdio>
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

MixReport run_mix(maru_client* client, const MixPlan& plan) {
    std::vector<MixReport> reports(plan.threads);
    std::vector<std::thread> threads;
    std::atomic<bool> told = false;
    for (std::uint32_t number = 0; number < plan.threads; ++number)
        threads.emplace_back([&, number] { reports[number] = Mixer(client, plan, number, told).run(); });
    std::string line;
    if (plan.until_told && std::getline(std::cin, line)) told = true;
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
               plan.history_events),
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
