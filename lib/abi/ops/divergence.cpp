// Divergences of rows: selects the formula of a descriptor, and binds unreduced losses.
#include "kernels/divergence/divergence.h"

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

using kernels::Divergence;

// Symbols of an operation's sizes, and indices of its tensors.
struct Names {
  int rows, losses, gradients, loss, d_loss;
};

// Returns a [rows, cols] view of an unreduced loss, which the caller passes with one dimension for
// any shape of input.
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
                                  "`: expected a stride of 1 without a reduction, got " +
                                  std::to_string(t.strides[0]) + "; make the tensor contiguous");
}

void check_wanted(const kernels::DivergenceOptions& options) {
  if (!options.with_loss && !options.with_gradient)
    fail(Status::invalid_argument,
         "`without_loss`: expected 0 without d_input, got 1; pass loss, d_input or both");
  if (options.with_d_loss && !options.with_gradient)
    fail(Status::invalid_argument,
         "`with_d_loss`: expected 0 without d_input, got 1; pass d_input, or set `with_d_loss` to "
         "0");
}

void adjust_losses(const kernels::DivergenceOptions& options, const Names& names,
                   OperationPlan::Bindings* bindings) {
  check_wanted(options);
  const bool each = options.reduction == kernels::Reduction::none;
  bindings->rows = [=, cols = options.cols](const Call& call) {
    const int64_t rows = call.sizes[names.rows];
    check_reduced(call, names.losses, "loss", each, rows * cols);
    check_reduced(call, names.gradients, "d_loss", each, rows * cols);
    if (each) check_contiguous(call, names.loss, "loss");
    if (each) check_contiguous(call, names.d_loss, "d_loss");
    return rows;
  };
  if (each && options.with_loss)
    bindings->views.push_back(by_rows("loss", names.loss, names.rows, options.cols));
  if (each && options.with_d_loss)
    bindings->views.push_back(by_rows("d_loss", names.d_loss, names.rows, options.cols));
}

Divergence jsd_of(float beta) {
  return beta == 0 ? Divergence::forward_kl : beta == 1 ? Divergence::reverse_kl : Divergence::jsd;
}

}  // namespace

void adjust(const ligerdsl_kl_div_desc_t& d, kernels::DivergenceOptions& options,
            OperationPlan::Bindings& bindings) {
  namespace op = kl_div;
  options.kind = d.log_target ? Divergence::forward_kl : Divergence::kl;
  adjust_losses(options, {op::dim_N, op::dim_L, op::dim_G, op::k_loss, op::k_d_loss}, &bindings);
}

void adjust(const ligerdsl_jsd_desc_t& d, kernels::DivergenceOptions& options,
            OperationPlan::Bindings& bindings) {
  namespace op = jsd;
  options.kind = jsd_of(d.beta);
  adjust_losses(options, {op::dim_N, op::dim_L, op::dim_G, op::k_loss, op::k_d_loss}, &bindings);
}

void adjust(const ligerdsl_tvd_desc_t&, kernels::DivergenceOptions& options,
            OperationPlan::Bindings& bindings) {
  namespace op = tvd;
  options.kind = Divergence::tvd;
  adjust_losses(options, {op::dim_N, op::dim_L, op::dim_G, op::k_loss, op::k_d_loss}, &bindings);
}

}  // namespace ligerdsl::lib
