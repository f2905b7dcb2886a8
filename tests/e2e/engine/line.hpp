// One command line in, one JSON object on one line out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// "put key=hex:00ff size=4096 no_claim": a command and its named arguments.
class Command {
  public:
    explicit Command(const std::string& line);

    const std::string& name() const { return name_; }
    bool has(const std::string& argument) const { return arguments_.count(argument) != 0; }
    std::string text(const std::string& argument, const std::string& otherwise = "") const;
    std::uint64_t number(const std::string& argument, std::uint64_t otherwise = 0) const;
    /// Bytes given as text or as "hex:...".
    std::string bytes(const std::string& argument) const;
    /// Several of these, separated by commas; nothing for an empty argument.
    std::vector<std::string> list(const std::string& argument) const;

  private:
    std::string name_;
    std::map<std::string, std::string> arguments_;
};

std::string bytes_of(const std::string& text);

/// A JSON object that grows field by field.
class Answer {
  public:
    Answer& text(const char* name, std::string_view value);
    Answer& number(const char* name, std::uint64_t value);
    Answer& signed_number(const char* name, std::int64_t value);
    Answer& boolean(const char* name, bool value);
    Answer& raw(const char* name, const std::string& json);
    template <class Numbers>
    Answer& numbers(const char* name, const Numbers& values) {
        std::string json = "[";
        for (const auto value : values)
            json += (json.size() > 1 ? "," : "") + std::to_string(value);
        return raw(name, json + "]");
    }
    std::string line() const { return "{" + fields_ + "}"; }

  private:
    std::string fields_;
};

}  // namespace engine
