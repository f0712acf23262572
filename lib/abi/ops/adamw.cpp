// AdamW's bias corrections, which depend on the step.
#include "kernels/optimizer/adamw.h"

#include <cmath>

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

using Args = ligerdsl_adamw_step_args_t;

// Returns 1 - beta^step. In f32 the difference would lose nine bits for beta2 = 0.999 and step 1.
double bias(double beta, int64_t step) {
  return -std::expm1(static_cast<double>(step) * std::log(beta));
}

float bias1(const Call& call) {
  const Args& args = args_of<Args>(call);
  return static_cast<float>(1 / bias(args.beta1, args.step));
}

float bias2(const Call& call) {
  const Args& args = args_of<Args>(call);
  return static_cast<float>(1 / std::sqrt(bias(args.beta2, args.step)));
}

}  // namespace

void adjust(const ligerdsl_adamw_step_desc_t&, kernels::AdamwOptions&,
            OperationPlan::Bindings& bindings) {
  bindings.numbers_of_call.emplace_back("bias1", bias1);
  bindings.numbers_of_call.emplace_back("bias2", bias2);
}

}  // namespace ligerdsl::lib
