#include "domain_fixture.hpp"

#include <cstdio>
#include <exception>

namespace maru::table {

namespace {

const char* kind_name(PinKind kind) {
    switch (kind) {
        case PinKind::none:
            return "none";
        case PinKind::lease:
            return "lease";
        case PinKind::key:
            return "key";
        case PinKind::own:
            return "own";
    }
    return "?";
}

template <class... Parts>
void line(std::string* text, const char* format, Parts... parts) {
    char buffer[256];
    std::snprintf(buffer, sizeof buffer, format, parts...);
    *text += buffer;
    *text += '\n';
}

FormatPlan plan_of(const Shape& shape) {
    FormatPlan plan;
    plan.domain = Uuid::random();
    plan.region_unit = shape.region_unit;
    plan.records = shape.records;
    plan.pins = shape.pins;
    plan.clients = shape.clients;
    plan.checksum = shape.checksum;
    PoolPlan pool;
    pool.uuid = Uuid::random();
    pool.name = "test";
    pool.bytes = shape.pool_bytes;
    plan.pools.push_back(pool);
    return plan;
}

/// Prints the control region of the test that fails, once for each test case.
struct PrintOnFailure : doctest::IReporter {
    explicit PrintOnFailure(const doctest::ContextOptions&) {}
    void report_query(const doctest::QueryData&) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats&) override {}
    void test_case_start(const doctest::TestCaseData&) override { printed_ = false; }
    void test_case_reenter(const doctest::TestCaseData&) override {}
    void test_case_end(const doctest::CurrentTestCaseStats&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData& assertion) override {
        if (!assertion.m_failed || printed_ || Domain::current() == nullptr) return;
        printed_ = true;
        std::fprintf(stderr, "%s", Domain::current()->describe().c_str());
    }
    void log_message(const doctest::MessageData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}

  private:
    bool printed_ = false;
};
REGISTER_LISTENER("control_region", 1, PrintOnFailure);

}  // namespace

// -- Client

Client::Client(Domain& of, Identity as) : domain(of), identity(as), worker(of.control(), as) {}

Key Client::key(std::string_view bytes) const {
    return domain.control().key(0, bytes);
}

Page Client::alloc() {
    Page page;
    REQUIRE(worker.alloc_from(regions, {page_of_256k, 0}, &page) == Code::ok);
    return page;
}

Code Client::alloc_any(PageClass wanted, Page* page) {
    Code code = worker.alloc_from(regions, wanted, page);
    if (code == Code::full) code = worker.alloc_anywhere(wanted, page);
    if (code == Code::full) code = worker.evict_to_reuse(wanted, page);
    return code;
}

void Client::announce_own(std::uint32_t record) {
    PinSlot slot;
    REQUIRE(worker.pins().take(&slot));
    worker.pins().announce_own(slot, record, domain.state(record).generation);
}

Code Client::put(std::string_view name, std::string_view value) {
    Page page;
    const Code found = worker.alloc_from(regions, {page_of_256k, 0}, &page);
    if (found != Code::ok) return found;
    std::memcpy(domain.bytes_of(page.location), value.data(), value.size());
    const Code code = worker.publish(key(name), page, value.size());
    CHECK(worker.free(page) == Code::ok);
    return code;
}

Page Client::put_and_hold(std::string_view name, std::string_view value) {
    Page page = alloc();
    std::memcpy(domain.bytes_of(page.location), value.data(), value.size());
    REQUIRE(worker.publish(key(name), page, value.size()) == Code::ok);
    return page;
}

std::optional<std::string> Client::get(std::string_view name) {
    View view;
    if (worker.retrieve(key(name), &view) != Code::ok) return std::nullopt;
    std::string value = domain.text_of(view);
    CHECK(worker.release(view.token) == Code::ok);
    return value;
}

View Client::hold(std::string_view name) {
    View view;
    REQUIRE(worker.retrieve(key(name), &view) == Code::ok);
    return view;
}

// -- Domain

