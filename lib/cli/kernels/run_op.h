// One call of an operation, shared by `run` and `check`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/cli/kernels/check.h"
#include "lib/instance/npy.h"

namespace ligerdsl::cli {

struct RunOutput {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  std::string bytes;
  Difference difference;  // largest difference of a checked call
  interpreter::AccessLog::Extent
      unwritten;  // unwritten elements of a checked kernel loaded with --load
};

// Runs an operation once and returns its outputs. If `check`, compares them with the operation's
// float64 reference.
std::vector<RunOutput> run_op(const lib::ContextRef& context, const std::string& operation,
                              const std::vector<std::string>& settings,
                              const std::map<std::string, Array>& inputs, bool check);

// Returns the error text of a checked output, or "" if the output is correct.
std::string fault_of(const RunOutput& output);

}  // namespace ligerdsl::cli
