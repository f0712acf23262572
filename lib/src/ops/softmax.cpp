#include "kernels/softmax/softmax.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

template <class Desc>
kernels::SoftmaxOptions options_of(const Desc& d) {
  if (d.causal && d.n_queries < 1) {
    fail(Status::invalid_shape, "`n_queries`: expected at least 1 with `causal`, got " + std::to_string(d.n_queries));
  }
  return {.cols = d.n_cols, .type = dtype_of(d.dtype), .causal = d.causal != 0};
}

template <class Desc>
OperationPlan::Bindings bindings_of(const Desc& d, int rows) {
  OperationPlan::Bindings bindings;
  bindings.numbers = {{"scale", d.scale}};
  bindings.integers = {{"queries", d.n_queries}};
  bindings.rows = [rows, causal = d.causal != 0, queries = d.n_queries](const Call& call) {
    const int64_t n = call.sizes[rows];
    if (causal && n % queries != 0) {
      fail(Status::invalid_shape,
           "causal: expected a multiple of n_queries = " + std::to_string(queries) + " rows, got " + std::to_string(n));
    }
    return n;
  };
  return bindings;
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_softmax_forward_desc_t& d) {
  return plan_of(context, softmax_forward::info(), d,
                 configured(context, kernels::softmax_forward_kernel, options_of(d)),
                 bindings_of(d, softmax_forward::dim_N));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_softmax_backward_desc_t& d) {
  return plan_of(context, softmax_backward::info(), d,
                 configured(context, kernels::softmax_backward_kernel, options_of(d)),
                 bindings_of(d, softmax_backward::dim_N));
}

}  // namespace ligerdsl::lib
