// Tiles that a warp reads from rows of shared memory by ldmatrix (PTX ISA): up to four matrices of 8 rows
// of 16 bytes at a time, each lane naming one row. Of numbers of 16 bits, and of others where a register holds neighbours of a row.
#pragma once

#include <optional>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

struct MatrixRead {
  /// Of units of 16 bytes, [rows, bytes / 16]: the row that a lane names, for each instruction. An instruction brings the
  /// registers of the tile that follow those of the one before.
  LinearLayout rows;
  int64_t matrices;  // of an instruction: 1, 2 or 4
  bool transposed;
};

/// Of a tile of numbers of 1, 2 or 4 bytes. Nothing where the layout is not what the instruction brings.
std::optional<MatrixRead> matrixRead(const LinearLayout& tile, int64_t bytes = 2);

}  // namespace ligerdsl::compiler
