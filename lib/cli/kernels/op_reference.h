// Expected outputs of an operation: its float64 reference (kernels/*/*_reference.cpp) on the tensors before the call.
#pragma once

#include <map>
#include <string>

#include "kernels/core/reference.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

using reference::Expectation;
using reference::Expected;

using TensorBytes = std::map<std::string, std::string>;  // by tensor

// Returns all tensors of the operation. Call this before it runs: outputs may overwrite inputs.
TensorBytes bytes_of(const OpInstance& instance);

// Throws Failure (kNothingFound) if the operation has no reference.
Expected expected_outputs(const OpInstance& instance, const TensorBytes& before);

}  // namespace ligerdsl::cli
