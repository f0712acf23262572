// Reads --in name=FILE.npy.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/instance/npy.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

// Returns the arrays by name. Throws Failure (kUsage) for text that is not name=FILE, a duplicate
// name, or an unreadable file.
std::map<std::string, Array> read_inputs(const std::vector<std::string>& specs);

// Makes the plan of an operation, then allocates its tensors, so that an invalid call fails before
// gigabytes are filled. Sizes come from the arrays; tensors without an array are generated. Throws
// Failure (kUsage).
std::unique_ptr<lib::Plan> plan_with_inputs(OpInstance& instance, const lib::ContextRef& context,
                                            const std::map<std::string, Array>& inputs);

}  // namespace ligerdsl::cli
