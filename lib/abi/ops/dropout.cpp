// Kernel arguments of dropout that are computed from p.
#include "kernels/elementwise/dropout.h"

#include <cmath>

#include "kernels/core/elementwise_schedule.h"
#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

// Returns floor(p 2^32) as the bits of an i32. p is below 1, so the value fits in 32 bits.
int64_t threshold(float p) {
  return static_cast<int32_t>(
      static_cast<uint32_t>(std::floor(std::ldexp(static_cast<double>(p), 32))));
}

float scale(float p) {
  return static_cast<float>(1 / (1 - static_cast<double>(p)));
}

template <class Args>
void bind_probability(OperationPlan::Bindings* bindings) {
  bindings->numbers_of_call.emplace_back(
      "scale", [](const Call& call) { return scale(args_of<Args>(call).p); });
  bindings->integers_of_call.emplace_back(
      "threshold", [](const Call& call) { return threshold(args_of<Args>(call).p); });
}

}  // namespace

void adjust(const ligerdsl_dropout_forward_desc_t&, kernels::DropoutOptions&,
            OperationPlan::Bindings& bindings) {
  bind_probability<ligerdsl_dropout_forward_args_t>(&bindings);
}

void adjust(const ligerdsl_dropout_backward_desc_t&, kernels::DropoutOptions&,
            OperationPlan::Bindings& bindings) {
  bind_probability<ligerdsl_dropout_backward_args_t>(&bindings);
}

}  // namespace ligerdsl::lib
