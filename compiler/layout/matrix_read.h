// Tiles that a warp reads from rows of shared memory by ldmatrix (PTX ISA). An instruction reads up
// to four matrices of 8 rows of 16 bytes, and each lane gives the address of one row. Elements have
// 16 bits, or another size if a register holds contiguous elements of one row.
#pragma once

#include <optional>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

struct MatrixRead {
  /// Layout of a tile of 16-byte units, [rows, bytes / 16]. It says which unit each lane addresses
  /// in each instruction. Consecutive instructions load consecutive registers of the tile.
  LinearLayout rows;
  int64_t matrices;  // matrices per instruction: 1, 2 or 4
  bool transposed;
};

/// Returns the ldmatrix reads for a tile with elements of 1, 2 or 4 bytes, or nothing if ldmatrix
/// cannot read this layout.
std::optional<MatrixRead> matrixRead(const LinearLayout& tile, int64_t bytes = 2);

}  // namespace ligerdsl::compiler
