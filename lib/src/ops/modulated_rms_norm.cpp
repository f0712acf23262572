// RMSNorm with a scale and a shift of each stretch of rows.
#include "kernels/norm/modulated_rms_norm.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

template <class Desc>
kernels::ModulatedRmsNormOptions common_options(const Desc& d) {
  kernels::ModulatedRmsNormOptions options;
  options.cols = d.n_cols;
  options.modulations = d.n_modulations;
  options.type = dtype_of(d.dtype);
  options.casting = static_cast<kernels::Casting>(d.casting);
  options.has_weight = d.weight_dtype != 0;
  options.weight_type = dtype_of(d.weight_dtype);
  options.has_offset = d.offset != 0;
  options.scale_type = dtype_of(d.scale_dtype);
  return options;
}

// Each modulation has equally many rows.
OperationPlan::Number rows_of(int symbol, int64_t modulations) {
  return [=](const Call& call) {
    const int64_t rows = call.sizes[symbol];
    if (rows % modulations != 0)
      fail(Status::invalid_shape, "`x`: expected a multiple of n_modulations = " + std::to_string(modulations) +
                                      " rows, got " + std::to_string(rows));
    return rows;
  };
}

OperationPlan::Number rows_of_modulation(int symbol, int64_t modulations) {
  return [=](const Call& call) { return std::max<int64_t>(call.sizes[symbol] / modulations, 1); };
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_modulated_rms_norm_forward_desc_t& d) {
  namespace op = modulated_rms_norm_forward;
  kernels::ModulatedRmsNormOptions options = common_options(d);
  options.modulations = 1;  // the forward takes any number
  options.has_shift = d.with_shift != 0;
  options.with_rstd = d.with_rstd != 0;
  return plan_of(context, op::info(), d, configured(context, kernels::modulated_rms_norm_forward_kernel, options),
                 {.numbers = {{"eps", d.eps}, {"offset", d.offset}},
                  .integers_of_call = {{"rows_of_modulation", rows_of_modulation(op::dim_N, d.n_modulations)}},
                  .rows = rows_of(op::dim_N, d.n_modulations)});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_modulated_rms_norm_backward_desc_t& d) {
  namespace op = modulated_rms_norm_backward;
  if (d.d_weight_dtype && !d.weight_dtype)
    fail(Status::invalid_argument, "`d_weight_dtype`: expected 0, because there is no weight");
  check_gradient("d_weight_dtype", d.d_weight_dtype, d.weight_dtype, d.accumulate);
  check_without_d_x(d.without_d_x, d.d_weight_dtype != 0 || d.d_scale_dtype != 0 || d.d_shift_dtype != 0);
  kernels::ModulatedRmsNormOptions options = common_options(d);
  options.want_d_weight = d.d_weight_dtype != 0;
  options.d_weight_type = dtype_of(d.d_weight_dtype);
  options.want_d_scale = d.d_scale_dtype != 0;
  options.want_d_shift = d.d_shift_dtype != 0;
  options.d_scale_type = gradients_dtype({{"d_scale_dtype", d.d_scale_dtype}, {"d_shift_dtype", d.d_shift_dtype}},
                                         d.scale_dtype, d.accumulate);
  options.accumulate = d.accumulate != 0;
  options.without_d_x = d.without_d_x != 0;
  return plan_of(context, op::info(), d, configured(context, kernels::modulated_rms_norm_backward_kernel, options),
                 {.numbers = {{"offset", d.offset}},
                  .integers_of_call = {{"rows_of_modulation", rows_of_modulation(op::dim_N, d.n_modulations)}},
                  .rows = rows_of(op::dim_N, d.n_modulations)});
}

}  // namespace ligerdsl::lib
