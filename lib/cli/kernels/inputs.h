// --in name=FILE.npy.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/instance/npy.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

// By name. Throws Failure (kUsage) for what is not name=FILE, is given twice or cannot be read.
std::map<std::string, Array> read_inputs(const std::vector<std::string>& specs);

// An operation's plan and then its memory, so that what cannot be is refused before gigabytes are filled: sizes follow
// the arrays, and what no array brings is generated. Throws Failure (kUsage).
std::unique_ptr<lib::Plan> plan_with_inputs(OpInstance& instance, const lib::ContextRef& context,
                                            const std::map<std::string, Array>& inputs);

}  // namespace ligerdsl::cli
