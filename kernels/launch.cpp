#include "kernels/launch.h"

namespace ligerdsl::kernels {
namespace {

using program::Op;
using program::OpCode;

bool writes(OpCode code) {
  return code == OpCode::store_tile || code == OpCode::store || code == OpCode::atomic_rmw;
}

// The result points into the same argument as the first operand.
bool keeps_origin(OpCode code) {
  return code == OpCode::view_ptr || code == OpCode::addptr || code == OpCode::splat || code == OpCode::broadcast ||
         code == OpCode::reshape || code == OpCode::permute || code == OpCode::expand_dims;
}

void collect(const program::Region& region, std::vector<int>& argument_of, std::vector<bool>& written) {
  for (const Op& op : region.ops) {
    const int origin = op.operands.empty() ? -1 : argument_of[op.operands[0]];
    if (keeps_origin(op.code) && !op.results.empty()) argument_of[op.results[0]] = origin;
    if (writes(op.code) && origin >= 0) written[origin] = true;
    for (const program::Region& inner : op.regions) collect(inner, argument_of, written);
  }
}

}  // namespace

std::vector<bool> written_arguments(const program::Program& program) {
  std::vector<int> argument_of(program.values.size(), -1);  // what a pointer or view value points into
  for (size_t i = 0; i < program.arguments.size(); ++i) argument_of[program.arguments[i].value] = static_cast<int>(i);
  std::vector<bool> written(program.arguments.size(), false);
  collect(program.body, argument_of, written);
  return written;
}

}  // namespace ligerdsl::kernels
