#include "kernels/core/record.h"
#include "kernels/elementwise/vector_add.h"

namespace ligerdsl::kernels {
namespace {

using namespace elementwise_rule;

std::string valid_add(const Machine&, const VectorAddOptions& o, const ElementwiseConfig& config) {
  return refused_flat(o.type, config);
}

ElementwiseConfig heuristic_add(const Machine& machine, const VectorAddOptions& o) {
  return elementwise_config(machine, o.type, kFlat);
}

Operation add(const Machine&, const VectorAddOptions& o, const ElementwiseConfig& config) {
  const VectorAddMeta meta{.type = o.type, .block = config.columns(o.type, kFlat)};
  return {
      .steps = {record_step(vector_add_kernel.name, o.type, &vector_add, meta,
                            library_launch(ceil_div(Size::rows(), meta.block), config.num_warps))}};
}

Cost cost_of_add(const VectorAddOptions& o, int64_t elements) {
  return {3.0 * static_cast<double>(elements) * size_of(o.type)};
}

}  // namespace

const VectorAdd vector_add_kernel{"vector_add",   "out = a + b", &valid_add,
                                  &heuristic_add, &add,          &cost_of_add};

Operation vector_add(const Machine& machine, DType type) {
  return vector_add_kernel(machine, {type});
}

}  // namespace ligerdsl::kernels
