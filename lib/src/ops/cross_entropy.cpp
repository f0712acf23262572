#include "kernels/cross_entropy.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

kernels::Reduction reduction_of(int32_t reduction) {
  switch (reduction) {
    case LIGERDSL_REDUCTION_NONE:
      return kernels::Reduction::none;
    case LIGERDSL_REDUCTION_SUM:
      return kernels::Reduction::sum;
    default:
      return kernels::Reduction::mean;
  }
}

kernels::CrossEntropyOptions options_of(const ligerdsl_cross_entropy_desc_t& d) {
  kernels::CrossEntropyOptions options;
  options.classes = d.n_classes;
  options.type = dtype_of(d.dtype);
  options.label_type = dtype_of(d.label_dtype);
  options.reduction = reduction_of(d.reduction);
  options.has_weight = d.with_class_weight != 0;
  options.smoothing = d.label_smoothing != 0;
  options.lse_square = d.lse_square_scale != 0;
  options.softcap = d.softcap != 0;
  options.with_z_loss = d.with_z_loss != 0;
  options.with_accuracy = d.with_accuracy != 0;
  options.with_predictions = d.with_predictions != 0;
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
  return plan_of(context, cross_entropy::info(), d, kernels::cross_entropy(context->machine(), options_of(d)),
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
  return plan_of(context, cross_entropy_backward::info(), d,
                 kernels::scale_rows(context->machine(), dtype_of(d.dtype), DType::f32, d.per_row != 0, d.n_classes),
                 std::move(bindings));
}

}  // namespace ligerdsl::lib
