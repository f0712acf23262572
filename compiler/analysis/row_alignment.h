// Proof that an alignment offset (tile.alignment_offset) aligns the rows of an access.
#pragma once

#include "compiler/dialect/tile.h"

namespace ligerdsl::compiler {

/// Attribute of tgpu.ring_fill by cp.async: the parts whose rows are aligned by an alignment
/// offset. The op's region returns these offsets, in order, after the indices. The 16 bytes in
/// which a row begins are copied whole. Readers replace the elements before the row.
inline constexpr llvm::StringLiteral kOffsetPartsAttr = "tgpu.offset_parts";
/// Attribute of tgpu.ring_read: elements of the last dimension before the limit read as 0. Without
/// it, those from the limit on do. The limit is inside the first 16 bytes.
inline constexpr llvm::StringLiteral kBeforeLimitAttr = "tgpu.before_limit";

/// Returns true if all rows of a tile have one alignment offset, and `alignmentOffset` is proved to
/// be that offset. Every whole vector of the tile then begins at a multiple of tile::kVectorBytes.
///
/// The offset may come from another row if both rows are proved to begin at the same place inside a
/// vector. The proof uses one or both of these facts:
/// - The distance of the rows is a multiple of 16 bytes. In a loop over rows r, r + step, ..., this
///   is the step times the stride.
/// - The rows have one index in two views with equal strides, both at multiples of 16 bytes.
bool alignmentOffsetAligns(mlir::Value alignmentOffset, mlir::Value view, mlir::ValueRange indices,
                           llvm::ArrayRef<int64_t> tileShape);

/// Returns true if the row of a load is at a multiple of 16 bytes, but the load has the alignment
/// offset of another row. An example is a weight that is read with the offset of a row of x. Each
/// vector of the tile then overlaps two aligned vectors.
bool isShiftOfAlignedRow(tile::LoadTileOp load);

/// Returns true if a load or store outside of loops moves a tile of an array of unknown length,
/// which may begin inside a vector. Its threads access aligned words and shift them.
bool isUnalignedArray(mlir::Operation* access);

}  // namespace ligerdsl::compiler
