// Splits masked loads and stores that are wider than a vector register, if a register's part of the
// mask is constant.
//
//   load <16 x f32> [p], mask and(splat c, <8 x true, 8 x false>)     on AVX2: 8 lanes per register
//     -> concat(load <8 x f32> [p], mask splat c, zeros)
//
// LLVM 22.1 may read inactive lanes, or crash, if it finds only during instruction selection that a
// register's part of a mask is constant. Such masks occur if a row's width is known at compile
// time, but not whether the row exists. LLVM finds the masks of stores in the same way, so stores
// are split too.
#pragma once

#include "llvm/IR/PassManager.h"

namespace ligerdsl::compiler::cpu {

struct SplitMasked : llvm::PassInfoMixin<SplitMasked> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace ligerdsl::compiler::cpu
