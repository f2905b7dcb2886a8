// The check as JSON.
#include <cstdio>

#include "daemon/admin/answers.hpp"
#include "table/check.hpp"

namespace maru::daemon {
namespace {

Json json_of(const table::Finding& finding) {
    auto words = Json::array();
    for (const auto word : finding.words)
        words.push_back(hex_text(word));
    return {{"what", finding.what}, {"where", finding.where}, {"words", words}};
}

}  // namespace

std::string check_domain(const table::Control& control, bool in_use) {
    const auto report = in_use ? table::check(control) : table::look(control);
    auto findings = Json::array();
    for (const auto& finding : report.findings)
        findings.push_back(json_of(finding));
    Json pages;
    for (int phase = 0; phase < table::phase_count; ++phase)
        pages[table::name_of(static_cast<table::Phase>(phase))] = report.pages[phase];
    return text_of({{"clean", report.findings_total == 0},
                    {"findings_total", report.findings_total},
                    {"findings", findings},
                    {"records", report.records},
                    {"slots", report.slots},
                    {"regions", report.regions},
                    {"pins", report.pins},
                    {"clients", report.clients},
                    {"objects", report.objects},
                    {"pages", pages}});
}

}  // namespace maru::daemon
