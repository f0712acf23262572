#include "kernels/launch.h"

#include <stdexcept>

#include "program/op_info.h"

namespace ligerdsl::kernels {
namespace {

using program::Op;
using program::OpCode;

struct Writes {
  std::vector<int> argument_of;  // per value: what a pointer or view points into, or -1
  std::vector<bool> exposed;     // arguments whose address the program holds as a pointer
  std::vector<bool> written;
  bool anywhere = false;  // a store through a pointer that comes out of control flow

  void collect(const program::Region& region) {
    for (const Op& op : region.ops) {
      const int origin = op.operands.empty() ? -1 : argument_of[op.operands[0]];
      if (op.code == OpCode::view_ptr && origin >= 0) exposed[origin] = true;
      const program::Effect effect = program::info(op.code).effect;
      if (effect == program::Effect::address && !op.results.empty()) argument_of[op.results[0]] = origin;
      if (program::writes(effect)) {
        if (origin >= 0)
          written[origin] = true;
        else
          anywhere = true;
      }
      for (const program::Region& inner : op.regions) collect(inner);
    }
  }
};

}  // namespace

Machine gpu(const std::string& arch, int sms, int ptx_version) {
  const program::GpuArch* found = program::find_gpu_arch(arch);
  if (!found) throw std::invalid_argument("no GPU architecture '" + arch + "'; there are " + program::gpu_arch_names());
  return {.arch = found,
          .sms = sms > 0 ? sms : found->usual_sms,
          .max_cluster = ptx_version >= found->cluster_ptx ? found->max_cluster : 1};
}

Launch library_launch(Size programs, int num_warps) {
  return {.grid = {std::move(programs)}, .num_warps = num_warps, .num_stages = 1};
}

std::vector<bool> written_arguments(const program::Program& program) {
  const size_t n = program.arguments.size();
  Writes found{.argument_of = std::vector<int>(program.values.size(), -1),
               .exposed = std::vector<bool>(n, false),
               .written = std::vector<bool>(n, false)};
  for (size_t i = 0; i < n; ++i) {
    found.argument_of[program.arguments[i].value] = static_cast<int>(i);
    found.exposed[i] = program.values[program.arguments[i].value].kind == program::TypeKind::ptr;
  }
  found.collect(program.body);
  for (size_t i = 0; i < n && found.anywhere; ++i) found.written[i] = found.written[i] || found.exposed[i];
  return found.written;
}

}  // namespace ligerdsl::kernels
