// Writes the results of a run as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "check.h"
#include "options.h"

namespace train {

nlohmann::json to_json(const std::vector<Comparison>& comparisons);
// Writes `results` and the library's build information to the file of --json, if it is given.
void write_json(const Settings& settings, nlohmann::json results);

}  // namespace train
