#include "mutants.hpp"

namespace maru::caches {

#define CODE(name, ...)                              \
    {                                                \
#name, shm::FlushMutant::name, Duty::none, { \
            __VA_ARGS__                              \
        }                                            \
    }
#define DUTY(name, ...)                              \
    {                                                \
#name, shm::FlushMutant::none, Duty::name, { \
            __VA_ARGS__                              \
        }                                            \
    }

const std::vector<MutantPlan>& mutant_plans() {
    static const std::vector<MutantPlan> plans{
        CODE(start_not_rounded, "header"),
        CODE(end_not_rounded, "header", "handover"),
        CODE(write_back_without_fence, "header", "handover"),
        CODE(give_up_without_write_back, "handover"),
        CODE(give_up_without_invalidate, "clean_writes"),
        CODE(give_up_without_fence, "handover"),
        CODE(read_without_invalidate, "header", "handover"),
        CODE(read_without_fence, "header", "handover"),
        CODE(read_store_fence, "header", "handover"),
        CODE(store_without_write_back, "header"),
        CODE(publish_without_write_back, "handover"),
        CODE(publish_without_fence, "handover"),
        CODE(publish_rest_left, "handover"),
        CODE(publish_first, "handover"),
        CODE(give_back_first, "handover"),
        CODE(validate_first, "handover"),
        CODE(validate_without_load_fence, "handover"),
        CODE(not_validated, "handover"),
        DUTY(dead_process_not_flushed, "deaths"),
        DUTY(dead_host_not_fenced, "deaths"),
        DUTY(object_only_given_up, "handover"),
        DUTY(reader_leaves_lines, "clean_writes"),
        DUTY(headers_share_a_line, "header"),
    };
    return plans;
}

}  // namespace maru::caches
