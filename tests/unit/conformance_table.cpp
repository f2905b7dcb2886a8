#include "conformance_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <iostream>
#include <map>
#include <vector>

namespace maru::pool_tests {
namespace {

struct Table {
    std::vector<std::string> cases, kinds;                    // in the order in which they came
    std::map<std::string, std::map<std::string, bool>> held;  // case, kind
    std::atomic<int> failures{0};                             // checks may fail in any thread
};

Table& table() {
    static Table made;
    return made;
}

void add_once(std::vector<std::string>* names, const std::string& name) {
    if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

void print(const Table& table, std::ostream& out) {
    std::size_t width = 0;
    for (const auto& name : table.cases)
        width = std::max(width, name.size());
    const auto cell = [&](const std::string& text, std::size_t room) {
        out << " | " << text << std::string(room - std::min(room, text.size()), ' ');
    };
    out << "conformance";
    cell("case", width);
    for (const auto& kind : table.kinds)
        cell(kind, 6);
    out << '\n';
    for (const auto& name : table.cases) {
        out << "conformance";
        cell(name, width);
        for (const auto& kind : table.kinds) {
            const auto& row = table.held.at(name);
            const auto found = row.find(kind);
            cell(found == row.end() ? "-"
                 : found->second    ? "held"
                                    : "FAILED",
                 std::max<std::size_t>(6, kind.size()));
        }
        out << '\n';
    }
    out << std::flush;
}

/// Counts the checks that fail and prints the table at the end.
class Listener final : public doctest::IReporter {
  public:
    explicit Listener(const doctest::ContextOptions&) {}
    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats&) override {
        if (!table().cases.empty()) print(table(), std::cout);
    }
    void test_case_start(const doctest::TestCaseData& data) override { current() = data.m_name; }
    void test_case_reenter(const doctest::TestCaseData&) override {}
    void test_case_end(const doctest::CurrentTestCaseStats&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData& data) override {
        // Relaxed: read by the thread of the case, after it has joined those that check.
        if (data.m_failed) table().failures.fetch_add(1, std::memory_order_relaxed);
    }
    void log_message(const doctest::MessageData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}

    static std::string& current() {
        static std::string name;
        return name;
    }
};

REGISTER_LISTENER("conformance_table", 1, Listener);

}  // namespace

ConformanceRow::ConformanceRow(std::string kind)
    : kind_(std::move(kind)), failures_before_(table().failures.load(std::memory_order_relaxed)) {}

ConformanceRow::~ConformanceRow() {
    // A check that throws has been counted before; any other exception ends the case.
    const bool held = table().failures.load(std::memory_order_relaxed) == failures_before_ &&
                      std::uncaught_exceptions() == 0;
    add_once(&table().cases, Listener::current());
    add_once(&table().kinds, kind_);
    table().held[Listener::current()][kind_] = held;
}

}  // namespace maru::pool_tests
