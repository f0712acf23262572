// Dropout: the numbers that the host makes of p, and where seed and offset come from.
#include <cmath>

#include "kernels/core/elementwise_schedule.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

// floor(p 2^32), which is below 2^32 as p is below 1, as the bits of an i32.
int64_t threshold(float p) {
  return static_cast<int32_t>(static_cast<uint32_t>(std::floor(std::ldexp(static_cast<double>(p), 32))));
}

float scale(float p) {
  return static_cast<float>(1 / (1 - static_cast<double>(p)));
}

template <class Args>
OperationPlan::Bindings bindings_of(int rows) {
  const auto args = [](const Call& call) -> const Args& { return *static_cast<const Args*>(call.args); };
  OperationPlan::Bindings bindings;
  bindings.numbers_of_call = {{"scale", [args](const Call& c) { return scale(args(c).p); }}};
  bindings.integers_of_call = {{"threshold", [args](const Call& c) { return threshold(args(c).p); }},
                               {"seed", [args](const Call& c) { return args(c).seed; }},
                               {"offset", [args](const Call& c) { return args(c).offset; }}};
  bindings.rows = size_of_call(rows);
  return bindings;
}

template <class Desc>
kernels::DropoutOptions options_of(const Desc& d, bool add) {
  return {.cols = d.n_cols, .type = dtype_of(d.dtype), .add = add, .device_seed = d.with_device_seed != 0};
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_dropout_forward_desc_t& d) {
  namespace op = dropout_forward;
  return plan_of(context, op::info(), d,
                 configured(context, kernels::dropout_forward_kernel, options_of(d, d.with_residual != 0)),
                 bindings_of<ligerdsl_dropout_forward_args_t>(op::dim_N));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_dropout_backward_desc_t& d) {
  namespace op = dropout_backward;
  if (d.accumulate && d.in_place) {
    fail(Status::invalid_argument,
         "`in_place`: expected 0 with `accumulate`, got 1; what d_x is added to cannot be d_y as well");
  }
  return plan_of(context, op::info(), d,
                 configured(context, kernels::dropout_backward_kernel, options_of(d, d.accumulate != 0)),
                 bindings_of<ligerdsl_dropout_backward_args_t>(op::dim_N));
}

}  // namespace ligerdsl::lib
