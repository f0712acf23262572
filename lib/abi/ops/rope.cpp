// RoPE. The kernel gets the rotated columns of a head as two halves, [batch, position, head, 2, h].
// With INTERLEAVED, pairs are contiguous, and the kernel gets [batch, position, head, 2 h]. Columns
// that are only copied are a separate view.
#include "kernels/rope/rope.h"

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

using Derived = OperationPlan::Bindings::Derived;
using kernels::RopeLayout;
using kernels::RopeOptions;

Derived rotated(const char* name, const std::string& memory, int tensor, int64_t heads,
                const RopeOptions& options) {
  const int64_t h = options.angles();
  if (options.layout == RopeLayout::interleaved) {
    return {.name = name,
            .memory = memory,
            .view =
                [=](const Call& call) {
                  BoundTensor view = call.tensors[tensor];
                  view.dims[3] = 2 * h;
                  return view;
                },
            .exact = {-1, -1, heads, 2 * h}};
  }
  return {.name = name,
          .memory = memory,
          .view =
              [=](const Call& call) {
                BoundTensor view = call.tensors[tensor];
                view.rank = 5;
                view.dims[3] = 2;
                view.strides[3] = h;
                view.dims[4] = h;
                view.strides[4] = 1;
                return view;
              },
          .exact = {-1, -1, heads, 2, h}};
}

// Returns the view of the columns after the rotated columns.
Derived tail(const char* name, const std::string& memory, int tensor, int64_t heads,
             const RopeOptions& options) {
  const int64_t first = 2 * options.angles(), columns = options.tail();
  return {.name = name,
          .memory = memory + " tail",
          .view =
              [=](const Call& call) {
                BoundTensor view = call.tensors[tensor];
                view.dims[3] = columns;
                view.data += first * size_of(view.dtype);
                return view;
              },
          .exact = {-1, -1, heads, columns}};
}

std::string shape_text(const BoundTensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.rank; ++i) text += (i ? ", " : "") + std::to_string(tensor.dims[i]);
  return text + "]";
}

// Returns the view of cos or sin as [batch, position, columns], or [3, batch, position, columns]
// for the multimodal layout. One table for all batches has batch stride 0.
Derived table(const char* name, int tensor, const RopeOptions& options) {
  const bool planes = options.layout == RopeLayout::multimodal;
  const int64_t columns = options.angles() * (options.complex_angles ? 2 : 1);
  const auto view_of = [=](const Call& call) {
    BoundTensor view = call.tensors[tensor];
    const int64_t batch = call.sizes[rope::dim_B], positions = call.sizes[rope::dim_S];
    const int last = view.rank - 1, row = view.rank - 2, lead = view.rank - 3;
    const bool rank_fits =
        planes ? view.rank == 4 && view.dims[0] == 3 : view.rank == 2 || view.rank == 3;
    const bool fits = rank_fits && view.dims[row] >= positions && view.dims[last] >= columns &&
                      (lead < 0 || view.dims[lead] == 1 || view.dims[lead] == batch);
    if (!fits) {
      fail(Status::invalid_shape,
           std::string("`") + name + "`: expected " +
               (planes ? "[3, 1, S, D] or [3, B, S, D]" : "[S, D], [1, S, D] or [B, S, D]") +
               " with S >= " + std::to_string(positions) + ", B = " + std::to_string(batch) +
               ", D >= " + std::to_string(columns) + ", got " + shape_text(view));
    }
    const int64_t plane_stride = planes ? view.strides[0] : 0, position_stride = view.strides[row];
    const int64_t batch_stride = lead >= 0 && view.dims[lead] == batch ? view.strides[lead] : 0;
    int d = 0;
    const auto dim = [&](int64_t size, int64_t stride) {
      view.dims[d] = size, view.strides[d++] = stride;
    };
    if (planes) dim(3, plane_stride);
    dim(batch, batch_stride);
    dim(positions, position_stride);
    dim(columns, 1);
    view.rank = d;
    return view;
  };
  std::vector<int64_t> exact{-1, -1, columns};
  if (planes) exact.insert(exact.begin(), 3);
  return {.name = name, .memory = name, .view = view_of, .exact = exact};
}

void check(const ligerdsl_rope_desc_t& d, const RopeOptions& options) {
  if (d.head_dim < 2)
    fail(Status::invalid_shape,
         "`head_dim`: expected at least 2, got " + std::to_string(d.head_dim));
  if (d.with_k && d.k_heads < 1)
    fail(Status::invalid_shape, "`k_heads`: expected at least 1 with k, got 0");
  const auto expect = [](bool right, const std::string& text) {
    if (!right) fail(Status::invalid_argument, text);
  };
  expect(d.rotary_dim == 0 || (d.rotary_dim >= 2 && d.rotary_dim <= d.head_dim),
         "`rotary_dim`: expected 0 or 2 to head_dim = " + std::to_string(d.head_dim) + ", got " +
             std::to_string(d.rotary_dim));
  const int64_t sections = d.time_section + d.height_section + d.width_section;
  const int64_t expected = options.layout == RopeLayout::multimodal ? options.angles() : 0;
  expect(sections == expected,
         "`time_section` + `height_section` + `width_section`: expected " +
             std::to_string(expected) +
             (expected ? ", half of the rotated columns" : " unless the layout is multimodal") +
             ", got " + std::to_string(sections));
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_rope_desc_t& d) {
  const RopeOptions options{.type = dtype_of(d.dtype),
                            .angle_type = dtype_of(d.table_dtype),
                            .q_heads = d.q_heads,
                            .k_heads = d.with_k ? d.k_heads : 0,
                            .head_dim = d.head_dim,
                            .rotary_dim = d.rotary_dim,
                            .batched_angles = true,
                            .layout = static_cast<RopeLayout>(d.layout),
                            .time_section = d.time_section,
                            .height_section = d.height_section,
                            .complex_angles = d.complex_table != 0};
  check(d, options);
  OperationPlan::Bindings bindings;
  bindings.numbers = {{"sign", d.inverse ? -1.0 : 1.0}};
  bindings.rows = [](const Call& call) {
    return call.sizes[rope::dim_B] * call.sizes[rope::dim_S];
  };
  const auto add = [&](const std::string& name, int in, int out, int64_t heads) {
    const std::string out_memory = d.in_place ? name : name + " out";
    bindings.views.push_back(rotated((name + "_in").c_str(), name, in, heads, options));
    bindings.views.push_back(rotated((name + "_out").c_str(), out_memory, out, heads, options));
    if (options.tail() == 0) return;
    bindings.views.push_back(tail((name + "_tail_in").c_str(), name, in, heads, options));
    bindings.views.push_back(tail((name + "_tail_out").c_str(), out_memory, out, heads, options));
  };
  add("q", rope::k_q, rope::k_q_out, d.q_heads);
  if (d.with_k) add("k", rope::k_k, rope::k_k_out, options.k_heads);
  bindings.views.push_back(table("cos", rope::k_cos, options));
  if (!d.complex_table) bindings.views.push_back(table("sin", rope::k_sin, options));
  return plan_of(context, rope::info(), d, configured(context, kernels::rope_kernel, options),
                 std::move(bindings));
}

}  // namespace ligerdsl::lib
