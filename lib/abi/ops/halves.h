// Views of gate and up as the halves of one tensor.
#pragma once

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

/// Returns the view of half `which` (0 or 1) of a two-dimensional tensor along dimension `dim`.
/// `exact` has the half's sizes. Halves with the same `memory` may belong to the same tensor.
inline OperationPlan::Bindings::Derived half_of(const char* name, const std::string& memory,
                                                int tensor, int which, int dim,
                                                std::vector<int64_t> exact) {
  const int64_t size = exact[dim];
  return {.name = name,
          .memory = memory + (which ? ", up" : ", gate"),
          .view =
              [=](const Call& call) {
                BoundTensor view = call.tensors[tensor];
                view.dims[dim] = size;
                view.data += which * size * view.strides[dim] * size_of(view.dtype);
                return view;
              },
          .exact = std::move(exact)};
}

/// Returns the view of columns [which * width, (which + 1) * width) of a tensor [n, 2 * width].
inline OperationPlan::Bindings::Derived half_row(const char* name, const std::string& memory,
                                                 int tensor, int which, int64_t width) {
  return half_of(name, memory, tensor, which, 1, {-1, width});
}

}  // namespace ligerdsl::lib
