// The config file, --pool arguments, sizes and durations. The first letter chooses; the rest is the text.
#include "base/size.hpp"
#include "daemon/config_check.hpp"
#include "target.hpp"

using namespace maru;
using namespace maru::daemon;
using fuzz::require;

namespace {

void file(const std::string& text) {
    const auto config = parse_config(text, "fuzz.toml");
    if (!config) {
        require(config.error().text.compare(0, 10, "fuzz.toml:") == 0 || config.error().code != Code::damaged,
                "an error of the config does not name its file");
        require(!config.error().text.empty(), "an error of the config says nothing");
        return;
    }
    require(config->pools.size() <= table::max_pools, "more pools than a domain can have");
    const auto effective = explain_config(*config, {});
    if (!effective) return;
    const auto again = parse_config(*effective, "effective.toml");
    require(bool(again),
            again ? "" : "effective values do not read back: " + again.error().text + "\n" + *effective);
    require(again->pools.size() == config->pools.size(), "effective values have other pools");
    for (std::size_t p = 0; p < config->pools.size(); ++p)
        require(
            again->pools[p].name == config->pools[p].name && again->pools[p].size == config->pools[p].size,
            "an effective pool reads back as another one");
    const auto third = explain_config(*again, {});
    require(bool(third), "effective values are not accepted as a config");
}

void pool_argument(const std::string& text) {
    const auto source = parse_pool_argument(text, 0);
    if (!source)
        return require(source.error().text.find("--pool ") == 0, "an error of --pool does not name it");
    require(bool(pool::check_name(source->config.name)), "--pool let a name through that no pool may have");
    require(source->config.kind == pool::Kind::devdax || source->config.size >= 4 * KiB,
            "--pool let a size below 4 KiB through");
    Config config;
    require(bool(add_pools(config, {*source})), "a pool of --pool was not taken");
    (void)explain_config(config, {});
}

void quantities(const std::string& text) {
    if (const auto bytes = parse_size(text)) {
        require(*bytes <= INT64_MAX, "a size no file can have");
        require(parse_size(std::to_string(*bytes)).value() == *bytes,
                "a number of bytes reads back as another");
        require(!format_size(*bytes).empty(), "a size without a text");
    }
    if (const auto span = parse_duration(text)) require(span->count() >= 0, "a duration below zero");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const char kind = static_cast<char>(input.byte());
    const std::string text = input.rest();
    switch (kind) {
        case 'p':
            pool_argument(text);
            break;
        case 'q':
            quantities(text);
            break;
        default:
            file(text);
    }
    return 0;
}
