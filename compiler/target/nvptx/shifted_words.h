// Elements of a tile as words of 4 bytes, and shifts of such words by a number of bytes known at
// run time.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

inline constexpr int64_t kWordBytes = 4;

/// Appends the words that hold these elements. The elements fill whole words.
void appendWords(ThreadLowering& t, llvm::ArrayRef<mlir::Value> elements,
                 llvm::SmallVectorImpl<mlir::Value>& words);

/// Appends the elements that these words hold.
void appendElements(ThreadLowering& t, llvm::ArrayRef<mlir::Value> words, mlir::Type element,
                    llvm::SmallVectorImpl<mlir::Value>& elements);

/// Returns the `count` words that begin `bytes` after the first of `words`. The largest step
/// of the shift, `largestStep` words, is a power of two. `bytes` is a multiple of `elementBytes`,
/// and less than twice the largest step.
llvm::SmallVector<mlir::Value> shiftWords(ThreadLowering& t, llvm::ArrayRef<mlir::Value> words,
                                          mlir::Value bytes, int64_t elementBytes,
                                          int64_t largestStep, int64_t count);

}  // namespace ligerdsl::compiler::nvptx