Domain::Domain(Shape shape) {
    const FormatPlan plan = plan_of(shape);
    const auto sizes = plan_control(plan);
    REQUIRE_MESSAGE(bool(sizes), (sizes ? "" : sizes.error().text));
    control_memory_ = std::make_unique<AlignedMemory>(sizes->control_bytes);
    auto formatted = Control::format(control_memory_->bytes(), plan);
    REQUIRE_MESSAGE(bool(formatted), (formatted ? "" : formatted.error().text));
    control_.emplace(std::move(*formatted));
    payload_begin_ = control_->pool(0).data_offset.load(shm::relaxed);
    payload_ = std::make_unique<AlignedMemory>(shape.pool_bytes - payload_begin_);

    ClientFacts facts;
    facts.is_daemon = true;
    facts.instance_id = "daemon";
    const auto identity = open_client(*control_, facts);
    REQUIRE(bool(identity));
    REQUIRE(activate_client(*control_, *identity));
    daemon_ = std::make_unique<Client>(*this, *identity);
    outer_ = current_;
    current_ = this;
}

Domain::~Domain() {
    if (!damaged_ && std::uncaught_exceptions() == 0) {
        const CheckReport report = look(*control_);
        CHECK_MESSAGE(report.findings_total == 0, table::describe(report));
    }
    current_ = outer_;
}

Client& Domain::reader() {
    ClientFacts facts;
    facts.pid = static_cast<std::uint32_t>(1000 + clients_.size());
    facts.instance_id = "client-" + std::to_string(clients_.size());
    const auto identity = open_client(*control_, facts);
    REQUIRE_MESSAGE(bool(identity), (identity ? "" : identity.error().text));
    REQUIRE(activate_client(*control_, *identity));
    clients_.push_back(std::make_unique<Client>(*this, *identity));
    return *clients_.back();
}

Client& Domain::client(std::uint32_t page_4k) {
    Client& made = reader();
    claim(made, page_4k);
    return made;
}

Client& Domain::thread_of(const Client& client) {
    const std::vector<std::uint32_t> regions = client.regions;
    clients_.push_back(std::make_unique<Client>(*this, client.identity));
    clients_.back()->regions = regions;
    return *clients_.back();
}

RegionView Domain::claim(Client& client, std::uint32_t page_4k) {
    std::string warning;
    const auto region =
        claim_region(daemon(), {page_4k, 0}, client.identity.holder_word(), /*may_evict=*/false, &warning);
    REQUIRE_MESSAGE(bool(region), (region ? "" : region.error().text));
    client.regions.push_back(region->number);
    return *region;
}

std::byte* Domain::find_bytes(const PageLocation& location) const {
    std::uint32_t pool = 0;
    std::uint64_t offset = 0;
    if (!control_->place(location, &pool, &offset) || pool != 0 || offset < payload_begin_) return nullptr;
    const std::uint64_t inside = offset - payload_begin_, room = payload_->bytes().size();
    if (inside > room || location.page_bytes() > room - inside) return nullptr;
    return payload_->bytes().data() + inside;
}

std::byte* Domain::bytes_of(const PageLocation& location) const {
    std::byte* bytes = find_bytes(location);
    REQUIRE(bytes != nullptr);
    return bytes;
}

std::string Domain::text_of(const View& view) const {
    REQUIRE(view.length <= view.location.page_bytes());
    return {reinterpret_cast<const char*>(bytes_of(view.location)), view.length};
}

void Domain::set_phase(std::uint32_t record, Phase phase, Owner owner) {
    State state = this->state(record);
    state.phase = phase;
    state.owner = owner;
    if (phase == Phase::retiring_evict || phase == Phase::retiring_delete) ++state.attempt;
    control_->record(record).state.store(state.pack(), shm::seq_cst);
}

std::vector<Word64*> Domain::slots_of(std::uint32_t record) const {
    std::vector<Word64*> found;
    const std::uint64_t buckets = std::uint64_t{control_->bucket_count()} + control_->overflow_count();
    for (std::uint64_t b = 0; b < buckets; ++b)
        for (Word64& word : control_->bucket(b).slots)
            if (const auto bits = word.load(shm::relaxed); bits != 0 && slot::record(bits) == record)
                found.push_back(&word);
    return found;
}

std::uint64_t Domain::pages_in(Phase phase) const {
    std::uint64_t pages = 0;
    for (std::uint32_t r = 1; r < control_->record_count(); ++r)
        if (this->phase(r) == phase && control_->record(r).page_4k.load(shm::relaxed) != 0) ++pages;
    return pages;
}

