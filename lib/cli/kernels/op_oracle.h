// What the outputs of an operation should be: its formula in float64 (kernels/oracle), on what its tensors held before
// the call.
#pragma once

#include <map>
#include <string>

#include "kernels/oracle/values.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

using TensorBytes = std::map<std::string, std::string>;  // by tensor

// Every tensor of the operation; to be taken before it runs, for outputs may overwrite inputs.
TensorBytes bytes_of(const OpInstance& instance);

struct Expectation {
  oracle::Values values;
  // Of a sum over rows: errors are measured against the norm of all elements, by the rounding of what is summed.
  bool over_rows = false;
  DType rounding = DType::f32;
  // Errors over rows are measured against this norm if it is larger: that of the absolute terms, where they cancel.
  double norm = 0;
};

// By output.
std::map<std::string, Expectation> formula(const OpInstance& instance, const TensorBytes& before);

}  // namespace ligerdsl::cli
