// RoPE. The kernel sees a head as its two halves: [batch, position, head, 2, D / 2], and the last column of an odd D
// apart.
#include "kernels/rope.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

using Derived = OperationPlan::Bindings::Derived;

Derived halves(const char* name, const std::string& memory, int tensor, int64_t heads, int64_t half) {
  return {.name = name,
          .memory = memory,
          .view =
              [=](const Call& call) {
                BoundTensor view = call.tensors[tensor];
                view.rank = 5;
                view.dims[3] = 2;
                view.strides[3] = half;
                view.dims[4] = half;
                view.strides[4] = 1;
                return view;
              },
          .exact = {-1, -1, heads, 2, half}};
}

// The last column, which an odd head width leaves alone.
Derived tail(const char* name, const std::string& memory, int tensor, int64_t heads, int64_t half) {
  return {.name = name,
          .memory = memory + " tail",
          .view =
              [=](const Call& call) {
                BoundTensor view = call.tensors[tensor];
                view.rank = 3;
                view.data += 2 * half * size_of(view.dtype);
                return view;
              },
          .exact = {-1, -1, heads}};
}

// cos or sin as [batch, position, D / 2]; one table for all batches has a batch stride of 0.
Derived table(const char* name, int tensor, int64_t half) {
  return {.name = name,
          .memory = name,
          .view =
              [=](const Call& call) {
                BoundTensor view = call.tensors[tensor];
                const int64_t batch = call.sizes[rope::dim_B], positions = call.sizes[rope::dim_S];
                const int lead = view.rank - 2;
                const bool fits = (lead == 0 || lead == 1) && view.dims[lead] == positions &&
                                  view.dims[lead + 1] >= half &&
                                  (lead == 0 || view.dims[0] == 1 || view.dims[0] == batch);
                if (!fits) {
                  fail(Status::invalid_shape,
                       std::string("`") + name +
                           "`: expected [S, D], [1, S, D] or [B, S, D] with S = " + std::to_string(positions) +
                           ", B = " + std::to_string(batch) + ", D >= " + std::to_string(half));
                }
                const int64_t batch_stride = lead == 1 && view.dims[0] == batch ? view.strides[0] : 0;
                const int64_t position_stride = view.strides[lead];
                view.rank = 3;
                view.dims[0] = batch;
                view.dims[1] = positions;
                view.dims[2] = half;
                view.strides[0] = batch_stride;
                view.strides[1] = position_stride;
                view.strides[2] = 1;
                return view;
              },
          .exact = {-1, -1, half}};
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_rope_desc_t& d) {
  if (d.head_dim < 2) fail(Status::invalid_shape, "`head_dim`: expected at least 2, got " + std::to_string(d.head_dim));
  const int64_t half = d.head_dim / 2, k_heads = d.with_k ? d.k_heads : 0;
  if (d.with_k && k_heads < 1) fail(Status::invalid_shape, "`k_heads`: expected at least 1 with k, got 0");
  const kernels::RopeOptions options{.type = dtype_of(d.dtype),
                                     .angle_type = dtype_of(d.table_dtype),
                                     .q_heads = d.q_heads,
                                     .k_heads = k_heads,
                                     .head_dim = d.head_dim,
                                     .batched_angles = true};
  OperationPlan::Bindings bindings;
  bindings.numbers = {{"sign", d.inverse ? -1.0 : 1.0}};
  bindings.rows = [](const Call& call) { return call.sizes[rope::dim_B] * call.sizes[rope::dim_S]; };
  const auto add = [&](const std::string& name, int in, int out, int64_t heads) {
    const std::string out_memory = d.in_place ? name : name + " out";
    bindings.views.push_back(halves((name + "_in").c_str(), name, in, heads, half));
    bindings.views.push_back(halves((name + "_out").c_str(), out_memory, out, heads, half));
    if (d.head_dim % 2 == 0) return;
    bindings.views.push_back(tail((name + "_tail_in").c_str(), name, in, heads, half));
    bindings.views.push_back(tail((name + "_tail_out").c_str(), out_memory, out, heads, half));
  };
  add("q", rope::k_q, rope::k_q_out, d.q_heads);
  if (d.with_k) add("k", rope::k_k, rope::k_k_out, k_heads);
  bindings.views.push_back(table("cos", rope::k_cos, half));
  bindings.views.push_back(table("sin", rope::k_sin, half));
  return plan_of(context, rope::info(), d, kernels::rope(context->machine(), options), std::move(bindings));
}

}  // namespace ligerdsl::lib
