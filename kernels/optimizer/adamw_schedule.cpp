#include <utility>

#include "kernels/core/record.h"
#include "kernels/optimizer/adamw.h"

namespace ligerdsl::kernels {
namespace {

using namespace elementwise_rule;

std::string valid_step(const Machine&, const AdamwOptions&, const ElementwiseConfig& config) {
  return refused_flat(f32, config);
}

// Vectors are those of the moments, with four f32 each. Two of them have eight elements, like one
// vector of a 16-bit parameter, gradient or copy.
ElementwiseConfig heuristic_step(const Machine& machine, const AdamwOptions& o) {
  const bool narrow = size_of(o.type) == 2 || size_of(o.gradient_type) == 2 ||
                      (o.with_copy && size_of(o.copy_type) == 2);
  return {.rows = 1, .num_warps = 8, .vectors = !machine.is_gpu() ? 4 : narrow ? 2 : 1};
}

// Blocks may begin up to three elements before m (View::alignment_offset).
Operation step(const Machine& machine, const AdamwOptions& o, const ElementwiseConfig& config) {
  AdamwMeta meta{o};
  meta.block = config.columns(f32, kFlat);
  const Size more = Size::rows() + (vector_width(f32) - 1),
             elements = where_at_least(Size::rows(), 1, more);  // 0 without parameters
  Launch launch = library_launch(ceil_div(elements, meta.block), config.num_warps);
  // The generic variant's shifts use 90 registers without a limit, and 67 with this one.
  if (machine.is_gpu() && config.num_warps == 8 && config.vectors <= 2) launch.min_ctas_per_sm = 3;
  return {.steps = {record_step(adamw_kernel.name, o.type, &adamw, meta, std::move(launch))}};
}

// Counts the gradient, the copy, and the parameter and two moments twice (read and written).
Cost cost_of_step(const AdamwOptions& o, int64_t elements) {
  const int each = size_of(o.gradient_type) + 2 * (size_of(o.type) + 2 * size_of(f32)) +
                   (o.with_copy ? size_of(o.copy_type) : 0);
  return {static_cast<double>(elements) * each};
}

}  // namespace

const Adamw adamw_kernel{
    "adamw", "one AdamW step on a tensor", &valid_step, &heuristic_step, &step, &cost_of_step};

Operation adamw(const Machine& machine, const AdamwOptions& options) {
  return adamw_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
