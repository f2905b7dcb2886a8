// The JSON of requests and answers: fields in the order in which they were put in.
#pragma once

#include <nlohmann/json.hpp>

namespace maru::daemon {

using Json = nlohmann::ordered_json;

}  // namespace maru::daemon
