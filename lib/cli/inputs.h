// --in name=FILE.npy.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/cli/npy.h"
#include "lib/cli/op_instance.h"

namespace ligerdsl::cli {

// By name. Throws Failure (kUsage) for what is not name=FILE, is given twice or cannot be read.
std::map<std::string, Array> read_inputs(const std::vector<std::string>& specs);

// Gives an operation memory: sizes follow the arrays, and what no array brings is generated. Throws Failure (kUsage).
void allocate(OpInstance& instance, const lib::ContextRef& context, const std::map<std::string, Array>& inputs);

}  // namespace ligerdsl::cli
