#include "session.hpp"

#include "errors.hpp"

namespace maru::python {

// -- pages

void Page::drop_handle() {
    --handles;
    settle();
}

void Page::drop_buffer() {
    --buffers;
    settle();
}

void Page::free() {
    state = State::freed;
    settle();
}

void Page::settle() {
    if (buffers != 0) return;
    if (state == State::freed || (handles == 0 && (state == State::published || state == State::duplicate)))
        give_back();
    if (state == State::gone && handles == 0) delete this;
}

void Page::give_back() {
    session->forget(*this);
    state = State::gone;
    maru_page last = page;
    Session* const of = session;
    of->end(&last);
    of->drop();
}

// -- sessions

Session* Session::open(const maru_options& options) {
    maru_client* client = nullptr;
    maru_status status;
    {
        const WithoutGil without;
        status = maru_connect(&options, &client);
    }
    if (status != MARU_OK) {
        raise(status);
        return nullptr;
    }
    auto* const session = new Session;
    session->client_ = client;
    session->page_size_ = maru_page_size(client);
    return session;
}

void Session::drop() {
    if (--references_ == 0) delete this;
}

Page* Session::add(const maru_page& page) {
    auto* const added = new Page{this, page};
    Page*& place_of = pages_[place(page.region, page.page)];
    place_of = added;
    hold();
    return added;
}

Page* Session::find(std::uint64_t region, std::uint64_t index) const {
    if (region >> 32 != 0 || index >> 32 != 0) return nullptr;
    const auto found = pages_.find(place(region, index));
    return found == pages_.end() ? nullptr : found->second;
}

void Session::forget(const Page& page) {
    const auto found = pages_.find(place(page.page.region, page.page.page));
    if (found != pages_.end() && found->second == &page) pages_.erase(found);
}

void Session::learn(std::uint32_t region) {
    if (region >= known_.size()) known_.resize(region + 1);
    known_[region] = true;
}

void Session::end(maru_view* view) {
    // With the last view of a closed client everything goes, which may ask the daemon.
    const WithoutGil without(closed_);
    (void)maru_release(client_, view);
}

void Session::end(maru_page* page) {
    const WithoutGil without(closed_);
    (void)maru_free(client_, page);
}

void Session::let_go() {
    const WithoutGil without(closed_);
    (void)maru_let_go(client_);
}

maru_status Session::close() {
    if (closed_) return MARU_OK;
    closed_ = true;  // from here on no page gets a first buffer
    std::vector<maru_page> kept;
    std::vector<Page*> others;
    for (const auto& [where, page] : pages_) {
        if (page->buffers != 0) {
            page->state = Page::State::freed;
            kept.push_back(page->page);
        } else {
            others.push_back(page);
        }
    }
    for (Page* const page : others) {  // the library takes them back by itself
        forget(*page);
        page->state = Page::State::gone;
        drop();  // the caller holds a reference
        if (page->handles == 0) delete page;
    }
    const WithoutGil without;
    return maru_close_keeping(client_, kept.data(), kept.size());
}

}  // namespace maru::python
