#include "client/settings.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/size.hpp"
#include "base/uuid.hpp"

namespace maru::client {
namespace {

constexpr std::uint64_t default_pool_bytes = 100 * MiB, default_page_bytes = MiB, page_unit = 4 * KiB;
constexpr std::uint64_t bytes_max = std::uint64_t{1} << 56;
constexpr std::size_t instance_id_max = 127;
constexpr std::uint32_t timeout_max_ms = 3600'000;

Result<void> check_size(const char* field, std::uint64_t bytes) {
    if (bytes <= bytes_max) return {};
    return Error{Code::invalid, std::string("options.") + field + " is " + std::to_string(bytes) +
                                    ", at most " + std::to_string(bytes_max) + " is possible"};
}

}  // namespace

Result<Settings> read_options(const maru_options* options) {
    maru_options given = MARU_OPTIONS_INIT;
    if (options != nullptr) {
        if (options->size < offsetof(maru_options, instance_id))
            return Error{Code::invalid, "options.size is " + std::to_string(options->size) +
                                            ": set it with MARU_OPTIONS_INIT"};
        std::memcpy(&given, options, std::min(options->size, sizeof given));
    }
    for (const auto& [field, bytes] :
         {std::pair{"pool_size", given.pool_size}, std::pair{"page_size", given.page_size},
          std::pair{"expand_size", given.expand_size}})
        if (auto fits = check_size(field, bytes); !fits) return fits.error();
    Settings settings;
    if (given.server != nullptr) settings.server = given.server;
    settings.instance_id = given.instance_id != nullptr && given.instance_id[0] != 0
                               ? std::string(given.instance_id)
                               : Uuid::random().text();
    if (settings.instance_id.size() > instance_id_max)
        return Error{Code::invalid, "options.instance_id has " + std::to_string(settings.instance_id.size()) +
                                        " bytes, at most " + std::to_string(instance_id_max) +
                                        " are possible"};
    if (given.name_space != nullptr) settings.name_space = given.name_space;
    settings.pool_bytes = given.pool_size != 0 ? given.pool_size : default_pool_bytes;
    settings.page_bytes = round_up(given.page_size != 0 ? given.page_size : default_page_bytes, page_unit);
    settings.page_bytes_given = given.page_size != 0;
    settings.expand_bytes = given.expand_size != 0 ? given.expand_size : settings.pool_bytes;
    settings.expand = given.no_expand == 0;
    settings.claim = given.no_claim == 0;
    settings.prefault = given.no_prefault == 0;
    if (given.timeout_ms != 0)
        settings.timeout = std::chrono::milliseconds(std::min(given.timeout_ms, timeout_max_ms));
    return settings;
}

}  // namespace maru::client
