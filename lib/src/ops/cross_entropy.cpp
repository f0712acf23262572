#include "kernels/cross_entropy_config.h"
#include "kernels/elementwise_config.h"
#include "lib/src/ops/cross_entropy_options.h"

namespace ligerdsl::lib {

namespace {

kernels::CrossEntropyOptions options_of(const ligerdsl_cross_entropy_desc_t& d) {
  kernels::CrossEntropyOptions options = cross_entropy_options(d);
  options.type = dtype_of(d.dtype);
  options.with_lse = d.with_lse != 0;
  options.with_gradient = d.with_d_logits != 0;
  return options;
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_cross_entropy_desc_t& d) {
  OperationPlan::Bindings bindings;
  bindings.numbers = {
      {"label_smoothing", d.label_smoothing}, {"lse_square_scale", d.lse_square_scale}, {"softcap", d.softcap}};
  bindings.integers = {{"ignore_index", d.ignore_index}};
  bindings.rows = [per_row = d.reduction == LIGERDSL_REDUCTION_NONE](const Call& call) {
    const int64_t rows = call.sizes[cross_entropy::dim_N];
    check_reduced(call, cross_entropy::dim_L, "loss", per_row, rows);
    check_reduced(call, cross_entropy::dim_Z, "z_loss", per_row, rows);
    check_reduced(call, cross_entropy::dim_R, "accuracy", per_row, rows);
    return rows;
  };
  bindings.renamed = {{"weight", "class_weight"}};
  return plan_of(context, cross_entropy::info(), d, configured(context, kernels::cross_entropy_kernel, options_of(d)),
                 std::move(bindings));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_cross_entropy_backward_desc_t& d) {
  OperationPlan::Bindings bindings;
  bindings.rows = [per_row = d.per_row != 0](const Call& call) {
    const int64_t rows = call.sizes[cross_entropy_backward::dim_N];
    check_reduced(call, cross_entropy_backward::dim_L, "d_loss", per_row, rows);
    return rows;
  };
  bindings.renamed = {{"in", "d_logits"}, {"out", "d_logits"}, {"factor", "d_loss"}};
  const kernels::ScaleRowsOptions options{.type = dtype_of(d.dtype),
                                          .factor_type = dtype_of(d.d_loss_dtype),
                                          .per_row = d.per_row != 0,
                                          .cols = d.n_classes};
  return plan_of(context, cross_entropy_backward::info(), d, configured(context, kernels::scale_rows_kernel, options),
                 std::move(bindings));
}

}  // namespace ligerdsl::lib
