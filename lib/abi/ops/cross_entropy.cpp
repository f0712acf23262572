#include "kernels/cross_entropy/cross_entropy.h"

#include "lib/abi/ops/cross_entropy_options.h"

namespace ligerdsl::lib {

namespace {

kernels::CrossEntropyOptions options_of(const ligerdsl_cross_entropy_desc_t& d) {
  kernels::CrossEntropyOptions options = cross_entropy_options(d);
  options.type = dtype_of(d.dtype);
  options.with_lse = d.with_lse != 0;
  options.with_gradient = d.with_d_logits != 0;
  options.with_d_loss = d.with_d_loss != 0;
  options.d_loss_type = dtype_of(d.d_loss_dtype);
  return options;
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_cross_entropy_desc_t& d) {
  check_without_loss(d, d.with_lse || d.with_d_logits);
  check_upstream("with_d_loss", d.with_d_loss, d.with_d_logits != 0, "d_logits");
  check_upstream("with_d_entropy", d.with_d_entropy, d.with_d_logits != 0, "d_logits");
  OperationPlan::Bindings bindings;
  bindings.numbers = {{"label_smoothing", d.label_smoothing},
                      {"lse_square_scale", d.lse_square_scale},
                      {"softcap", d.softcap},
                      {"temperature", d.temperature}};
  bindings.integers = {{"ignore_index", d.ignore_index}};
  bindings.rows = [per_row = d.reduction == LIGERDSL_REDUCTION_NONE](const Call& call) {
    const int64_t rows = call.sizes[cross_entropy::dim_N];
    check_reduced(call, cross_entropy::dim_L, "loss", per_row, rows);
    check_reduced(call, cross_entropy::dim_Z, "z_loss", per_row, rows);
    check_reduced(call, cross_entropy::dim_R, "accuracy", per_row, rows);
    check_reduced(call, cross_entropy::dim_G, "d_loss", per_row, rows);
    return rows;
  };
  bindings.renamed = {{"weight", "class_weight"}};
  return plan_of(context, cross_entropy::info(), d,
                 configured(context, kernels::cross_entropy_kernel, options_of(d)),
                 std::move(bindings));
}

}  // namespace ligerdsl::lib
