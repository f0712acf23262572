// Attention: the window of keys of each query, and views with a dynamic number of tokens and
// sequences, so that plans of different sizes share compiled code.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

using kernels::AttentionOptions;

// Returns how many keys after its own position a query sees: 0 if attention is causal; negative:
// all.
template <class Desc>
int64_t right_of(const Desc& d) {
  return d.causal ? 0 : d.window_right;
}

template <class Desc>
AttentionOptions heads_of(const Desc& d) {
  if (d.q_heads % d.k_heads != 0)
    fail(Status::invalid_shape,
         "`k_heads`: expected a divisor of q_heads = " + std::to_string(d.q_heads) + ", got " +
             std::to_string(d.k_heads));
  return {.type = dtype_of(d.dtype),
          .dim = d.head_dim,
          .heads = d.q_heads,
          .kv_heads = d.k_heads,
          .left = d.window_left >= 0,
          .right = right_of(d) >= 0,
          .softcap = d.softcap != 0};
}

template <class Desc>
AttentionOptions options_of(const Desc& d) {
  AttentionOptions options = heads_of(d);
  options.queries = d.n_queries, options.keys = d.n_keys;
  return options;
}

// Returns a length of at least 1, because programs divide by numbers of blocks. If no sequence has
// tokens, a program still runs. It writes the results of queries without keys, or of keys without
// queries.
int64_t longest(int64_t length) {
  return std::max<int64_t>(length, 1);
}

template <class Desc>
AttentionOptions options_of_sequences(const Desc& d) {
  AttentionOptions options = heads_of(d);
  if (d.n_bounds < 2)
    fail(Status::invalid_shape,
         "`n_bounds`: expected 2 or more bounds in cu_seqlens_q (number of sequences + 1), got " +
             std::to_string(d.n_bounds));
  for (const auto& [name, most] :
       {std::pair("max_seqlen_q", d.max_seqlen_q), {"max_seqlen_k", d.max_seqlen_k}})
    if (most < 0)
      fail(Status::invalid_argument, std::string("`") + name +
                                         "`: expected the length of the longest sequence, got " +
                                         std::to_string(most));
  options.queries = longest(d.max_seqlen_q), options.keys = longest(d.max_seqlen_k);
  options.sequences = d.n_bounds - 1;
  options.index_type = dtype_of(d.index_dtype);
  return options;
}

// Adds the optional gradients: d_sinks and d_lse.
template <class Desc>
AttentionOptions with_more_gradients(AttentionOptions options, const Desc& d) {
  options.with_sinks = d.with_sinks != 0, options.with_d_lse = d.with_d_lse != 0;
  return options;
}

// Returns a view equal to the tensor. Its numbers of heads and columns are compile-time constants;
// batch size and number of tokens are dynamic.
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
OperationPlan::Bindings::Derived of_heads(const char* name, int tensor, int64_t count) {
  OperationPlan::Bindings::Derived view = numbers(name, tensor, count);
  view.exact = {count};
  return view;
}
// Like heads(), for the tokens of concatenated sequences, which have no batch dimension.
OperationPlan::Bindings::Derived tokens(const char* name, int tensor, int64_t count, int64_t dim) {
  OperationPlan::Bindings::Derived view = heads(name, tensor, count, dim);
  view.exact = {-1, count, dim};
  return view;
}
OperationPlan::Bindings::Derived token_numbers(const char* name, int tensor, int64_t count) {
  OperationPlan::Bindings::Derived view = numbers(name, tensor, count);
  view.exact = {count, -1};
  return view;
}

template <class Desc>
OperationPlan::Bindings bindings_of(const Desc& d, OperationPlan::Number rows) {
  const double scale =
      d.scale != 0 ? double{d.scale} : 1 / std::sqrt(static_cast<double>(d.head_dim));
  return {.numbers = {{"scale", scale},
                      {"cap", d.softcap},
                      {"inverse_cap", d.softcap != 0 ? 1 / double{d.softcap} : 0}},
          .integers = {{"window_left", d.window_left}, {"window_right", right_of(d)}},
          .rows = std::move(rows)};
}

