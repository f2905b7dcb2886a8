// The config file: strict TOML into a Config, with every problem of the file in one error.
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/size.hpp"
#include "daemon/config_check.hpp"
#include "daemon/config_keys.hpp"

namespace maru::daemon {
namespace {

constexpr std::size_t problems_max = 20;     // shown at once
constexpr std::size_t shown_value_max = 60;  // letters of a value in an error
constexpr std::size_t line_dots_max = 1000;  // far beyond what any key, number or path has

/// A value as the person wrote it, in one line and not too long.
std::string shown(const toml::node& value) {
    if (value.is_table()) return "a table";
    if (value.is_array()) return "an array";
    if (const auto* text = value.as_string()) {
        if (text->get().size() > shown_value_max)
            return quoted(text->get().substr(0, shown_value_max) + "...");
        return quoted(text->get());
    }
    std::ostringstream out;
    value.visit([&out](const auto& plain) { out << plain; });
    return out.str();
}

std::uint32_t line_of(const toml::node& node) {
    return node.source().begin.line;
}

bool is_later(const std::string& name) {
    const auto later = later_keys();
    return std::any_of(later.begin(), later.end(), [&](const std::string& key) {
        return name == key ||
               (name.size() > key.size() && name.compare(0, key.size(), key) == 0 && name[key.size()] == '.');
    });
}

/// The first line with too many dots, 0 when there is none. The parser makes a table of each part of a dotted
/// key and takes them down by recursion: without a bound a line of some 100 KiB overflows the stack.
std::uint32_t line_of_many_dots(const std::string& text) {
    std::uint32_t line = 1;
    std::size_t dots = 0;
    for (const char letter : text) {
        if (letter == '.' && ++dots > line_dots_max) return line;
        if (letter != '\n') continue;
        ++line;
        dots = 0;
    }
    return 0;
}

struct NamespaceSource {
    NamespaceConfig config;
    std::uint32_t line = 0;
    std::map<std::string, std::string> origins;  // by the key's last part
};

class FileReader {
  public:
    explicit FileReader(std::string file) : file_(std::move(file)) {}

    Result<Config> read(const toml::table& root) {
        for (const auto& [key, value] : root)
            read_top(std::string(key.str()), key.source().begin.line, value);
        take_pools();
        take_namespaces();
        if (problems_.empty())
            if (const auto checked = check_config(config_); !checked) return checked.error();
        if (!problems_.empty()) return all_problems();
        return std::move(config_);
    }

  private:
    struct Problem {
        std::uint32_t line;
        std::string text;
    };

    void problem(std::uint32_t line, const std::string& text) { problems_.push_back({line, text}); }
    std::string place(std::uint32_t line) const { return file_ + ":" + std::to_string(line); }

    void read_top(const std::string& name, std::uint32_t line, const toml::node& value) {
        const bool is_table = std::any_of(config_keys().begin(), config_keys().end(), [&](const auto& key) {
            return key.name.compare(0, name.size() + 1, name + ".") == 0;
        });
        if (name == "pool")
            return read_list(name, line, value, [this](const toml::table& entry) { read_pool(entry); });
        if (name == "namespace")
            return read_list(name, line, value, [this](const toml::table& entry) { read_namespace(entry); });
        if (!is_table) return unknown_top(name, line, value);
        if (!value.is_table())
            return problem(line, name + " = " + shown(value) + ": must be a table, written [" + name + "]");
        for (const auto& [key, below] : *value.as_table())
            read_key(name + "." + std::string(key.str()), key.source().begin.line, below);
    }

    void read_key(const std::string& name, std::uint32_t line, const toml::node& value) {
        for (const auto& key : config_keys()) {
            if (key.name != name) continue;
            if (!key.read(value, config_)) return not_allowed(name, line, value, key.allowed);
            config_.origins[name] = place(line);
            return;
        }
        unknown(name, line, value);
    }

    template <class Read>
    void read_list(const std::string& name, std::uint32_t line, const toml::node& value, Read&& read) {
        const auto* list = value.as_array();
        if (list == nullptr || !list->is_homogeneous<toml::table>()) {
            if (list != nullptr && list->empty()) return;
            return problem(line, name + " must be a list of tables: write each as [[" + name + "]]");
        }
        for (const auto& entry : *list)
            read(*entry.as_table());
    }

    void read_pool(const toml::table& table) {
        PoolSource source;
        source.where = place(line_of(table));
        for (const auto& [key, value] : table)
            read_entry_key(pool_keys(), "pool." + std::string(key.str()), key.source().begin.line, value,
                           source.config, source.origins);
        if (table.get("kind") == nullptr)
            return problem(line_of(table), "this [[pool]] has no kind: kind is required");
        if (const auto settled = settle_pool(&source, pools_.size()); !settled)
            problem(line_of(table), settled.error().text);
        pools_.push_back(std::move(source));
    }

