// Who else uses a device.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace maru::pool {

struct Holder {
    pid_t pid = 0;
    std::string program;  // as the kernel names it, for people
};

/// Other processes that have the opened device (or file) open or mapped, by whatever name. Looked at twice,
/// 50 ms apart, so that who only takes a glance at it does not count.
///
/// Only as far as this user may look at others: root sees all, anybody else the processes of the same user.
std::vector<Holder> holders_of(int descriptor);

/// "process 17 (qemu) and 2 others".
std::string text_of(const std::vector<Holder>& holders);

}  // namespace maru::pool
