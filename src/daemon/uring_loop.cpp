#include <liburing.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "daemon/loop.hpp"
#include "daemon/socket_message.hpp"

namespace maru::daemon {
namespace {

constexpr unsigned ring_entries = 1024;

/// One operation from its begin to the completion that the kernel reports, also when it was cancelled: the
/// kernel may use its buffers until then.
class Pending {
  public:
    virtual ~Pending() = default;
    virtual void submit(io_uring_sqe* entry) = 0;
    /// True when it is complete; false when it has to be submitted again.
    virtual bool complete(int result) = 0;

    bool cancelled = false;
};

class PendingAccept final : public Pending {
  public:
    PendingAccept(int listener, std::function<void(int)> then)
        : listener_(listener), then_(std::move(then)) {}
    void submit(io_uring_sqe* entry) override {
        io_uring_prep_accept(entry, listener_, nullptr, nullptr, SOCK_CLOEXEC);
    }
    bool complete(int result) override {
        if (cancelled) {
            Descriptor unwanted(result);  // accepted before the cancellation reached it
            return true;
        }
        if (result == -EINTR || result == -EAGAIN || result == -ECONNABORTED) return false;
        then_(result);
        return true;
    }

  private:
    int listener_;
    std::function<void(int)> then_;
};

class PendingReceive final : public Pending {
  public:
    PendingReceive(int socket, std::function<void(Received)> then)
        : socket_(socket), then_(std::move(then)) {}
    void submit(io_uring_sqe* entry) override {
        io_uring_prep_recvmsg(entry, socket_, message_.prepare(), MSG_CMSG_CLOEXEC);
    }
    bool complete(int result) override {
        Received received = message_.take(result);
        if (cancelled) return true;
        if (result == -EINTR || result == -EAGAIN) return false;
        then_(std::move(received));
        return true;
    }

  private:
    int socket_;
    std::function<void(Received)> then_;
    IncomingMessage message_;
};

class PendingSend final : public Pending {
  public:
    PendingSend(int socket, std::vector<std::byte> bytes, const std::vector<int>& descriptors,
                std::function<void(int)> then)
        : socket_(socket), message_(std::move(bytes), descriptors), then_(std::move(then)) {}
    void submit(io_uring_sqe* entry) override {
        io_uring_prep_sendmsg(entry, socket_, message_.prepare(), MSG_NOSIGNAL);
    }
    bool complete(int result) override {
        if (cancelled) return true;
        if (result == -EINTR || result == -EAGAIN) return false;
        if (result > 0 && !message_.sent(static_cast<std::size_t>(result))) return false;
        then_(result < 0 ? result : 0);
        return true;
    }

  private:
    int socket_;
    OutgoingMessage message_;
    std::function<void(int)> then_;
};

class PendingPoll final : public Pending {
  public:
    PendingPoll(int descriptor, std::function<void()> then)
        : descriptor_(descriptor), then_(std::move(then)) {}
    void submit(io_uring_sqe* entry) override { io_uring_prep_poll_add(entry, descriptor_, POLLIN); }
    bool complete(int result) override {
        if (cancelled) return true;
        if (result == -EINTR || result == -EAGAIN) return false;
        then_();
        return true;
    }

  private:
    int descriptor_;
    std::function<void()> then_;
};

class PendingTimer final : public Pending {
  public:
    PendingTimer(std::chrono::milliseconds span, std::function<void()> then) : then_(std::move(then)) {
        span_.tv_sec = span.count() / 1000;
        span_.tv_nsec = span.count() % 1000 * 1'000'000;
    }
    void submit(io_uring_sqe* entry) override { io_uring_prep_timeout(entry, &span_, 0, 0); }
    bool complete(int) override {
        if (!cancelled) then_();
        return true;
    }

  private:
    __kernel_timespec span_{};
    std::function<void()> then_;
};

class UringLoop final : public Loop {
  public:
    Result<void> open();
    ~UringLoop() override;

    const char* name() const override { return "io_uring"; }
    Operation accept(int listener, std::function<void(int)> then) override {
        return begin(std::make_unique<PendingAccept>(listener, std::move(then)));
    }
    Operation receive(int socket, std::function<void(Received)> then) override {
        return begin(std::make_unique<PendingReceive>(socket, std::move(then)));
    }
    Operation send(int socket, std::vector<std::byte> bytes, std::vector<int> descriptors,
                   std::function<void(int)> then) override {
        return begin(std::make_unique<PendingSend>(socket, std::move(bytes), descriptors, std::move(then)));
    }
    Operation when_readable(int descriptor, std::function<void()> then) override {
        return begin(std::make_unique<PendingPoll>(descriptor, std::move(then)));
    }
    Operation after(std::chrono::milliseconds span, std::function<void()> then) override {
        return begin(std::make_unique<PendingTimer>(span, std::move(then)));
    }
    void cancel(Operation operation) override;
    Result<void> run() override;
    void stop() override { stopped_ = true; }

  private:
    Operation begin(std::unique_ptr<Pending> pending);
    io_uring_sqe* entry();
    void submit(Operation number, Pending& pending);
    void completed(Operation number, int result);

