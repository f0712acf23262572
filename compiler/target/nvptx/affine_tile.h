// Affine tiles of integers: each element of a thread is the sum of a scalar, the same for all its
// registers, and a constant per register. Such tiles are computed from make_range, splats and
// integer constants by additions, subtractions and shape ops.
//
// Testing two affine tiles for equality takes one subtraction, then one comparison with a constant
// per element. Without this form, each element's index would occupy a register.
//
//   b * 4096 + arange(4096) == label
//   becomes
//   label - b * 4096 - (this thread's first column) == constant
//
// The rewrite is exact for equalities because integers wrap modulo 2^n. It would not be exact for
// ordered comparisons.
#pragma once

#include <optional>

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

class AffineTiles {
 public:
  /// Records the result of an op that was just lowered, if it is affine.
  void note(ThreadLowering& t, mlir::Operation* op);
  /// Lowers `op` and returns true if it compares two affine tiles by == or !=, else returns false.
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