// The length of the bounds is dynamic, so one kernel serves any number of sequences. The number of
// rows is the larger of the numbers of query tokens and key tokens.
template <class Desc>
OperationPlan::Bindings bindings_of_sequences(const Desc& d, int queries, int keys,
                                              int cu_seqlens_q, int cu_seqlens_k) {
  OperationPlan::Bindings bindings = bindings_of(
      d, [=](const Call& call) { return std::max(call.sizes[queries], call.sizes[keys]); });
  bindings.integers.emplace_back("max_queries", longest(d.max_seqlen_q));
  bindings.integers.emplace_back("max_keys", longest(d.max_seqlen_k));
  for (const auto& [name, tensor] :
       {std::pair("cu_seqlens_q", cu_seqlens_q), {"cu_seqlens_k", cu_seqlens_k}})
    bindings.views.push_back({.name = name,
                              .memory = name,
                              .view = [=](const Call& call) { return call.tensors[tensor]; },
                              .exact = {-1}});
  return bindings;
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_attention_forward_desc_t& d) {
  namespace op = attention_forward;
  AttentionOptions options = options_of(d);
  options.with_lse = d.with_lse != 0, options.with_sinks = d.with_sinks != 0;
  OperationPlan::Bindings bindings = bindings_of(d, size_of_call(op::dim_B));
  bindings.views = {
      heads("q", op::k_q, d.q_heads, d.head_dim), heads("k", op::k_k, d.k_heads, d.head_dim),
      heads("v", op::k_v, d.k_heads, d.head_dim), heads("o", op::k_o, d.q_heads, d.head_dim)};
  if (options.with_lse) bindings.views.push_back(numbers("lse", op::k_lse, d.q_heads));
  if (options.with_sinks) bindings.views.push_back(of_heads("sinks", op::k_sinks, d.q_heads));
  return plan_of(context, op::info(), d,
                 configured(context, kernels::attention_forward_kernel, options),
                 std::move(bindings));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_attention_backward_desc_t& d) {
  namespace op = attention_backward;
  OperationPlan::Bindings bindings = bindings_of(d, size_of_call(op::dim_B));
  bindings.views = {heads("d_o", op::k_d_o, d.q_heads, d.head_dim),
                    heads("q", op::k_q, d.q_heads, d.head_dim),
                    heads("k", op::k_k, d.k_heads, d.head_dim),
                    heads("v", op::k_v, d.k_heads, d.head_dim),
                    heads("o", op::k_o, d.q_heads, d.head_dim),
                    numbers("lse", op::k_lse, d.q_heads),
                    heads("d_q", op::k_d_q, d.q_heads, d.head_dim),
                    heads("d_k", op::k_d_k, d.k_heads, d.head_dim),
                    heads("d_v", op::k_d_v, d.k_heads, d.head_dim)};
  const AttentionOptions options = with_more_gradients(options_of(d), d);
  if (options.with_d_lse) bindings.views.push_back(numbers("d_lse", op::k_d_lse, d.q_heads));
  if (options.with_sinks) {
    bindings.views.push_back(of_heads("sinks", op::k_sinks, d.q_heads));
    bindings.views.push_back(of_heads("d_sinks", op::k_d_sinks, d.q_heads));
  }
  return plan_of(context, op::info(), d,
                 configured(context, kernels::attention_backward_kernel, options),
                 std::move(bindings));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_attention_varlen_forward_desc_t& d) {
  namespace op = attention_varlen_forward;
  AttentionOptions options = options_of_sequences(d);
  options.with_lse = d.with_lse != 0, options.with_sinks = d.with_sinks != 0;
  OperationPlan::Bindings bindings =
      bindings_of_sequences(d, op::dim_S, op::dim_T, op::k_cu_seqlens_q, op::k_cu_seqlens_k);
  for (auto&& view :
       {tokens("q", op::k_q, d.q_heads, d.head_dim), tokens("k", op::k_k, d.k_heads, d.head_dim),
        tokens("v", op::k_v, d.k_heads, d.head_dim), tokens("o", op::k_o, d.q_heads, d.head_dim)})
    bindings.views.push_back(view);
  if (options.with_lse) bindings.views.push_back(token_numbers("lse", op::k_lse, d.q_heads));
  if (options.with_sinks) bindings.views.push_back(of_heads("sinks", op::k_sinks, d.q_heads));
  return plan_of(context, op::info(), d,
                 configured(context, kernels::attention_forward_kernel, options),
                 std::move(bindings));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_attention_varlen_backward_desc_t& d) {
  namespace op = attention_varlen_backward;
  OperationPlan::Bindings bindings =
      bindings_of_sequences(d, op::dim_S, op::dim_T, op::k_cu_seqlens_q, op::k_cu_seqlens_k);
  for (auto&& view :
       {tokens("d_o", op::k_d_o, d.q_heads, d.head_dim),
        tokens("q", op::k_q, d.q_heads, d.head_dim), tokens("k", op::k_k, d.k_heads, d.head_dim),
        tokens("v", op::k_v, d.k_heads, d.head_dim), tokens("o", op::k_o, d.q_heads, d.head_dim),
        token_numbers("lse", op::k_lse, d.q_heads), tokens("d_q", op::k_d_q, d.q_heads, d.head_dim),
        tokens("d_k", op::k_d_k, d.k_heads, d.head_dim),
        tokens("d_v", op::k_d_v, d.k_heads, d.head_dim)})
    bindings.views.push_back(view);
  const AttentionOptions options = with_more_gradients(options_of_sequences(d), d);
  if (options.with_d_lse) bindings.views.push_back(token_numbers("d_lse", op::k_d_lse, d.q_heads));
  if (options.with_sinks) {
    bindings.views.push_back(of_heads("sinks", op::k_sinks, d.q_heads));
    bindings.views.push_back(of_heads("d_sinks", op::k_d_sinks, d.q_heads));
  }
  return plan_of(context, op::info(), d,
                 configured(context, kernels::attention_backward_kernel, options),
                 std::move(bindings));
}

}  // namespace ligerdsl::lib
