// Runs an operation's float64 reference (kernels/<family>/X_reference.cpp) on a test's values.
#pragma once

#include <map>
#include <set>
#include <string>

#include "kernels/core/reference_values.h"

namespace ligerdsl::test {

// Returns the expected outputs by name.
// - `numbers` has sizes by letter, and fields and numbers of the call by name; others are 0.
// - `tensors` has the inputs. An optional one that is empty is not passed.
// - `wanted` has the outputs that the reference makes only if they are passed.
std::map<std::string, reference::Values> expected_of(
    const std::string& operation, std::map<std::string, double> numbers,
    std::map<std::string, reference::Values> tensors, std::set<std::string> wanted = {});

}  // namespace ligerdsl::test
