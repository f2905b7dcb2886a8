#include "line.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace engine {

Command::Command(const std::string& line) {
    std::istringstream words(line);
    words >> name_;
    for (std::string word; words >> word;) {
        const auto equals = word.find('=');
        if (equals == std::string::npos)
            arguments_[word] = "1";
        else
            arguments_[word.substr(0, equals)] = word.substr(equals + 1);
    }
}

std::string Command::text(const std::string& argument, const std::string& otherwise) const {
    const auto found = arguments_.find(argument);
    return found == arguments_.end() ? otherwise : found->second;
}

std::uint64_t Command::number(const std::string& argument, std::uint64_t otherwise) const {
    const auto found = arguments_.find(argument);
    return found == arguments_.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 0);
}

std::string Command::bytes(const std::string& argument) const {
    return bytes_of(text(argument));
}

std::vector<std::string> Command::list(const std::string& argument) const {
    std::vector<std::string> items;
    std::istringstream all(text(argument));
    for (std::string item; std::getline(all, item, ',');)
        items.push_back(item);
    return items;
}

std::string bytes_of(const std::string& text) {
    if (text.rfind("hex:", 0) != 0) return text;
    std::string bytes;
    for (std::size_t at = 4; at + 1 < text.size(); at += 2)
        bytes += static_cast<char>(std::strtoul(text.substr(at, 2).c_str(), nullptr, 16));
    return bytes;
}

Answer& Answer::raw(const char* name, const std::string& json) {
    if (!fields_.empty()) fields_ += ",";
    fields_ += "\"" + std::string(name) + "\":" + json;
    return *this;
}

Answer& Answer::text(const char* name, std::string_view value) {
    std::string json = "\"";
    for (const char letter : value) {
        const auto byte = static_cast<unsigned char>(letter);
        if (letter == '"' || letter == '\\') {
            json += '\\';
            json += letter;
        } else if (byte < 0x20 || byte >= 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", byte);
            json += escape;
        } else {
            json += letter;
        }
    }
    return raw(name, json + "\"");
}

Answer& Answer::number(const char* name, std::uint64_t value) {
    return raw(name, std::to_string(value));
}
Answer& Answer::signed_number(const char* name, std::int64_t value) {
    return raw(name, std::to_string(value));
}
Answer& Answer::boolean(const char* name, bool value) {
    return raw(name, value ? "true" : "false");
}

}  // namespace engine
