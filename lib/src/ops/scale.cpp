// Rows times a factor that is read on the device: the operation, and what cross-entropy's backward is of it.
#include "kernels/core/elementwise_schedule.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

// The tensors that the kernel's arguments are, and the symbols of their sizes.
struct Names {
  const char *in, *out, *factor;
  int rows, factors;
};

template <class Desc>
std::unique_ptr<OpPlan> scale_plan(const ContextRef& context, const OpInfo& info, const Desc& d, DType factor,
                                   int64_t cols, const Names& names) {
  OperationPlan::Bindings bindings;
  bindings.rows = [names, per_row = d.per_row != 0](const Call& call) {
    const int64_t rows = call.sizes[names.rows];
    check_reduced(call, names.factors, names.factor, per_row, rows);
    return rows;
  };
  bindings.renamed = {{"in", names.in}, {"out", names.out}, {"factor", names.factor}};
  const kernels::ScaleRowsOptions options{
      .type = dtype_of(d.dtype), .factor_type = factor, .per_row = d.per_row != 0, .cols = cols};
  return plan_of(context, info, d, configured(context, kernels::scale_rows_kernel, options), std::move(bindings));
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_scale_desc_t& d) {
  namespace op = scale;
  return scale_plan(context, op::info(), d, dtype_of(d.factor_dtype), d.n_cols,
                    {.in = "x", .out = "out", .factor = "factor", .rows = op::dim_N, .factors = op::dim_L});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_cross_entropy_backward_desc_t& d) {
  namespace op = cross_entropy_backward;
  return scale_plan(context, op::info(), d, dtype_of(d.d_loss_dtype), d.n_classes,
                    {.in = "d_logits", .out = "d_logits", .factor = "d_loss", .rows = op::dim_N, .factors = op::dim_L});
}

}  // namespace ligerdsl::lib
