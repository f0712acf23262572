#include "kernels/core/compile_options.h"

#include <algorithm>

#include "program/aliasing.h"

namespace ligerdsl::kernels {
namespace {

// Returns true if the argument's memory does not change: this launch stores neither to the argument
// nor to another argument that may overlap it.
bool read_only(size_t arg, const std::vector<ArgPromise>& promises,
               const std::vector<bool>& written) {
  if (written[arg]) return false;
  for (size_t i = 0; i < promises.size(); ++i) {
    const bool disjoint = promises[i].alias_class != 0 && promises[arg].alias_class != 0 &&
                          promises[i].alias_class != promises[arg].alias_class;
    if (written[i] && !disjoint) return false;
  }
  return true;
}

}  // namespace

std::vector<ArgPromise> all_disjoint(const program::Program& program) {
  std::vector<ArgPromise> promises(program.arguments.size());
  for (size_t i = 0; i < promises.size(); ++i)
    promises[i].alias_class = static_cast<uint32_t>(i + 1);
  return promises;
}

program::CompileOptions compile_options(program::CompileOptions base,
                                        const program::Program& program, const Launch& launch,
                                        Variant variant, std::vector<ArgPromise> promises) {
  promises.resize(program.arguments.size());
  for (size_t i = 0; i < promises.size() && launch.no_alias; ++i)
    promises[i].alias_class = static_cast<uint32_t>(i + 1);
  base.num_warps = launch.num_warps;
  base.num_ctas = launch.num_ctas;
  base.num_stages = launch.num_stages;
  base.max_registers = launch.max_registers;
  base.min_ctas_per_sm = launch.min_ctas_per_sm;
  base.facts = argument_facts(program, variant);
  const std::vector<bool> written = program::written_arguments(program);
  for (size_t i = 0; i < base.facts.size(); ++i) {
    program::ArgFacts& facts = base.facts[i];
    const std::vector<int64_t>& exact = promises[i].exact;
    for (size_t dim = 0; dim < std::min(exact.size(), facts.dims.size()); ++dim)
      if (exact[dim] >= 0) facts.dims[dim] = {.exact = exact[dim]};
    facts.pointer_align = std::max(facts.pointer_align, promises[i].pointer_align);
    facts.alias_class = promises[i].alias_class;
    facts.read_only = program.arguments[i].read_only || read_only(i, promises, written);
  }
  return base;
}

}  // namespace ligerdsl::kernels
