#include "lib/abi/fused_linear/exponential_matmuls.h"

namespace ligerdsl::lib::head {

using runtime::Product;

// If the first block holds all classes, other_blocks is empty.
void ExponentialMatmuls::select(const LinearLayout& layout, int64_t count, Views* views) const {
  if (!in_blocks_) return;
  Views& v = *views;
  const BoundTensor& logits = v.chunk.logits;
  v.exponentials.first_block =
      layout.in_d_weight ? make_view(logits.data, type_, count, layout.columns, layout.columns)
                         : logits;
  const int64_t columns = v.exponentials.first_block.dims[1],
                stride = v.exponentials.first_block.strides[0];
  const int64_t others = layout.in_d_weight ? kernels::ceil_div(classes_, columns) - 1 : 0;
  v.exponentials.other_blocks = {
      .data = layout.in_d_weight ? v.gradients.d_weight_wanted.data : logits.data,
      .dims = {others, count, columns},
      .strides = {others > 1 ? count * stride : 0, count > 1 ? stride : 0, 1},
      .rank = 3,
      .dtype = type_,
      .present = true};
}

void ExponentialMatmuls::select_block(int64_t block, int64_t columns, Views* views) const {
  Views& v = *views;
  v.chunk.logits = v.exponentials.first_block;
  const int64_t elements = v.exponentials.first_block.dims[0] * v.exponentials.first_block.dims[1];
  if (block > 0)
    v.chunk.logits.data =
        v.exponentials.other_blocks.data + (block - 1) * elements * size_of(type_);
  v.chunk.logits.dims[1] = columns;
}

void ExponentialMatmuls::multiply(const Call& call, Product product, const BoundTensor& a,
                                  const BoundTensor& b, const KernelMatmul::OptionalViews& optional,
                                  bool add, const BoundTensor& c) const {
  products_.multiply_with(product, matrix(a), matrix(b), optional, add, matrix(c), call.stream);
}

KernelMatmul::OptionalViews ExponentialMatmuls::optional_views_of_d_x(const Views& v,
                                                                      bool smooths) const {
  KernelMatmul::OptionalViews optional{.row_scale = &v.exponentials.factor,
                                       .places = &v.exponentials.places};
  if (smooths)
    optional.outer_rows = &v.smoothing.of_rows, optional.outer_cols = &v.smoothing.weight_sums;
  return optional;
}

// The first block's part of d_x is rounded before the other blocks add to it. The error is small,
// because one block's part is small.
void ExponentialMatmuls::multiply_d_x(const Call& call, const LinearLayout& layout, bool add,
                                      const Views& v) const {
  const BoundTensor &weight = v.block.weight, &d_x = v.gradients.d_x;
  const KernelMatmul::OptionalViews optional = optional_views_of_d_x(v, smooths_ && !add);
  if (!in_blocks_) return multiply(call, Product::nn, v.chunk.logits, weight, optional, add, d_x);
  const BoundTensor& first = v.exponentials.first_block;
  const int64_t columns = first.dims[1];
  multiply(call, Product::nn, first, rows_of(weight, 0, columns), optional, false, d_x);
  if (!layout.in_d_weight) return;
  products_.add_blocks(v.exponentials.other_blocks, layout.block_shift,
                       matrix(rows_of(weight, columns, classes_ - columns)),
                       optional_views_of_d_x(v, false), matrix(d_x), call.stream);
}

void ExponentialMatmuls::multiply_d_weight(const Call& call, const Views& v, bool add) const {
  const BoundTensor depth = rows_of(v.exponentials.counted, 0, 2);
  KernelMatmul::OptionalViews optional{.depth = &depth};
  if (smooths_)
    optional.outer_rows = &v.smoothing.class_factor, optional.outer_cols = &v.smoothing.x_sums;
  multiply(call, Product::tn, v.chunk.logits, v.exponentials.scaled_x, optional, add,
           v.gradients.d_weight);
}

void ExponentialMatmuls::add_rows(const Call& call, const Views& v, bool add) const {
  multiply(call, Product::tn, v.chunk.logits, v.chunk.x, {.depth = &v.exponentials.all_depth}, add,
           v.gradients.d_weight);
  if (x_is_given_)
    multiply(call, Product::tn, v.chunk.logits, v.chunk.x,
             {.depth = &v.exponentials.all_depth, .labels = &v.chunk.labels}, true,
             v.gradients.d_weight);
}

}  // namespace ligerdsl::lib::head
