// The launches around the rows of cross-entropy and of what shares its labels: counts before them, sums after them.
#pragma once

#include <string>

#include "kernels/cross_entropy/cross_entropy.h"

namespace ligerdsl::kernels {

// Rows that one program still adds up alone. An H200 takes 0.8 us for a second launch, and 3 us for one program that
// reads so many labels of 8 bytes. (16,384 rows: predicted 3.3 us alone, 3.0 us in parts.)
inline constexpr int64_t kRowsOfOneProgram = 16384;
inline constexpr int64_t kRowsOfTotalProgram = 2048;  // at least, of a program that stores a partial result
inline constexpr int64_t kMostTotalPrograms = 128;    // at most one tile of partial results; the same on every machine

// Adds the steps of cross_entropy_count and their scratch, except `counts`. The tile is meta.block labels.
void add_count(Operation& op, const std::string& name, DType type, const CrossEntropyMeta& meta);

// Adds the steps of cross_entropy_finish and their scratch, except row_loss and the like, which have `results` numbers.
void add_finish(Operation& op, const std::string& name, DType type, const CrossEntropyMeta& meta, const Size& results);

}  // namespace ligerdsl::kernels