    void read_namespace(const toml::table& table) {
        NamespaceSource source;
        source.line = line_of(table);
        for (const auto& [key, value] : table)
            read_entry_key(namespace_keys(), "namespace." + std::string(key.str()), key.source().begin.line,
                           value, source.config, source.origins);
        if (table.get("name") == nullptr)
            problem(source.line, "this [[namespace]] has no name: name is required");
        if (const auto fits = table::check_namespace_rules(source.config.policy.rules); !fits)
            problem(source.line, fits.error().text);
        namespaces_.push_back(std::move(source));
    }

    /// A key of an entry of a list; `origins` gets its line under the key's last part.
    template <class Target>
    void read_entry_key(std::span<const ConfigKey<Target>> keys, const std::string& name, std::uint32_t line,
                        const toml::node& value, Target& target,
                        std::map<std::string, std::string>& origins) {
        for (const auto& key : keys) {
            if (key.name != name) continue;
            if (!key.read(value, target)) {
                if (const auto wrong = wrong_member(name, value)) return problem(line, name + ": " + *wrong);
                return not_allowed(name, line, value, key.allowed);
            }
            origins[name.substr(name.find('.') + 1)] = place(line);
            return;
        }
        unknown(name, line, value);
    }

    void take_pools() {
        if (!problems_.empty()) return;  // a name that was refused would only be missed a second time
        if (const auto added = add_pools(config_, pools_); !added)
            problems_.push_back({0, added.error().text});
    }

    void take_namespaces() {
        if (!problems_.empty()) return;
        std::size_t with_default = 1;  // "default" is always there
        for (const auto& source : namespaces_) {
            const auto& name = source.config.name;
            for (const auto& earlier : namespaces_) {
                if (&earlier == &source) break;
                if (earlier.config.name == name)
                    return problem(source.line, "namespace name '" + name +
                                                    "' is taken by the [[namespace]] of " +
                                                    place(earlier.line) + ": name each once");
            }
            if (name != "default") ++with_default;
            if (with_default > config_.control.max_namespaces)
                return problem(
                    source.line,
                    "namespace '" + name +
                        "' is one too many: with \"default\" there are at most control.max_namespaces = " +
                        std::to_string(config_.control.max_namespaces));
            config_.namespaces.push_back(source.config);
            for (const auto& [key, where] : source.origins)
                config_.origins["namespace." + name + "." + key] = where;
        }
    }

    void not_allowed(const std::string& name, std::uint32_t line, const toml::node& value,
                     const std::string& allowed) {
        problem(line, name + " = " + shown(value) + " is not allowed: write " + allowed);
    }

    /// Of a table whose keys come with a later version, each key is named.
    void unknown_top(const std::string& name, std::uint32_t line, const toml::node& value) {
        const auto later = later_keys();
        const bool holds_later =
            is_later(name) || std::any_of(later.begin(), later.end(), [&](const std::string& key) {
                return key.compare(0, name.size() + 1, name + ".") == 0;
            });
        if (!holds_later || !value.is_table()) return unknown(name, line, value);
        if (value.as_table()->empty())
            return problem(line, "[" + name + "] is not supported by this version: remove it");
        for (const auto& [key, below] : *value.as_table())
            unknown(name + "." + std::string(key.str()), key.source().begin.line, below);
    }

    void unknown(const std::string& name, std::uint32_t line, const toml::node& value) {
        if (is_later(name)) return problem(line, name + " is not supported by this version: remove it");
        const bool table = value.is_table() || value.is_array_of_tables();
        const std::string near = table ? nearest_table(name) : nearest_key(name);
        const char* what = table ? "unknown table " : "unknown key ";
        problem(line, what + name + (near.empty() ? ": remove it" : ", did you mean " + near + "?"));
    }

    Error all_problems() {
        std::stable_sort(problems_.begin(), problems_.end(),
                         [](const Problem& left, const Problem& right) { return left.line < right.line; });
        std::string text;
        for (std::size_t i = 0; i < std::min(problems_.size(), problems_max); ++i) {
            if (i > 0) text += "\n";
            if (problems_[i].line > 0) text += place(problems_[i].line) + ": ";
            text += problems_[i].text;
        }
        if (problems_.size() > problems_max)
            text += "\nand " + std::to_string(problems_.size() - problems_max) + " more";
        return Error{Code::invalid, text};
    }

    std::string file_;
    Config config_;
    std::vector<PoolSource> pools_;
    std::vector<NamespaceSource> namespaces_;
    std::vector<Problem> problems_;
};

}  // namespace

Result<Config> parse_config(const std::string& text, const std::string& file) {
    if (const auto line = line_of_many_dots(text); line != 0)
        return Error{Code::invalid, file + ":" + std::to_string(line) + ": more than " +
                                        std::to_string(line_dots_max) +
                                        " dots in one line: write shorter keys"};
    toml::table root;
    try {
        root = toml::parse(text, file);
    } catch (const toml::parse_error& problem) {
        return Error{Code::invalid, file + ":" + std::to_string(problem.source().begin.line) +
                                        ": not TOML: " + std::string(problem.description())};
    }
    return FileReader(file).read(root);
}

}  // namespace maru::daemon
