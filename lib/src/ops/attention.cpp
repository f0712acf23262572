// Attention: the band of keys that queries see, and views whose numbers of tokens no code depends on.
#include <cmath>

#include "kernels/attention_config.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

using kernels::AttentionOptions;

// causal is a window of 0 to the right.
template <class Desc>
int64_t right_of(const Desc& d) {
  return d.causal ? 0 : d.window_right;
}

template <class Desc>
AttentionOptions options_of(const Desc& d) {
  if (d.q_heads % d.k_heads != 0)
    fail(Status::invalid_shape, "`k_heads`: expected a divisor of q_heads = " + std::to_string(d.q_heads) + ", got " +
                                    std::to_string(d.k_heads));
  return {.type = dtype_of(d.dtype),
          .dim = d.head_dim,
          .heads = d.q_heads,
          .kv_heads = d.k_heads,
          .queries = d.n_queries,
          .keys = d.n_keys,
          .left = d.window_left >= 0,
          .right = right_of(d) >= 0,
          .softcap = d.softcap != 0};
}

// A tensor as it is. Programs know its heads and their columns; code for one number of tokens serves every other one.
OperationPlan::Bindings::Derived heads(const char* name, int tensor, int64_t count, int64_t dim) {
  return {.name = name,
          .memory = name,
          .view = [=](const Call& call) { return call.tensors[tensor]; },
          .exact = {-1, -1, count, dim}};
}
OperationPlan::Bindings::Derived numbers(const char* name, int tensor, int64_t count) {
  return {.name = name,
          .memory = name,
          .view = [=](const Call& call) { return call.tensors[tensor]; },
          .exact = {-1, count, -1}};
}

template <class Desc>
OperationPlan::Bindings bindings_of(const Desc& d, int batches) {
  const double scale = d.scale != 0 ? double{d.scale} : 1 / std::sqrt(static_cast<double>(d.head_dim));
  return {
      .numbers = {{"scale", scale}, {"cap", d.softcap}, {"inverse_cap", d.softcap != 0 ? 1 / double{d.softcap} : 0}},
      .integers = {{"window_left", d.window_left}, {"window_right", right_of(d)}},
      .rows = size_of_call(batches)};
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_attention_forward_desc_t& d) {
  namespace op = attention_forward;
  AttentionOptions options = options_of(d);
  options.with_lse = d.with_lse != 0;
  OperationPlan::Bindings bindings = bindings_of(d, op::dim_B);
  bindings.views = {heads("q", op::k_q, d.q_heads, d.head_dim), heads("k", op::k_k, d.k_heads, d.head_dim),
                    heads("v", op::k_v, d.k_heads, d.head_dim), heads("o", op::k_o, d.q_heads, d.head_dim)};
  if (options.with_lse) bindings.views.push_back(numbers("lse", op::k_lse, d.q_heads));
  return plan_of(context, op::info(), d, configured(context, kernels::attention_forward_kernel, options),
                 std::move(bindings));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_attention_backward_desc_t& d) {
  namespace op = attention_backward;
  OperationPlan::Bindings bindings = bindings_of(d, op::dim_B);
  bindings.views = {heads("d_o", op::k_d_o, d.q_heads, d.head_dim), heads("q", op::k_q, d.q_heads, d.head_dim),
                    heads("k", op::k_k, d.k_heads, d.head_dim),     heads("v", op::k_v, d.k_heads, d.head_dim),
                    heads("o", op::k_o, d.q_heads, d.head_dim),     numbers("lse", op::k_lse, d.q_heads),
                    heads("d_q", op::k_d_q, d.q_heads, d.head_dim), heads("d_k", op::k_d_k, d.k_heads, d.head_dim),
                    heads("d_v", op::k_d_v, d.k_heads, d.head_dim)};
  return plan_of(context, op::info(), d, configured(context, kernels::attention_backward_kernel, options_of(d)),
                 std::move(bindings));
}

}  // namespace ligerdsl::lib
