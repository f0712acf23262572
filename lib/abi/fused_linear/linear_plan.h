// Shared parts of plans that compute a loss from x and a weight: matrices and views of the caller's
// tensors and of the workspace, checks, and conversions between matmuls.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "kernels/reduce/convert_rows.h"
#include "lib/abi/fused_linear/chunks.h"
#include "lib/abi/kernel_step.h"
#include "lib/abi/ops/support.h"
#include "runtime/kernel/matmul.h"

namespace ligerdsl::lib {

inline BoundTensor make_view(std::byte* data, DType type, int64_t rows, int64_t cols,
                             int64_t stride) {
  return {.data = data,
          .dims = {rows, cols},
          .strides = {stride, 1},
          .rank = 2,
          .dtype = type,
          .present = true};
}

inline BoundTensor make_vector(std::byte* data, DType type, int64_t size) {
  return {.data = data, .dims = {size}, .strides = {1}, .rank = 1, .dtype = type, .present = true};
}

// Returns the vector as a matrix of one row.
inline BoundTensor as_row(const BoundTensor& vector) {
  return make_view(vector.data, vector.dtype, 1, vector.dims[0], vector.dims[0]);
}

inline BoundTensor rows_of(BoundTensor tensor, int64_t first, int64_t count) {
  if (!tensor.present) return tensor;
  tensor.data += first * tensor.strides[0] * size_of(tensor.dtype);
  tensor.dims[0] = count;
  return tensor;
}

inline BoundTensor columns_of(BoundTensor tensor, int64_t first, int64_t count) {
  tensor.data += first * size_of(tensor.dtype);
  tensor.dims[1] = count;
  return tensor;
}

inline runtime::Matrix matrix(const BoundTensor& t) {
  return {t.data, t.dtype, t.dims[0], t.dims[1], t.dims[0] > 1 ? t.strides[0] : t.dims[1]};
}

// Fails if rows overlap, as in a broadcast or sliding view, because matmuls need disjoint rows.
inline void check_rows_disjoint(const char* name, const BoundTensor& t) {
  if (t.dims[0] <= 1 || t.strides[0] >= t.dims[1]) return;
  fail(Status::invalid_shape, std::string("`") + name + "`: expected a row stride of at least " +
                                  std::to_string(t.dims[1]) + ", got " +
                                  std::to_string(t.strides[0]) + "; make the tensor contiguous");
}

inline constexpr int64_t kMostPadding = 128;  // largest padding after a row of logits, in elements

// Fails if rows are too long for the 32-bit strides of matmuls.
inline void check_product_width(const char* name, int64_t width) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - kMostPadding;
  if (width > kMost)
    fail(Status::invalid_shape, std::string("`") + name + "`: expected at most " +
                                    std::to_string(kMost) + " for matmuls, got " +
                                    std::to_string(width));
}

// Returns the reason why a call with `rows` rows is refused, or "". Matrix libraries use 32-bit
// sizes. The logits of all rows must fit in the largest possible workspace, so that no size of a
// layout overflows.
inline std::string refuse_linear(int64_t rows, int64_t classes, int64_t cols) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMostBytes = 4;  // bytes of the largest element in the workspace
  if (rows > kMost)
    return "matmuls take at most " + std::to_string(kMost) + " rows; split the call";
  // Upper bound of the elements per row. A CPU needs copies of x, d_x and the scaled x for each
  // row, a copy of the weight, and an accumulator of d_weight. Tiles have at least 128 columns, so
  // their statistics need less than a sixteenth of the logits.
  const kernels::Count of_row = kernels::Count(classes) + classes / 16 + 2 * kMostPadding +
                                (kernels::Count(cols) + kMostPadding) * 3;
  return refuse_workspace(
      (kernels::Count(classes) * (kernels::Count(cols) + kMostPadding) * 2 + of_row * rows) *
      kMostBytes);
}

// Fails if the workspace exceeds `limit` (0: no limit). `chosen` is true if the library chose the
// number of rows per chunk; `hint` says how the caller can reduce the workspace.
inline void check_limit(const LinearLayout& layout, int64_t rows, int64_t limit, bool chosen,
                        const char* hint) {
  if (limit == 0 || layout.bytes <= static_cast<size_t>(limit)) return;
  fail(Status::invalid_argument, "`max_workspace_bytes`: expected at least " +
                                     std::to_string(layout.bytes) + " bytes for " +
                                     std::to_string(rows) +
                                     (chosen ? " rows, even with chunks of one row, got "
                                             : " rows with the requested chunks, got ") +
                                     std::to_string(limit) + (layout.add_up_d_weight ? hint : ""));
}

// Returns a step that converts rows of `cols` elements from view `in` to view `out` of a call's
// table.
inline std::optional<KernelStep> convert_step(Context& context, DType from, DType to, int64_t cols,
                                              int in, int out) {
  return std::make_optional<KernelStep>(
      context, kernels::convert_rows(context.machine(), from, to, cols).steps[0],
      StepNames{.views = {{"in", in}, {"out", out}}});
}
inline std::optional<KernelStep> zero_step(Context& context, DType type, int64_t cols, int out) {
  return std::make_optional<KernelStep>(context,
                                        kernels::zero_rows(context.machine(), type, cols).steps[0],
                                        StepNames{.views = {{"out", out}}});
}

// Returns the number C of rows per chunk below which adding to d_weight (8 V H bytes) takes longer
// than a matmul (2 C V H flop). A GPU does about 190 flop per byte, a CPU about 16.
inline int64_t few_rows(const kernels::Machine& machine) {
  return machine.is_gpu() ? 768 : 64;
}

// Rows or columns [first, first + size). If `total` of them are processed `each` at a time, parts()
// returns the parts to prepare matmuls for: the first, the second, which may be less aligned, and
// the last.
struct Part {
  int64_t first, size;
};
inline std::array<Part, 3> parts(int64_t total, int64_t each) {
  const int64_t last = (total - 1) / each * each, second = std::min(each, last);
  return {Part{0, std::min(each, total)},
          {second, std::min(each, total - second)},
          {last, total - last}};
}

// Returns a matrix that describes rows of the caller's contiguous tensor, or of a copy that begins
// with these rows. It prepares a matmul, so only the alignment of its address matters.
inline runtime::Matrix rows_at(DType type, const Part& part, int64_t cols, bool copy) {
  const int64_t offset = copy ? 0 : part.first * cols * size_of(type);
  return {reinterpret_cast<void*>(static_cast<uintptr_t>(offset)), type, part.size, cols, cols};
}

}  // namespace ligerdsl::lib
