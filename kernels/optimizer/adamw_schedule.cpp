#include <utility>

#include "kernels/core/record.h"
#include "kernels/optimizer/adamw.h"

namespace ligerdsl::kernels {
namespace {

using namespace elementwise_rule;

std::string valid_step(const Machine&, const AdamwOptions&, const ElementwiseConfig& config) {
  return refused_flat(f32, config);
}

// A 16-byte vector has four f32 moments, but eight 16-bit elements. With vectors = 2, a thread has
// a whole vector of a 16-bit parameter, gradient or copy.
ElementwiseConfig heuristic_step(const Machine& machine, const AdamwOptions& o) {
  const bool narrow = size_of(o.type) == 2 || size_of(o.gradient_type) == 2 ||
                      (o.with_copy && size_of(o.copy_type) == 2);
  return {.rows = 1, .num_warps = 8, .vectors = !machine.is_gpu() ? 4 : narrow ? 2 : 1};
}

// The first block may begin up to three elements before m, so the grid covers three more elements.
Operation step(const Machine& machine, const AdamwOptions& o, const ElementwiseConfig& config) {
  AdamwMeta meta{o};
  meta.block = config.columns(f32, kFlat);
  const Size more = Size::rows() + (vector_width(f32) - 1),
             elements = where_at_least(Size::rows(), 1, more);  // 0 if there are no elements
  Launch launch = library_launch(ceil_div(elements, meta.block), config.num_warps);
  // In the generic variant, ptxas uses 90 registers without this limit, and 67 with it.
  if (machine.is_gpu() && config.num_warps == 8 && config.vectors <= 2) launch.min_ctas_per_sm = 3;
  return {.steps = {record_step(adamw_kernel.name, o.type, &adamw, meta, std::move(launch))}};
}

// Returns the bytes read and written. The parameter and both moments count twice.
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
