// A seeded mix of all operations by several threads on one shared key space; every byte seen is verified.
#pragma once

#include <maru/maru.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "history.hpp"

namespace engine {

struct MixPlan {
    std::uint64_t seed = 1;
    std::uint32_t client = 1;  // number of this engine, part of each value's id
    std::uint32_t threads = 1;
    std::uint32_t keys = 64;
    std::uint64_t operations = 0;  // of each thread; 0: by time
    std::uint64_t run_ms = 0;
    bool until_told = false;  // or until a line comes on standard input
    std::uint64_t size_max = 4096;
    std::uint32_t hold = 8;  // views, pages and pins that a thread keeps at most
    std::string prefix = "mix-";
    std::string history;  // path prefix; empty: none is recorded
    std::uint64_t history_events = 1 << 20;
    std::uint32_t history_step = 1;  // only every so many keys have one
    bool pins = true;
    bool stop_when_fenced = true;
};

struct MixReport {
    std::uint64_t operations = 0, verified_bytes = 0, violations = 0;
    std::string first_violation;
    std::map<int, std::uint64_t> statuses;
    std::uint64_t slowest_ns = 0;
    std::string slowest_call;
    void add(const MixReport& other);
};

/// Runs the threads of a mix to their end. With `until_told`, lines on standard input are obeyed meanwhile:
/// "mix-fork" leaves a child that lives on for a while and answers with its process id, "mix-exec" turns this
/// process into another program, "mix-stop" ends the mix. They may also come when it is over.
MixReport run_mix(maru_client* client, const MixPlan& plan);

/// Is the line one of those? Obeys what still makes sense without a mix.
bool obey_after_mix(const std::string& line);

/// The text of key `number`: short, just at the inline limit, above it, and the longest.
std::string mix_key(const std::string& prefix, std::uint32_t number);

/// One thread of a mix.
class Mixer {
  public:
    Mixer(maru_client* client, const MixPlan& plan, std::uint32_t thread, const std::atomic<bool>& told);
    MixReport run();

  private:
    struct HeldView {
        maru_view view;
        std::uint32_t key;
        std::uint64_t id;
    };
    struct HeldPage {
        maru_page page;
        std::uint32_t key;
        std::uint64_t size, id;
        bool published;
    };
    void step();
    void put();
    void store();
    void store_batch();
    void retrieve();
    void get();
    void exists();
    void exists_batch();
    void match();
    void retrieve_batch();
    void pin();
    void unpin();
    void remove();
    void reserve();
    void let_go();
    void let_go_of_all();

    template <class Call>
    maru_status timed(const char* name, Call&& call);
    std::uint32_t some_key() { return static_cast<std::uint32_t>(random_() % plan_.keys); }
    std::uint64_t some_size() { return 8 + random_() % (plan_.size_max - 7); }
    std::uint64_t new_id();
    std::uint64_t see(const void* data, std::uint64_t size, std::uint32_t key, std::uint64_t id,
                      const char* where);
    void hold_view(const maru_view& view, std::uint32_t key, std::uint64_t id);
    void hold_page(const maru_page& page, std::uint32_t key, std::uint64_t size, std::uint64_t id,
                   bool published);
    void violation(const std::string& text);
    std::vector<std::uint32_t> run_of_keys(std::size_t count);
    std::vector<maru_key> borrow(const std::vector<std::uint32_t>& numbers) const;

    maru_client* client_;
    MixPlan plan_;
    std::uint32_t thread_;
    const std::atomic<bool>& told_;
    std::mt19937_64 random_;
    History history_;
    MixReport report_;
    std::vector<std::string> keys_;
    std::vector<unsigned char> buffer_;
    std::vector<HeldView> views_;
    std::vector<HeldPage> pages_;
    std::vector<std::uint32_t> pins_;
    std::uint64_t counter_ = 0;
    bool stop_ = false;
};

}  // namespace engine