    io_uring ring_{};
    bool open_ = false, stopped_ = false;
    Operation last_ = 0;
    std::unordered_map<Operation, std::unique_ptr<Pending>> pending_;
};

Error refused(int result) {
    std::string remedy;
    if (result == -ENOSYS)
        remedy =
            "the kernel was built without it or is older than 5.6, or the container's seccomp profile hides "
            "it";
    else if (result == -ENOMEM)
        remedy = "raise the limit of locked memory (LimitMEMLOCK, ulimit -l)";
    else
        remedy = "allow it in the container's seccomp profile and set kernel.io_uring_disabled to 0";
    return Error{Code::unavailable,
                 std::string("io_uring is not to be had: ") + std::strerror(-result) + "; " + remedy};
}

/// The kernel does everything that this loop asks for.
bool knows_all(io_uring& ring) {
    io_uring_probe* probe = io_uring_get_probe_ring(&ring);
    if (probe == nullptr) return false;
    bool all = true;
    for (const int step : {IORING_OP_ACCEPT, IORING_OP_RECVMSG, IORING_OP_SENDMSG, IORING_OP_POLL_ADD,
                           IORING_OP_TIMEOUT, IORING_OP_ASYNC_CANCEL})
        all = all && io_uring_opcode_supported(probe, step) != 0;
    io_uring_free_probe(probe);
    return all;
}

Result<void> UringLoop::open() {
    int result = io_uring_queue_init(ring_entries, &ring_, 0);
    if (result < 0) return refused(result);
    open_ = true;
    io_uring_ring_dontfork(&ring_);
    if (!knows_all(ring_)) return refused(-ENOSYS);
    // A filter may let a ring be made and forbid to use it.
    io_uring_sqe* nothing = entry();
    io_uring_prep_nop(nothing);
    io_uring_sqe_set_data64(nothing, 0);
    result = io_uring_submit(&ring_);
    return result < 0 ? Result<void>(refused(result)) : Result<void>();
}

UringLoop::~UringLoop() {
    // The kernel cancels what is pending and is done with every buffer when this returns and the descriptor
    // is closed; until then the operations stay.
    if (!open_) return;
    for (auto& [number, pending] : pending_) {
        pending->cancelled = true;
        io_uring_sqe* slot = entry();
        io_uring_prep_cancel64(slot, number, 0);
        io_uring_sqe_set_data64(slot, 0);
    }
    __kernel_timespec patience{1, 0};
    io_uring_cqe* first = nullptr;
    while (!pending_.empty() &&
           io_uring_submit_and_wait_timeout(&ring_, &first, 1, &patience, nullptr) >= 0) {
        completed(io_uring_cqe_get_data64(first), first->res);
        io_uring_cqe_seen(&ring_, first);
    }
    io_uring_queue_exit(&ring_);
}

io_uring_sqe* UringLoop::entry() {
    io_uring_sqe* slot = io_uring_get_sqe(&ring_);
    while (slot == nullptr) {  // the queue is full: the kernel takes all of it with one submission
        io_uring_submit(&ring_);
        slot = io_uring_get_sqe(&ring_);
    }
    return slot;
}

void UringLoop::submit(Operation number, Pending& pending) {
    io_uring_sqe* slot = entry();
    pending.submit(slot);
    io_uring_sqe_set_data64(slot, number);
}

Operation UringLoop::begin(std::unique_ptr<Pending> pending) {
    const Operation number = ++last_;
    submit(number, *pending);
    pending_.emplace(number, std::move(pending));
    return number;
}

void UringLoop::cancel(Operation operation) {
    const auto found = pending_.find(operation);
    if (found == pending_.end() || found->second->cancelled) return;
    found->second->cancelled = true;
    io_uring_sqe* slot = entry();
    io_uring_prep_cancel64(slot, operation, 0);
    io_uring_sqe_set_data64(slot, 0);
    // An entry that waits for its submission names its descriptor by number: the kernel takes it now, before
    // the caller closes that number and something else gets it.
    io_uring_submit(&ring_);
}

void UringLoop::completed(Operation number, int result) {
    const auto found = pending_.find(number);
    if (found == pending_.end()) return;  // the answer to a cancellation
    // Out of the table while its callback runs, which may begin others or cancel this one.
    std::unique_ptr<Pending> pending = std::move(found->second);
    pending_.erase(found);
    if (pending->complete(result)) return;
    submit(number, *pending);
    pending_.emplace(number, std::move(pending));
}

Result<void> UringLoop::run() {
    stopped_ = false;
    while (!stopped_) {
        const int result = io_uring_submit_and_wait(&ring_, 1);
        if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY)
            return Error{Code::unavailable, std::string("io_uring: ") + std::strerror(-result)};
        io_uring_cqe* completions[64];
        unsigned count = 0;
        do {
            count = io_uring_peek_batch_cqe(&ring_, completions, 64);
            for (unsigned i = 0; i < count; ++i) {
                const Operation number = io_uring_cqe_get_data64(completions[i]);
                const int outcome = completions[i]->res;
                io_uring_cqe_seen(&ring_, completions[i]);
                completed(number, outcome);
            }
        } while (count == 64);
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<Loop>> make_uring_loop() {
    auto loop = std::make_unique<UringLoop>();
    if (auto opened = loop->open(); !opened) return opened.error();
    return std::unique_ptr<Loop>(std::move(loop));
}

}  // namespace maru::daemon
