// The gradients of a chunk whose logits are not stored: products of its exponentials, which lie as a matrix, or in blocks of
// classes of which d_weight's memory holds all but the first.
#pragma once

#include "lib/src/fused_linear/linear_plan.h"
#include "lib/src/fused_linear/views.h"
#include "lib/src/kernel_matmul.h"

namespace ligerdsl::lib::head {

class ExponentialProducts {
 public:
  // smooths: the products add what smoothing does.
  ExponentialProducts(const KernelMatmul& products, const Desc& d, DType type, bool smooths, bool in_blocks)
      : products_(products),
        classes_(d.n_classes),
        type_(type),
        smooths_(smooths),
        in_blocks_(in_blocks),
        x_is_given_(dtype_of(d.dtype) == type) {}

  // The views of a chunk of `count` rows that show its blocks, where it has some.
  void select(const LinearLayout& layout, int64_t count, Views* views) const;
  // v.chunk.logits becomes the block's exponentials, of its first `columns` classes.
  void select_block(int64_t block, int64_t columns, Views* views) const;

  // d_x [+]= f (e w), of the classes that v.chunk.logits and v.block.weight show, or of all blocks.
  void multiply_d_x(const Call& call, const LinearLayout& layout, bool add, const Views& views) const;
  // d_weight [+]= e^T (f x).
  void multiply_d_weight(const Call& call, const Views& views, bool add) const;
  // d_weight [+]= d^T x of rows whose gradient v.chunk.logits is, with zeros in ignored rows of x.
  void add_rows(const Call& call, const Views& views, bool add) const;

 private:
  void multiply(const Call& call, runtime::Product product, const BoundTensor& a, const BoundTensor& b,
                const KernelMatmul::Factors& factors, bool add, const BoundTensor& c) const;
  KernelMatmul::Factors factors_of_d_x(const Views& v, bool smooths) const;

  const KernelMatmul& products_;
  int64_t classes_;
  DType type_;
  bool smooths_, in_blocks_;
  bool x_is_given_;  // chunk.x is the caller's; a copy would have zeros in ignored rows
};

}  // namespace ligerdsl::lib::head
