#include "daemon/loop.hpp"

#include <spdlog/spdlog.h>

namespace maru::daemon {

Result<std::unique_ptr<Loop>> make_loop(const std::string& backend) {
    if (backend == "epoll") return make_epoll_loop();
    if (backend == "io_uring") return make_uring_loop();
    if (backend != "auto")
        return Error{Code::invalid, "daemon.event_backend is \"" + backend +
                                        "\": this build knows auto, io_uring and epoll"};
    auto loop = make_uring_loop();
    if (loop) return loop;
    spdlog::warn(
        "{}. The daemon runs on epoll instead; daemon.event_backend = \"epoll\" says that this is meant",
        loop.error().text);
    return make_epoll_loop();
}

}  // namespace maru::daemon
