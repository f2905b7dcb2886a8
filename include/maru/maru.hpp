// maru for C++20: move-only owners over maru.h, errors as values. Header-only; link libmaru-client.
//
//     auto client = maru::Client::connect();
//     if (!client) return complain(client.failure().text);
//     auto page = client->alloc(tensor.size_bytes());
//     fill(page->data());
//     client->store("prefix/0", *page, tensor.size_bytes());
//     auto view = client->retrieve("prefix/0");   // no byte is copied; gone with `view`
//     if (view && *view) use((*view)->bytes());
//
// Threads, death and fork are as maru.h says. A View may outlive its Client; a Page must not.
#ifndef MARU_MARU_HPP
#define MARU_MARU_HPP

#include <maru/maru.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace maru {

/// Why a call failed: the status for the program, a sentence for the person.
struct Failure {
    maru_status status = MARU_ERR_INVALID;
    std::string text;
};

/// A value or a Failure. Reading the one that is not there is an error of the caller:
/// std::bad_variant_access.
template <class T>
class [[nodiscard]] Expected {
  public:
    Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Expected(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

    bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    T& value() & { return std::get<0>(state_); }
    const T& value() const& { return std::get<0>(state_); }
    T&& value() && { return std::get<0>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    const Failure& failure() const { return std::get<1>(state_); }

  private:
    std::variant<T, Failure> state_;
};

/// A reserved page, given back when it goes. After Client::store it keeps the published bytes readable.
class Page {
  public:
    Page() = default;
    Page(maru_client* client, const maru_page& page) noexcept : client_(client), page_(page) {}
    Page(Page&& other) noexcept : client_(std::exchange(other.client_, nullptr)), page_(other.page_) {}
    Page& operator=(Page&& other) noexcept {
        std::swap(client_, other.client_);
        std::swap(page_, other.page_);
        return *this;
    }
    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;
    ~Page() { reset(); }

    std::byte* data() const noexcept { return static_cast<std::byte*>(page_.data); }
    std::uint64_t capacity() const noexcept { return page_.capacity; }
    std::span<std::byte> bytes() const noexcept { return {data(), static_cast<std::size_t>(capacity())}; }
    std::uint32_t region() const noexcept { return page_.region; }
    std::uint32_t index() const noexcept { return page_.page; }
    explicit operator bool() const noexcept { return client_ != nullptr; }
    maru_page& get() noexcept { return page_; }

    void reset() noexcept {
        if (client_ != nullptr) (void)maru_free(std::exchange(client_, nullptr), &page_);
    }

  private:
    maru_client* client_ = nullptr;
    maru_page page_{};
};

/// A published object under a lease, which ends when this goes. Any thread may end it.
class View {
  public:
    View() = default;
    View(maru_client* client, const maru_view& view) noexcept : client_(client), view_(view) {}
    View(View&& other) noexcept : client_(std::exchange(other.client_, nullptr)), view_(other.view_) {}
    View& operator=(View&& other) noexcept {
        std::swap(client_, other.client_);
        std::swap(view_, other.view_);
        return *this;
    }
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    ~View() { reset(); }

    const std::byte* data() const noexcept { return static_cast<const std::byte*>(view_.data); }
    std::uint64_t size() const noexcept { return view_.size; }
    std::span<const std::byte> bytes() const noexcept { return {data(), static_cast<std::size_t>(size())}; }
    std::uint32_t region() const noexcept { return view_.region; }
    std::uint32_t page() const noexcept { return view_.page; }
    explicit operator bool() const noexcept { return client_ != nullptr; }
    const maru_view& get() const noexcept { return view_; }

    void reset() noexcept {
        if (client_ != nullptr) (void)maru_release(std::exchange(client_, nullptr), &view_);
    }

  private:
    maru_client* client_ = nullptr;
    maru_view view_{};
};

/// One connection to the daemon of this host; closed when this goes.
class Client {
  public:
    static Expected<Client> connect(const maru_options& options = MARU_OPTIONS_INIT) {
        maru_client* client = nullptr;
        if (const maru_status status = maru_connect(&options, &client); status != MARU_OK)
            return failure_of(status, nullptr);
        return Client(client);
    }
    Client(Client&& other) noexcept : client_(std::exchange(other.client_, nullptr)) {}
    Client& operator=(Client&& other) noexcept {
        std::swap(client_, other.client_);
        return *this;
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client() { (void)maru_close(client_); }

    /// Closes now and says how that went; nothing but views may be used afterwards.
    Expected<std::monostate> close() {
        maru_client* const client = std::exchange(client_, nullptr);
        return done(maru_close(client), client);
    }
    maru_client* get() const noexcept { return client_; }

    // -- storing

    Expected<Page> alloc(std::uint64_t size) {
        maru_page page{};
        if (const maru_status status = maru_alloc(client_, size, &page); status != MARU_OK)
            return failure(status);
        return Page(client_, page);
    }
    /// True when stored; false when another value was there first: the page is still reserved.
    Expected<bool> store(std::string_view key, Page& page, std::uint64_t size) {
        return answer(maru_store(client_, key.data(), key.size(), &page.get(), size), MARU_EXISTS);
    }
    /// The same with a copy. False when another value was there first.
    Expected<bool> put(std::string_view key, std::span<const std::byte> value) {
        return answer(maru_put(client_, key.data(), key.size(), value.data(), value.size()), MARU_EXISTS);
    }
    /// True when it was there. Status MARU_ERR_PINNED when somebody pins it by name.
    Expected<bool> remove(std::string_view key) {
        return answer(maru_remove(client_, key.data(), key.size()), MARU_MISS);
    }

    // -- reading

    /// Nothing when the key is not there.
    Expected<std::optional<View>> retrieve(std::string_view key) {
        maru_view view{};
        const maru_status status = maru_retrieve(client_, key.data(), key.size(), &view);
        if (status == MARU_MISS) return std::optional<View>{};
        if (status != MARU_OK) return failure(status);
        return std::optional<View>(View(client_, view));
    }
    /// Copies the value out; its size, or nothing when the key is not there.
    Expected<std::optional<std::uint64_t>> get(std::string_view key, std::span<std::byte> to) {
        std::uint64_t size = 0;
        const maru_status status = maru_get(client_, key.data(), key.size(), to.data(), to.size(), &size);
        if (status == MARU_MISS) return std::optional<std::uint64_t>{};
        if (status != MARU_OK) return failure(status);
        return std::optional<std::uint64_t>(size);
    }
    Expected<bool> exists(std::string_view key) {
        return answer(maru_exists(client_, key.data(), key.size()), MARU_MISS);
    }
    /// Each key by itself; a failed one (no pin slot left, damage) reads as not there.
    Expected<std::vector<std::optional<View>>> retrieve(std::span<const std::string_view> keys) {
        const auto list = list_of(keys);
        std::vector<maru_view> views(keys.size());
        std::vector<maru_status> statuses(keys.size());
        const maru_status status =
            maru_retrieve_batch(client_, list.data(), views.data(), statuses.data(), keys.size());
        if (status != MARU_OK) return failure(status);
        std::vector<std::optional<View>> found(keys.size());
        for (std::size_t i = 0; i < keys.size(); ++i)
            if (statuses[i] == MARU_OK) found[i].emplace(client_, views[i]);
        return found;
    }
    /// How many leading keys are there.
    Expected<std::size_t> match_prefix(std::span<const std::string_view> keys) {
        const auto list = list_of(keys);
        std::size_t matched = 0;
        const maru_status status = maru_match_prefix(client_, list.data(), keys.size(), nullptr, &matched);
        if (status != MARU_OK) return failure(status);
        return matched;
    }
    /// Views of the leading keys that are there.
    Expected<std::vector<View>> retrieve_prefix(std::span<const std::string_view> keys) {
        const auto list = list_of(keys);
        std::vector<maru_view> views(keys.size());
        std::size_t matched = 0;
        const maru_status status =
            maru_match_prefix(client_, list.data(), keys.size(), views.data(), &matched);
        if (status != MARU_OK) return failure(status);
        std::vector<View> found;
        found.reserve(matched);
        for (std::size_t i = 0; i < matched; ++i)
            found.emplace_back(client_, views[i]);
        return found;
    }

    // -- pins by name

    Expected<bool> pin(std::string_view key) {
        return answer(maru_pin(client_, key.data(), key.size()), MARU_MISS);
    }
    Expected<bool> unpin(std::string_view key) {
        return answer(maru_unpin(client_, key.data(), key.size()), MARU_MISS);
    }

    // -- description

    Expected<std::monostate> ping() { return done(maru_ping(client_), client_); }
    Expected<maru_statistics> stats() {
        maru_statistics statistics{};
        statistics.size = sizeof statistics;
        if (const maru_status status = maru_stats(client_, &statistics); status != MARU_OK)
            return failure(status);
        return statistics;
    }
    /// Readable when the daemon went or came back; belongs to the client.
    int event_fd() const noexcept { return maru_event_fd(client_); }
    std::string_view instance_id() const noexcept { return maru_instance_id(client_); }
    std::uint64_t page_size() const noexcept { return maru_page_size(client_); }

  private:
    explicit Client(maru_client* client) noexcept : client_(client) {}

    static Failure failure_of(maru_status status, maru_client* client) {
        const char* const detail = maru_detail(client);
        return {status, detail[0] != 0 ? detail : maru_strerror(status)};
    }
    Failure failure(maru_status status) const { return failure_of(status, client_); }
    static Expected<std::monostate> done(maru_status status, maru_client* client) {
        if (status != MARU_OK) return failure_of(status, client);
        return std::monostate{};
    }
    Expected<bool> answer(maru_status status, maru_status no) const {
        if (status == MARU_OK) return true;
        if (status == no) return false;
        return failure(status);
    }
    static std::vector<maru_key> list_of(std::span<const std::string_view> keys) {
        std::vector<maru_key> list;
        list.reserve(keys.size());
        for (const auto& key : keys)
            list.push_back({key.data(), key.size()});
        return list;
    }

    maru_client* client_ = nullptr;
};

}  // namespace maru

#endif
