// An operation's expected outputs, from its float64 reference (kernels/*/*_reference.cpp) and the
// tensors before the call.
#pragma once

#include <map>
#include <string>

#include "kernels/core/reference.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

using reference::Expectation;
using reference::Expected;

using TensorBytes = std::map<std::string, std::string>;  // key: tensor

// Returns all tensors of the operation. Call this before the operation runs, because outputs may
// overwrite inputs.
TensorBytes bytes_of(const OpInstance& instance);

// Throws Failure (kNothingFound) if the operation has no reference.
Expected expected_outputs(const OpInstance& instance, const TensorBytes& before);

}  // namespace ligerdsl::cli
