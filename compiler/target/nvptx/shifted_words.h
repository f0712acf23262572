// Conversions of a tile's elements to 4-byte words and back, and shifts of these words by a number
// of bytes that is known at run time.
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

/// Returns the `count` words that begin `bytes` bytes after the start of `words`. The value of
/// `bytes` is a multiple of `elementBytes` and less than 8 * largestStep. The code shifts by
/// largestStep (a power of two), largestStep / 2, ..., 1 words, then by bytes in a word.
llvm::SmallVector<mlir::Value> shiftWords(ThreadLowering& t, llvm::ArrayRef<mlir::Value> words,
                                          mlir::Value bytes, int64_t elementBytes,
                                          int64_t largestStep, int64_t count);

}  // namespace ligerdsl::compiler::nvptx
