// Divergences of rows: which of their formulas a description means, and losses that have an element of each.
#include "kernels/divergence/divergence.h"

#include "lib/src/ops/cross_entropy_options.h"

namespace ligerdsl::lib {

namespace {

using kernels::Divergence;

// The symbols of an operation's sizes and its tensors.
struct Names {
  int rows, losses, gradients, loss, d_loss;
};

// A loss of every element is one dimension for the caller, whatever the leading ones of input are.
OperationPlan::Bindings::Derived by_rows(const char* name, int tensor, int rows, int64_t cols) {
  return {.name = name,
          .memory = name,
          .view =
              [=](const Call& call) {
                BoundTensor view = call.tensors[tensor];
                view.rank = 2;
                view.dims[0] = call.sizes[rows];
                view.dims[1] = cols;
                view.strides[0] = view.dims[0] == 1 ? 0 : cols;
                view.strides[1] = cols == 1 ? 0 : 1;
                return view;
              },
          .exact = {-1, cols}};
}

void check_contiguous(const Call& call, int tensor, const char* name) {
  const BoundTensor& t = call.tensors[tensor];
  if (!t.present || t.dims[0] <= 1 || t.strides[0] == 1) return;
  fail(Status::invalid_shape, std::string("`") + name +
                                  "`: expected contiguous elements without a reduction, got a stride of " +
                                  std::to_string(t.strides[0]) + "; make the tensor contiguous");
}

template <class Desc>
std::unique_ptr<OpPlan> divergence_plan(const ContextRef& context, const OpInfo& info, const Desc& d,
                                        kernels::DivergenceOptions options, const Names& names,
                                        OperationPlan::Bindings bindings) {
  options.cols = d.n_cols;
  options.type = dtype_of(d.dtype);
  options.target_type = dtype_of(d.target_dtype);
  options.reduction = reduction_of(d.reduction);
  options.with_loss = d.without_loss == 0;
  options.loss_type = dtype_of(d.loss_dtype);
  options.with_gradient = d.with_d_input != 0;
  options.with_d_loss = d.with_d_loss != 0;
  options.d_loss_type = dtype_of(d.d_loss_dtype);
  if (!options.with_loss && !options.with_gradient)
    fail(Status::invalid_argument,
         "`without_loss`: expected 0 where d_input is not wanted, got 1; pass loss, d_input or both");
  if (options.with_d_loss && !options.with_gradient)
    fail(Status::invalid_argument, "`with_d_loss`: expected 0 without d_input, got 1; it multiplies d_input alone");
  const bool each = options.reduction == kernels::Reduction::none;
  bindings.rows = [=, cols = options.cols](const Call& call) {
    const int64_t rows = call.sizes[names.rows];
    check_reduced(call, names.losses, "loss", each, rows * cols);
    check_reduced(call, names.gradients, "d_loss", each, rows * cols);
    if (each) check_contiguous(call, names.loss, "loss");
    if (each) check_contiguous(call, names.d_loss, "d_loss");
    return rows;
  };
  if (each && options.with_loss) bindings.views.push_back(by_rows("loss", names.loss, names.rows, options.cols));
  if (each && options.with_d_loss) bindings.views.push_back(by_rows("d_loss", names.d_loss, names.rows, options.cols));
  return plan_of(context, info, d, configured(context, kernels::divergence_kernel, options), std::move(bindings));
}

template <class Desc>
kernels::DivergenceOptions with_labels(const Desc& d, Divergence kind) {
  return {.kind = kind, .has_labels = d.label_dtype != 0, .label_type = dtype_of(d.label_dtype, DType::i64)};
}

Divergence jsd_of(float beta) {
  return beta == 0 ? Divergence::forward_kl : beta == 1 ? Divergence::reverse_kl : Divergence::jsd;
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_kl_div_desc_t& d) {
  namespace op = kl_div;
  return divergence_plan(context, op::info(), d, {.kind = d.log_target ? Divergence::forward_kl : Divergence::kl},
                         {op::dim_N, op::dim_L, op::dim_G, op::k_loss, op::k_d_loss}, {.numbers = {{"eps", d.eps}}});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_jsd_desc_t& d) {
  namespace op = jsd;
  return divergence_plan(context, op::info(), d, with_labels(d, jsd_of(d.beta)),
                         {op::dim_N, op::dim_L, op::dim_G, op::k_loss, op::k_d_loss},
                         {.numbers = {{"beta", d.beta}}, .integers = {{"ignore_index", d.ignore_index}}});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_tvd_desc_t& d) {
  namespace op = tvd;
  return divergence_plan(context, op::info(), d, with_labels(d, Divergence::tvd),
                         {op::dim_N, op::dim_L, op::dim_G, op::k_loss, op::k_d_loss},
                         {.integers = {{"ignore_index", d.ignore_index}}});
}

}  // namespace ligerdsl::lib
