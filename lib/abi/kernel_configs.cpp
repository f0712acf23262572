#include "lib/abi/kernel_configs.h"

#include "kernels/core/launch.h"
#include "program/serialize.h"

namespace ligerdsl::lib {

std::string built_text(const program::Program& program, const Launch& launch, bool gpu) {
  std::string text = program::serialize(program);
  for (const Size& programs : launch.grid) text.append(" ").append(programs.text());
  if (!gpu) return text;
  for (const int number : {launch.num_warps, launch.num_ctas, launch.num_stages,
                           launch.min_ctas_per_sm, launch.max_registers, int{launch.no_alias}})
    text.append(" ").append(std::to_string(number));
  return text;
}

std::string built_text(const kernels::Operation& operation, bool gpu) {
  std::string text;
  for (const kernels::Step& step : operation.steps)
    text += built_text(step.program, step.launch, gpu);
  for (const kernels::Scratch& scratch : operation.workspace) {
    for (const Size& dim : scratch.shape) text.append(" ").append(dim.text());
  }
  return text;
}

}  // namespace ligerdsl::lib
