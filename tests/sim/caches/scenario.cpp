#include "scenario.hpp"

#include "hosts.hpp"

namespace maru::caches {

const std::vector<Scenario>& scenarios() {
    static const std::vector<Scenario> all{
        {"handover",
         false,
         false,
         false,
         false,
         2000,
         {"published", "removed", "abandoned", "handed over", "read", "read too late"}},
        {"clean_writes",
         true,
         true,
         false,
         false,
         2000,
         {"published", "removed", "handed over", "read", "clean line written back", "process killed",
          "pin of a dead process released"}},
        {"deaths",
         false,
         true,
         true,
         false,
         2000,
         {"published", "handed over", "read", "process killed", "page of a dead process given back",
          "host stopped", "host fenced"}},
        {"header", false, false, false, true, 2000, {"block read", "block torn", "beat read"}},
    };
    return all;
}

std::string run_seed(const Scenario& scenario, std::uint64_t seed) {
    if (scenario.header) {
        set_up_header(seed);
        hosts().run([] {});
    } else {
        set_up_payload(scenario, seed);
        hosts().run(payload_faults);
        if (hosts().violation().empty()) payload_end();
    }
    return hosts().violation();
}

}  // namespace maru::caches
