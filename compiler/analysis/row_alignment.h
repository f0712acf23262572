// Proof that an alignment offset (tile.alignment_offset) aligns the rows of an access.
#pragma once

#include "compiler/dialect/tile.h"

namespace ligerdsl::compiler {

/// Attribute of tgpu.ring_fill by cp.async: the ring's parts whose rows have an alignment offset.
/// The op's region returns these offsets after the indices, in the order of the parts. Copies
/// include the whole 16 bytes in which a row begins. Readers zero the elements before the row.
inline constexpr llvm::StringLiteral kOffsetPartsAttr = "tgpu.offset_parts";
/// Attribute of tgpu.ring_read that reverses its limit: elements of the last dimension before the
/// limit are read as 0, instead of the elements from the limit on. The limit is then inside the
/// first 16 bytes.
inline constexpr llvm::StringLiteral kBeforeLimitAttr = "tgpu.before_limit";

/// Returns true if all rows of a tile provably have the alignment offset `alignmentOffset`. Every
/// whole vector of the tile then begins at a multiple of tile::kVectorBytes.
///
/// The offset may come from another row if both rows provably begin at the same offset inside a
/// vector. The proof uses one or both of these facts:
/// - The distance between the rows is a multiple of 16 bytes. In a loop over rows r, r + step, ...,
///   the distance is the step times the stride.
/// - The rows have the same index in two views at multiples of 16 bytes, and the views' strides are
///   the same or differ by a multiple of 16 bytes.
bool alignmentOffsetAligns(mlir::Value alignmentOffset, mlir::Value view, mlir::ValueRange indices,
                           llvm::ArrayRef<int64_t> tileShape);

/// Returns true if a load's row is at a multiple of 16 bytes, but the load has another row's
/// alignment offset. An example is a weight that is read with the offset of a row of x. Each vector
/// of the tile then overlaps two aligned vectors.
bool isShiftOfAlignedRow(tile::LoadTileOp load);

/// Returns true if a load or store outside loops accesses a tile of a one-dimensional view whose
/// length is unknown and whose address need not be a multiple of 16 bytes. The threads access
/// aligned words and shift them.
bool isUnalignedArray(mlir::Operation* access);

}  // namespace ligerdsl::compiler