std::vector<std::uint64_t> Domain::pins_of(const Identity& identity) const {
    std::vector<std::uint64_t> words;
    for (std::uint32_t c = 0; c < control_->chunk_count(); ++c) {
        if (control_->chunk(c).owner.load(shm::relaxed) != identity.holder_word()) continue;
        for (const Word64& word : control_->chunk(c).pins)
            if (const auto bits = word.load(shm::relaxed)) words.push_back(bits);
    }
    return words;
}

SweepReport Domain::bury(const Client& client) {
    REQUIRE(declare_dead(*control_, client.identity));
    return sweep_dead(daemon(), client.identity);
}

std::string Domain::describe() const {
    const Control& c = *control_;
    std::string text = "--- control region ---\n";
    line(&text, "epoch %llu bound %llu high water %llu",
         static_cast<unsigned long long>(c.super().epoch.load(shm::relaxed)),
         static_cast<unsigned long long>(c.super().bound.load(shm::relaxed)),
         static_cast<unsigned long long>(c.super().pin_high_water.load(shm::relaxed)));
    for (std::uint32_t s = 1; s < c.client_count(); ++s)
        if (const auto word = c.client(s).state.load(shm::relaxed);
            client_state::phase(word) != ClientPhase::free)
            line(&text, "client %u: %s generation %u", s, name_of(client_state::phase(word)),
                 client_state::generation(word));
    for (std::uint32_t r = 0; r < c.region_count(); ++r) {
        const RegionState state = RegionState::unpack(c.region(r).state.load(shm::relaxed));
        if (state.phase == RegionPhase::free || state.phase == RegionPhase::part) continue;
        line(&text,
             "region %u: %s epoch %u, %u units, %u pages of %u x 4 KiB, records from %u, holder slot %u", r,
             name_of(state.phase), state.epoch, c.region(r).unit_count.load(shm::relaxed),
             c.region(r).page_count.load(shm::relaxed), c.region(r).page_4k.load(shm::relaxed),
             c.region(r).first_record.load(shm::relaxed),
             holder::slot(c.region(r).holder.load(shm::relaxed)));
    }
    int shown = 0;
    for (std::uint32_t r = 1; r < c.record_count() && shown < 40; ++r) {
        const State state = this->state(r);
        if (state.phase == Phase::sealed || state.phase == Phase::free) continue;
        ++shown;
        line(&text, "record %u: %s generation %u attempt %u owner %u/%u, key of %u bytes, %u slots", r,
             name_of(state.phase), state.generation, unsigned{state.attempt}, unsigned{state.owner.slot},
             unsigned{state.owner.generation}, unsigned{c.record(r).key_length.load(shm::relaxed)},
             static_cast<unsigned>(slots_of(r).size()));
    }
    for (std::uint32_t k = 0; k < c.chunk_count(); ++k) {
        const PinChunk& chunk = c.chunk(k);
        if (chunk.owner.load(shm::relaxed) == 0) continue;
        line(&text, "chunk %u: client %u/%u epoch %llu oldest %llu summary %llx", k,
             holder::slot(chunk.owner.load(shm::relaxed)), holder::generation(chunk.owner.load(shm::relaxed)),
             static_cast<unsigned long long>(chunk.epoch.load(shm::relaxed)),
             static_cast<unsigned long long>(chunk.oldest.load(shm::relaxed)),
             static_cast<unsigned long long>(chunk.summary.load(shm::relaxed)));
        for (std::uint32_t i = 0; i < pins_per_chunk && shown < 80; ++i)
            if (const auto word = chunk.pins[i].load(shm::relaxed)) {
                ++shown;
                line(&text, "  pin %u: %s of record %u generation %llu sequence %llu", i,
                     kind_name(pin::kind(word)), pin::record(word),
                     static_cast<unsigned long long>(pin::Generation::get(word)),
                     static_cast<unsigned long long>(pin::Sequence::get(word)));
            }
    }
    return text + "----------------------\n";
}

std::string describe(const CheckReport& report) {
    std::string text = std::to_string(report.findings_total) + " findings";
    for (const Finding& finding : report.findings)
        text += "\n  " + finding.what + " at " + finding.where;
    return text;
}

std::vector<std::string> keys_of_bucket(const Control& control, std::uint64_t bucket, std::size_t count) {
    std::vector<std::string> keys;
    for (std::uint64_t n = 0; keys.size() < count; ++n) {
        std::string key = "key-" + std::to_string(n);
        if (control.home_of(control.key(0, key).low) == bucket) keys.push_back(std::move(key));
    }
    return keys;
}

}  // namespace maru::table
