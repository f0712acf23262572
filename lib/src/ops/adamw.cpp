#include <cmath>

#include "kernels/core/elementwise_schedule.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

using Args = ligerdsl_adamw_step_args_t;

const Args& args_of(const Call& call) {
  return *static_cast<const Args*>(call.args);
}

std::function<float(const Call&)> value(float Args::*member) {
  return [member](const Call& call) { return args_of(call).*member; };
}

// 1 - beta^step in double: for beta2 = 0.999 and step 1 the difference loses nine bits in f32.
double bias(double beta, int64_t step) {
  return -std::expm1(static_cast<double>(step) * std::log(beta));
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_adamw_step_desc_t& d) {
  const bool device_step = d.with_device_step != 0;
  OperationPlan::Bindings bindings;
  bindings.numbers_of_call = {
      {"lr", value(&Args::lr)},
      {"beta1", value(&Args::beta1)},
      {"beta2", value(&Args::beta2)},
      {"eps", value(&Args::eps)},
      {"weight_decay", value(&Args::weight_decay)},
      {"bias1", [](const Call& c) { return static_cast<float>(1 / bias(args_of(c).beta1, args_of(c).step)); }},
      {"bias2",
       [](const Call& c) { return static_cast<float>(1 / std::sqrt(bias(args_of(c).beta2, args_of(c).step))); }}};
  bindings.renamed = {{"parameter", "param"},  {"gradient", "grad"}, {"copy", "param_copy"},
                      {"clip", "clip_factor"}, {"lr", "device_lr"},  {"step", "device_step"}};
  bindings.rows = size_of_call(adamw_step::dim_N);
  const kernels::AdamwOptions options{.type = dtype_of(d.dtype),
                                      .gradient_type = dtype_of(d.grad_dtype),
                                      .with_copy = d.copy_dtype != 0,
                                      .copy_type = dtype_of(d.copy_dtype),
                                      .with_clip = d.with_clip_factor != 0,
                                      .device_step = device_step,
                                      .with_skip = d.skip_dtype != 0,
                                      .skip_type = dtype_of(d.skip_dtype, DType::i32)};
  return plan_of(context, adamw_step::info(), d, configured(context, kernels::adamw_kernel, options),
                 std::move(bindings));
}

}  // namespace ligerdsl::lib
