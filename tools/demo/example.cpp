// The smallest engine in C++: stores a chunk, finds it again, reads it in place.
#include <algorithm>
#include <iostream>
#include <maru/maru.hpp>

int failed(const char* what, const maru::Failure& failure) {
    std::cerr << what << ": " << failure.text << '\n';
    return 1;
}

int main() {
    maru_options options = MARU_OPTIONS_INIT;
    options.instance_id = "example";
    options.page_size = 1 << 20;  // the largest chunk this client will store
    auto client = maru::Client::connect(options);
    if (!client) return failed("connect", client.failure());

    // Store: reserve a page, write into it (or let the GPU do it), publish it under a key.
    auto page = client->alloc(4096);
    if (!page) return failed("alloc", page.failure());
    std::ranges::fill(page->bytes(), std::byte{42});
    auto stored = client->store("model@layer0@chunk7", *page, page->capacity());
    if (!stored) return failed("store", stored.failure());
    page->reset();  // *stored is false: somebody stored it before, and the page goes back

    // Read: any process of the domain gets a view of the same page; its lease ends with the view.
    auto view = client->retrieve("model@layer0@chunk7");
    if (!view) return failed("retrieve", view.failure());
    if (!view->has_value()) return failed("retrieve", {MARU_MISS, "evicted in between"});
    std::cout << (*view)->size() << " bytes in region " << (*view)->region() << ", page " << (*view)->page()
              << "; the first is " << std::to_integer<int>((*view)->bytes()[0]) << '\n';
}
