// Runs an operation's float64 reference (kernels/<family>/X_reference.cpp) on a test's values.
#pragma once

#include <map>
#include <set>
#include <string>

#include "kernels/core/reference_values.h"

namespace ligerdsl::test {

// Returns the expected outputs by name.
// - `numbers`: sizes by letter, and fields and scalar arguments by name. All sizes are needed;
//   missing fields and arguments have the reference's defaults.
// - `tensors`: inputs by name; an empty optional tensor counts as not passed.
// - `wanted`: names of the optional outputs to compute.
std::map<std::string, reference::Values> expected_of(
    const std::string& operation, std::map<std::string, double> numbers,
    std::map<std::string, reference::Values> tensors, std::set<std::string> wanted = {});

}  // namespace ligerdsl::test
