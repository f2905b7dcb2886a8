#include "scenario.hpp"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

namespace maru::sim {
namespace {

std::string trimmed(const std::string& text) {
    const auto begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t\r");
    return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

bool number(const std::string& text, std::uint64_t* out) {
    char* end = nullptr;
    *out = std::strtoull(text.c_str(), &end, 10);
    return !text.empty() && *end == 0;
}

bool range(const std::string& text, Range* out) {
    const auto dash = text.find('-');
    std::uint64_t least = 0, most = 0;
    if (!number(trimmed(text.substr(0, dash)), &least)) return false;
    most = least;
    if (dash != std::string::npos && !number(trimmed(text.substr(dash + 1)), &most)) return false;
    *out = {static_cast<std::uint32_t>(least), static_cast<std::uint32_t>(most)};
    return least <= most;
}

bool mix(const std::string& text, Mix* out) {
    std::istringstream words(text);
    std::string name, weight;
    out->clear();
    while (words >> name) {
        std::uint64_t value = 0;
        if (!(words >> weight) || !number(weight, &value)) return false;
        out->emplace_back(name, static_cast<std::uint32_t>(value));
    }
    return !out->empty();
}

class Reader {
  public:
    explicit Reader(Scenario& scenario) : s_(scenario) {}

    bool set(const std::string& name, const std::string& value) {
        if (name == "about") return s_.about = value, true;
        if (name == "memory") return memory(value);
        if (name == "script") return s_.scripts.push_back(value), true;
        if (name == "mix") return mix(value, &s_.mix);
        if (name == "duties") return mix(value, &s_.duties);
        if (name == "pools") return pools(value);
        if (name == "mutant") return s_.mutant = value, true;
        if (name == "meets") return s_.meets.push_back(value), true;
        const std::map<std::string, Range*> ranges{{"keys", &s_.keys},       {"clients", &s_.clients},
                                                   {"threads", &s_.threads}, {"operations", &s_.operations},
                                                   {"epoch", &s_.epoch},     {"turn", &s_.turn},
                                                   {"ratio", &s_.ratio},     {"grow", &s_.grow}};
        if (const auto at = ranges.find(name); at != ranges.end()) return range(value, at->second);
        const std::map<std::string, std::uint32_t*> numbers{{"granules", &s_.granules},
                                                            {"chunks", &s_.chunks},
                                                            {"client_slots", &s_.client_slots},
                                                            {"namespaces", &s_.namespaces},
                                                            {"ballast", &s_.ballast},
                                                            {"pin_steps", &s_.pin_steps},
                                                            {"rounds_max", &s_.rounds_max},
                                                            {"respawns", &s_.respawns},
                                                            {"freeze_sweeping", &s_.freeze_sweeping},
                                                            {"daemons", &s_.daemons},
                                                            {"kill", &s_.kill},
                                                            {"freeze", &s_.freeze},
                                                            {"kill_daemon", &s_.kill_daemon},
                                                            {"gone", &s_.gone},
                                                            {"kill_sweeping", &s_.kill_sweeping},
                                                            {"preemptions", &s_.preemptions},
                                                            {"kills", &s_.kills}};
        std::uint64_t wide = 0;
        if (const auto at = numbers.find(name); at != numbers.end()) {
            if (!number(value, &wide)) return false;
            *at->second = static_cast<std::uint32_t>(wide);
            return true;
        }
        if (name == "schedules") return number(value, &s_.schedules);
        const std::map<std::string, bool*> flags{
            {"same_tag", &s_.same_tag}, {"filled", &s_.filled}, {"solo", &s_.solo}};
        if (const auto at = flags.find(name); at != flags.end()) {
            *at->second = value == "yes";
            return value == "yes" || value == "no";
        }
        return false;
    }

  private:
    bool memory(const std::string& value) {
        if (value == "sequential")
            s_.memory = Memory::sequential;
        else if (value == "tso")
            s_.memory = Memory::total_store_order;
        else if (value == "weak")
            s_.memory = Memory::weak;
        else
            return false;
        return true;
    }
    bool pools(const std::string& value) {
        std::istringstream words(value);
        s_.pools.clear();
        for (std::uint32_t units; words >> units;)
            s_.pools.push_back(units);
        return !s_.pools.empty();
    }
    Scenario& s_;
};

}  // namespace

std::optional<Scenario> Scenario::read(const std::string& path, std::string* error) {
    std::ifstream file(path);
    if (!file) {
        *error = path + ": cannot be read";
        return {};
    }
    Scenario scenario;
    const auto slash = path.find_last_of('/');
    scenario.name = path.substr(slash == std::string::npos ? 0 : slash + 1);
    scenario.name = scenario.name.substr(0, scenario.name.find(".scenario"));
    Reader reader(scenario);
    int line_number = 0;
    for (std::string line; std::getline(file, line);) {
        ++line_number;
        line = trimmed(line.substr(0, line.find('#')));
        if (line.empty()) continue;
        const auto equals = line.find('=');
        if (equals == std::string::npos ||
            !reader.set(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)))) {
            *error = path + ":" + std::to_string(line_number) + ": not understood: " + line;
            return {};
        }
    }
    return scenario;
}

}  // namespace maru::sim
