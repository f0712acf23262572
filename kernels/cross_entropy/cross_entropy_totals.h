// Launches before and after the rows of cross-entropy and similar losses: counts before, totals
// after.
#pragma once

#include <string>

#include "kernels/cross_entropy/cross_entropy.h"

namespace ligerdsl::kernels {

// Minimum number of rows for a total in two launches. On an H200 the second launch costs 0.8 us,
// and one program reads this many labels of 8 bytes in 3 us.
inline constexpr int64_t kRowsOfOneProgram = 16384;
// Minimum number of rows per program that stores a partial result.
inline constexpr int64_t kRowsOfTotalProgram = 2048;
// Maximum number of programs, so that partial results fill at most one tile. It does not depend on
// the machine.
inline constexpr int64_t kMostTotalPrograms = 128;

// Appends the steps of cross_entropy_count and their scratch, except `counts`. A tile has
// meta.block labels.
void add_count(Operation& op, const std::string& name, DType type, const CrossEntropyMeta& meta);

// Appends the steps of cross_entropy_finish and their scratch. The caller provides row_loss,
// row_z_loss and row_accuracy, which have `results` elements.
void add_finish(Operation& op, const std::string& name, DType type, const CrossEntropyMeta& meta,
                const Size& results);

}  // namespace ligerdsl::kernels
