// Matmuls that compute the gradients of a chunk from its exponentials, if logits are not stored.
// The exponentials are one matrix, or blocks of classes, of which all but the first are in
// d_weight's memory.
#pragma once

#include "lib/abi/fused_linear/linear_plan.h"
#include "lib/abi/fused_linear/views.h"
#include "lib/abi/kernel_matmul.h"

namespace ligerdsl::lib::head {

class ExponentialMatmuls {
 public:
  // smooths: the matmuls add the terms of label smoothing. x_is_given: chunk.x is the caller's x,
  // not a copy with zeros in ignored rows.
  ExponentialMatmuls(const KernelMatmul& products, const Desc& d, DType type, bool smooths,
                     bool in_blocks, bool x_is_given)
      : products_(products),
        classes_(d.n_classes),
        type_(type),
        smooths_(smooths),
        in_blocks_(in_blocks),
        x_is_given_(x_is_given) {}

  // Sets the views of the blocks of a chunk of `count` rows, if there are blocks.
  void select(const LinearLayout& layout, int64_t count, Views* views) const;
  // Sets views->chunk.logits to the exponentials of the first `columns` classes of a block.
  void select_block(int64_t block, int64_t columns, Views* views) const;

  // Computes d_x = f (e w), or d_x += f (e w) with `add`, for the classes of views.chunk.logits and
  // views.block.weight. If there are blocks, computes d_x for all classes.
  void multiply_d_x(const Call& call, const LinearLayout& layout, bool add,
                    const Views& views) const;
  // Computes d_weight = e^T (f x), or d_weight += e^T (f x) with `add`.
  void multiply_d_weight(const Call& call, const Views& views, bool add) const;
  // Computes d_weight = d^T x, or d_weight += d^T x with `add`, for the rows whose gradient d is
  // views.chunk.logits. Reads ignored rows of x as zeros.
  void add_rows(const Call& call, const Views& views, bool add) const;

 private:
  void multiply(const Call& call, runtime::Product product, const BoundTensor& a,
                const BoundTensor& b, const KernelMatmul::OptionalViews& optional, bool add,
                const BoundTensor& c) const;
  KernelMatmul::OptionalViews optional_views_of_d_x(const Views& v, bool smooths) const;

  const KernelMatmul& products_;
  int64_t classes_;
  DType type_;
  bool smooths_, in_blocks_, x_is_given_;
};

}  // namespace ligerdsl::lib::head
