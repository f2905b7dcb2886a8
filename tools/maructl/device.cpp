// DAX devices and the header on them; no daemon is asked.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <vector>

#include "base/size.hpp"
#include "commands.hpp"
#include "daemon.hpp"
#include "daemon/domain.hpp"
#include "output.hpp"
#include "pool/devices.hpp"
#include "pool/holders.hpp"
#include "wire/key_text.hpp"

namespace maru::ctl {
namespace {

using pool::DaxDevice;
using pool::DeviceHead;

int refuse(const std::string& text) {
    complain(text);
    return exit_no;
}

/// Why the header could not be looked at; empty when it was.
struct Looked {
    DeviceHead head;
    std::string fault;
    bool is_served = false;
    std::vector<pool::Holder> holders;
    bool in_use() const { return is_served || !holders.empty(); }
};

/// A daemon that serves a device holds the lock that belongs to it.
bool is_served(const std::string& path) {
    pool::PoolConfig config;
    config.kind = pool::Kind::devdax;
    config.path = path;
    const std::string lock_path = daemon::lock_path_of(config);
    if (::access(lock_path.c_str(), F_OK) != 0) return false;
    bool busy = false;
    (void)!daemon::LockFile::take(lock_path, &busy);
    return busy;
}

Looked look(const DaxDevice& device) {
    Looked looked;
    looked.is_served = is_served(device.path);
    const auto opened = pool::open_device(device.path);
    if (opened)
        looked.head = opened->found;
    else
        looked.fault = opened.error().text;
    if (opened) looked.fault = opened->found.fault;
    if (opened) looked.holders = pool::holders_of(opened->descriptor.get());
    return looked;
}

Json json_of(const std::vector<pool::Holder>& holders) {
    auto rows = Json::array();
    for (const auto& holder : holders)
        rows.push_back({{"pid", holder.pid}, {"program", wire::printable(holder.program)}});
    return rows;
}

Json json_of(const DaxDevice& device, const Looked& looked) {
    Json row{{"device", device.name},
             {"path", device.path},
             {"bytes", device.size},
             {"alignment", device.alignment},
             {"mode", pool::name_of(device.mode)},
             {"numa_node", device.target_node < 0 ? Json() : Json(device.target_node)},
             {"pages_on_device", device.pages_on_device},
             {"in_use", looked.in_use()},
             {"held_by", json_of(looked.holders)},
             {"fault", looked.fault.empty() ? Json() : Json(looked.fault)},
             {"header", nullptr}};
    if (looked.head.state != DeviceHead::State::header) return row;
    const auto& header = looked.head.header;
    row["header"] = {{"version", header.version},
                     {"uuid", header.uuid.text()},
                     {"domain", header.domain.empty() ? Json() : Json(header.domain.text())},
                     {"bytes", header.size},
                     {"region_bytes", header.region_size},
                     {"role", pool::name_of(header.role)}};
    return row;
}

std::string owner_of(const Looked& looked) {
    if (!looked.fault.empty()) return "-";
    if (looked.head.state == DeviceHead::State::blank) return "blank";
    const auto& header = looked.head.header;
    if (header.domain.empty()) return header.version == 1 ? "version 1" : "no domain";
    return header.domain.text() + " (" + pool::name_of(header.role) + ")";
}

bool confirmed(const std::string& question) {
    if (::isatty(STDIN_FILENO) == 0) return false;
    std::cerr << question << " [y/N] " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
}

/// A header for people, one fact a line.
std::string text_of(const DaxDevice& device, const Looked& looked) {
    std::string lines = device.path + ": " + format_size(device.size) + ", aligned to " +
                        format_size(device.alignment) + ", mode " + pool::name_of(device.mode);
    if (device.target_node >= 0) lines += ", NUMA node " + std::to_string(device.target_node);
    if (looked.is_served) lines += ", served by a daemon";
    if (!looked.holders.empty()) lines += ", open in " + wire::printable(pool::text_of(looked.holders));
    lines += "\n";
    if (device.pages_on_device)
        lines +=
            "  warning: the kernel keeps its page descriptors on it (--map=dev): not for several hosts\n";
    if (!looked.fault.empty()) return lines + "  " + looked.fault + "\n";
    if (looked.head.state == DeviceHead::State::blank) return lines + "  blank\n";
    const auto& header = looked.head.header;
    lines += "  header version " + std::to_string(header.version) + ", UUID " + header.uuid.text() + "\n";
    if (header.domain.empty()) return lines + "  of no domain\n";
    return lines + "  domain " + header.domain.text() + ", role " + pool::name_of(header.role) + ", " +
           format_size(header.size) + " behind the header, regions of " + format_size(header.region_size) +
           "\n";
}

/// Empty when nobody else uses the device, or that does not matter.
std::string why_held(const std::string& path, const pool::OpenDevice& device, bool force) {
    // Whatever is asked: a daemon that maps it would go on writing.
    if (is_served(path)) return path + ": a daemon serves it: stop that first";
    const auto holders = force ? std::vector<pool::Holder>() : pool::holders_of(device.descriptor.get());
    if (holders.empty()) return {};
    return path + ": it is in use by " + wire::printable(pool::text_of(holders)) +
           ": end that first, or --force";
}

}  // namespace

int list_devices(const Options& options) {
    auto rows = Json::array();
    std::string lines;
    for (const auto& device : pool::list_devices()) {
        const auto looked = look(device);
        rows.push_back(json_of(device, looked));
        const bool known = looked.head.state == DeviceHead::State::header;
        lines += device.path + "  " + format_size(device.size) + "  " + format_size(device.alignment) + "  " +
                 pool::name_of(device.mode) + "  " +
                 (device.target_node < 0 ? "-" : std::to_string(device.target_node)) + "  " +
                 (known ? looked.head.header.uuid.text() : "-") + "  " + owner_of(looked) + "\n";
    }
    if (options.json) {
        print(Json{{"devices", rows}}.dump(2) + "\n");
    } else {
        print(lines.empty() ? "no DAX devices: daxctl list and ndctl list show what the kernel has\n"
                            : "DEVICE  SIZE  ALIGNMENT  MODE  NODE  UUID  OWNER\n" + lines);
    }
    return exit_done;
}

int show_device(const Options& options, const std::string& path) {
    auto opened = pool::open_device(path);
    if (!opened) return refuse(opened.error().text);
    const Looked looked{opened->found, opened->found.fault, is_served(path),
                        pool::holders_of(opened->descriptor.get())};
    print(options.json ? json_of(opened->device, looked).dump(2) + "\n" : text_of(opened->device, looked));
    return exit_done;
}

int init_device(const Options& options, const std::string& path, bool force) {
    auto opened = pool::open_device(path);
    if (!opened) return refuse(opened.error().text);
    if (const auto held = why_held(path, *opened, force); !held.empty()) return refuse(held);
    const auto& found = opened->found;
    if (found.state == DeviceHead::State::header && !force)
        return refuse(
            path + ": it has a header already, UUID " + found.header.uuid.text() +
            (found.header.domain.empty() ? std::string() : ", of domain " + found.header.domain.text()) +
            ": --force gives it a new one, and what is on it is lost");
    if (found.state != DeviceHead::State::blank && !force)
        return refuse(path + ": " + found.fault + ": --force overwrites it");
    pool::DeviceHeader header;
    header.uuid = Uuid::random();
    header.size = opened->device.size - opened->device.alignment;
    pool::clear_device_head(opened->head.data());
    pool::write_device_header(opened->head.data(), header);
    const auto written = pool::read_device_head(opened->head.data());
    if (!(written.header == header))
        return refuse(path + ": the header does not read back as it was written: is the memory bad?");
    print(options.json ? Json{{"path", path}, {"uuid", header.uuid.text()}}.dump() + "\n"
                       : path + " has UUID " + header.uuid.text() + "\n");
    return exit_done;
}

int clear_device(const Options& options, const std::string& path, bool yes, bool force) {
    auto opened = pool::open_device(path);
    if (!opened) return refuse(opened.error().text);
    if (const auto held = why_held(path, *opened, force); !held.empty()) return refuse(held);
    const auto& found = opened->found;
    if (found.state == DeviceHead::State::blank) return refuse(path + ": it has no header");
    if (found.state == DeviceHead::State::foreign) return refuse(path + ": " + found.fault + ": not cleared");
    const std::string loss =
        path + " with UUID " + found.header.uuid.text() +
        (found.header.domain.empty() ? std::string() : " of domain " + found.header.domain.text());
    if (!yes && !confirmed("Clear the header of " + loss + "? What is on it is lost."))
        return refuse("not cleared: " + loss + "; say -y if that is meant");
    pool::clear_device_head(opened->head.data());
    print(options.json ? Json{{"path", path}, {"cleared", true}}.dump() + "\n" : "cleared " + path + "\n");
    return exit_done;
}

}  // namespace maru::ctl
