// Results as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "check.h"
#include "options.h"

namespace train {

nlohmann::json to_json(const std::vector<Comparison>& comparisons);
// To --json, if it was given, with what the library was built from.
void write_json(const Settings& settings, nlohmann::json results);

}  // namespace train
