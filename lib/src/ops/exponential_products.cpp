#include "lib/src/ops/exponential_products.h"

namespace ligerdsl::lib::head {

using runtime::Product;

// Of others there is none where the first block holds all classes.
void ExponentialProducts::select(const LinearLayout& layout, int64_t count, Views* views) const {
  if (!in_blocks_) return;
  Views& v = *views;
  const BoundTensor& logits = v[kLogits];
  v[kFirstBlock] = layout.in_d_weight ? make_view(logits.data, type_, count, layout.columns, layout.columns) : logits;
  const int64_t columns = v[kFirstBlock].dims[1], stride = v[kFirstBlock].strides[0];
  const int64_t others = layout.in_d_weight ? kernels::ceil_div(classes_, columns) - 1 : 0;
  v[kOtherBlocks] = {.data = layout.in_d_weight ? v[kDWeightWanted].data : logits.data,
                     .dims = {others, count, columns},
                     .strides = {others > 1 ? count * stride : 0, count > 1 ? stride : 0, 1},
                     .rank = 3,
                     .dtype = type_,
                     .present = true};
}

void ExponentialProducts::select_block(int64_t block, int64_t columns, Views* views) const {
  Views& v = *views;
  v[kLogits] = v[kFirstBlock];
  const int64_t elements = v[kFirstBlock].dims[0] * v[kFirstBlock].dims[1];
  if (block > 0) v[kLogits].data = v[kOtherBlocks].data + (block - 1) * elements * size_of(type_);
  v[kLogits].dims[1] = columns;
}

void ExponentialProducts::multiply(const Call& call, const Views& v, Product product, View b,
                                   const KernelMatmul::Factors& factors, bool add, View c) const {
  products_.multiply_with(product, matrix(v[kLogits]), matrix(v[b]), factors, add, matrix(v[c]), call.stream);
}

KernelMatmul::Factors ExponentialProducts::factors_of_d_x(const Views& v, bool smooths) const {
  KernelMatmul::Factors factors{.row_scale = &v[kFactor], .places = &v[kPlaces]};
  if (smooths) factors.outer_rows = &v[kSmooth], factors.outer_cols = &v[kWeightSums];
  return factors;
}

// The first block alone rounds little of d_x before the others are added.
void ExponentialProducts::multiply_d_x(const Call& call, const LinearLayout& layout, bool add, Views* views) const {
  Views& v = *views;
  const KernelMatmul::Factors factors = factors_of_d_x(v, smooths_ && !add);
  if (!in_blocks_) return multiply(call, v, Product::nn, kWeight, factors, add, kDX);
  const BoundTensor logits = v[kLogits], weight = v[kWeight];
  const int64_t of_first = v[kFirstBlock].dims[1];
  v[kLogits] = v[kFirstBlock];
  v[kWeight] = rows_of(weight, 0, of_first);
  multiply(call, v, Product::nn, kWeight, factors, false, kDX);
  if (layout.in_d_weight)
    products_.add_blocks(v[kOtherBlocks], layout.block_shift, matrix(rows_of(weight, of_first, classes_ - of_first)),
                         factors_of_d_x(v, false), matrix(v[kDX]), call.stream);
  v[kLogits] = logits, v[kWeight] = weight;
}

void ExponentialProducts::multiply_d_weight(const Call& call, const Views& v, bool add) const {
  const BoundTensor depth = rows_of(v[kCounted], 0, 2);
  KernelMatmul::Factors factors{.depth = &depth};
  if (smooths_) factors.outer_rows = &v[kClassFactor], factors.outer_cols = &v[kXSums];
  multiply(call, v, Product::tn, kScaledX, factors, add, kDWeight);
}

void ExponentialProducts::add_rows(const Call& call, const Views& v, bool add) const {
  multiply(call, v, Product::tn, kX, {.depth = &v[kAllDepth]}, add, kDWeight);
  if (x_is_given_) multiply(call, v, Product::tn, kX, {.depth = &v[kAllDepth], .labels = &v[kLabels]}, true, kDWeight);
}

}  // namespace ligerdsl::lib::head
