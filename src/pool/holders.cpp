#include "pool/holders.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace maru::pool {
namespace {

namespace fs = std::filesystem;

constexpr useconds_t between_looks_us = 50'000;

bool is_same(const struct stat& one, const struct stat& other) {
    if (S_ISCHR(one.st_mode) && S_ISCHR(other.st_mode)) return one.st_rdev == other.st_rdev;
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool has_open(const fs::path& process, const struct stat& wanted) {
    std::error_code denied;  // or ended meanwhile
    for (fs::directory_iterator it(process / "fd", denied), end; !denied && it != end; it.increment(denied)) {
        char name[2] = {};  // sockets and the like are not looked at
        if (::readlink(it->path().c_str(), name, 1) != 1 || name[0] != '/') continue;
        struct stat found {};
        if (::stat(it->path().c_str(), &found) == 0 && is_same(found, wanted)) return true;
    }
    return false;
}

/// A line of maps: "BEGIN-END MODE OFFSET MAJOR:MINOR INODE PATH".
bool has_mapped(const fs::path& process, const struct stat& wanted) {
    std::ifstream maps(process / "maps");
    std::string line;
    while (std::getline(maps, line)) {
        const auto path = line.find('/');
        unsigned major_number = 0, minor_number = 0;
        unsigned long long inode = 0;
        if (path == std::string::npos ||
            std::sscanf(line.c_str(), "%*s %*s %*s %x:%x %llu", &major_number, &minor_number, &inode) != 3)
            continue;
        if (inode == wanted.st_ino && makedev(major_number, minor_number) == wanted.st_dev) return true;
        // The same device by another node, such as that of a container.
        if (!S_ISCHR(wanted.st_mode) || line.compare(path, 5, "/dev/") != 0) continue;
        struct stat found {};
        const std::string there = (process / "root").string() + line.substr(path);
        if (::stat(there.c_str(), &found) == 0 && is_same(found, wanted)) return true;
    }
    return false;
}

std::string program_of(const fs::path& process) {
    std::string name;
    std::ifstream in(process / "comm");
    std::getline(in, name);
    return name.empty() ? "ended meanwhile" : name;
}

std::vector<Holder> look(const struct stat& wanted) {
    std::vector<Holder> holders;
    std::error_code problem;
    for (fs::directory_iterator it("/proc", problem), end; !problem && it != end; it.increment(problem)) {
        const auto pid = static_cast<pid_t>(std::atoi(it->path().filename().c_str()));
        if (pid <= 0 || pid == ::getpid()) continue;
        if (has_open(it->path(), wanted) || has_mapped(it->path(), wanted))
            holders.push_back({pid, program_of(it->path())});
    }
    return holders;
}

}  // namespace

std::vector<Holder> holders_of(int descriptor) {
    struct stat wanted {};
    if (::fstat(descriptor, &wanted) != 0) return {};
    auto holders = look(wanted);
    if (holders.empty()) return holders;
    ::usleep(between_looks_us);
    const auto again = look(wanted);
    std::erase_if(holders, [&](const Holder& one) {
        return std::none_of(again.begin(), again.end(),
                            [&](const Holder& other) { return other.pid == one.pid; });
    });
    return holders;
}

std::string text_of(const std::vector<Holder>& holders) {
    if (holders.empty()) return "nobody";
    std::string text =
        "process " + std::to_string(holders.front().pid) + " (" + holders.front().program + ")";
    if (holders.size() > 1)
        text += " and " + std::to_string(holders.size() - 1) + (holders.size() == 2 ? " other" : " others");
    return text;
}

}  // namespace maru::pool
