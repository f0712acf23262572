// Tiles of integers whose elements are, within a thread, one scalar plus a constant per register: make_range, splats,
// and sums of them. Comparing two of them for equality needs one subtraction and then a comparison with a constant per
// element, where the tiles themselves would keep an index in a register for every element.
//
//   b * 4096 + arange(4096) == label      becomes      label - b * 4096 - (this thread's first column) == constant
//
// Everything is modulo 2^n, so the rewriting is exact; ordered comparisons would not be.
#pragma once

#include <optional>

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

class AffineTiles {
 public:
  /// Remembers the result of an op that was just lowered, if it has this form.
  void note(ThreadLowering& t, mlir::Operation* op);
  /// Lowers an equality of two such tiles; false if it is not one.
  bool lowerEquality(ThreadLowering& t, mlir::Operation* op);

 private:
  struct Affine {
    mlir::Value scalar;
    llvm::SmallVector<int64_t> offsets;  // per register
  };
  std::optional<Affine> describe(ThreadLowering& t, mlir::Operation* op);
  std::optional<Affine> combine(ThreadLowering& t, mlir::Operation* op, bool subtract);

  llvm::DenseMap<mlir::Value, Affine> known;
};

}  // namespace ligerdsl::compiler::nvptx
