// A partition access (load_tile, store_tile) of one op, resolved to one thread: addresses and masks.
//
// The tile's position costs one 64-bit offset; inside the tile, offsets are 32-bit wherever static strides keep them
// small, and what differs between the registers of a thread is a constant wherever strides are static. A chunk (up to
// 16 bytes of neighbouring elements, as far as base, strides and layout are known to be aligned) is one access.
//
// Masks, from cheap to dear, decided per dimension:
//   1. none: static sizes prove the tile inside the view;
//   2. one predicate for the tile: a squeezed dimension;
//   3. one predicate per chunk: remaining = min(size - tile origin, tile size), compared with the chunk's coordinate
//      (none for chunks that a static size holds in every thread);
//   4. the last dimension may end inside a chunk: chunks that fit are moved as in 3; the thread that holds the
//      straddling chunk then branches to an element-by-element access. A thread that holds a few elements of a size
//      that is not known moves them one by one instead, as in 3.
//   5. with an alignment offset the row begins inside the first chunk of its first tile, which is treated likewise.
//
// With an alignment offset everything counts from the tile's first column: the view ends `alignment_offset` elements
// later, and columns before element `begin` (what the tiles before leave of the alignment offset) are outside. Chunks
// are whole vectors if the alignment offset is that of the row, or where the caller has found (isAligned) that it might
// as well be.
#pragma once

#include <optional>

#include "compiler/target/nvptx/memory_access.h"

namespace ligerdsl::compiler::nvptx {

class TileAccess {
 public:
  /// What is known of tiles with an alignment offset.
  enum class OffsetKind { none, unknown, aligns };
  /// What moves a chunk: a load or store, or a copy that says how many of its bytes are inside, or of a tile that is known to
  /// be inside (isInside).
  enum class Mover { access, copy, copy_inside };

  TileAccess(ThreadLowering& t, mlir::Value view, mlir::ValueRange indices, llvm::ArrayRef<int64_t> tileShape,
             mlir::RankedTensorType tile, mlir::Value alignmentOffset = {}, OffsetKind kind = OffsetKind::none,
             Mover mover = Mover::access);

  /// Whether the tile's first column is at a multiple of 16 bytes.
  mlir::Value isAligned();

  /// True where all of the tile is inside the view; null = always. Cheaper than what chunks need, and equal in all threads.
  mlir::Value isInside();

  int64_t registers() const { return layout ? layout->registers() : 1; }

  /// Address of the chunk that begins at a register, or of its element `i`.
  mlir::Value pointer(int64_t reg, int64_t i = 0);

  /// Address of an access without tile dimensions.
  mlir::Value scalarAddress() const { return threadAddress; }

  /// True where the whole chunk is inside the view; null = always.
  mlir::Value inside(int64_t reg);

  /// How many bytes of the chunk are inside the view, i32; null = all.
  mlir::Value bytesInside(int64_t reg);

  /// True if a chunk may end outside of the view while it begins inside (case 4).
  bool mayStraddle() const;

  // Case 4. Chunks and this thread's origin are multiples of `chunk`, so the straddling chunk of every line begins at
  // the same place, and the same number of its elements is inside, in every thread.

  /// Registers of chunks that differ along the last dimension only, line by line.
  llvm::SmallVector<llvm::SmallVector<int64_t>> lines();
  // Case 5: chunk 0 of the line, in the registers that hold it.

  bool mayBeginInside() const { return begin && chunk > 1; }
  /// True in a thread that holds the chunk that the row begins and does not end in.
  mlir::Value holdsBegin();
  llvm::SmallVector<int64_t> firstChunks();
  /// Whether the row has begun at element `i` of the first chunk.
  mlir::Value hasBegun(int64_t i);

  // Case 4 again.
  /// True in a thread that holds the straddling chunks.
  mlir::Value holdsStraddle(llvm::ArrayRef<int64_t> line);
  /// True if the chunk at this register is the straddling one (given that there is one).
  mlir::Value straddles(int64_t reg);
  /// Whether element `i` of the straddling chunk is inside along the last dimension; decided here where the size is
  /// static.
  enum class Inside { no, yes, tested };
  Inside straddleKnows(int64_t i) const;
  mlir::Value straddleHas(int64_t i);
  /// Address of element `i` of the straddling chunk in the line of this register.
  mlir::Value straddlePointer(int64_t reg, int64_t i);
  /// True where the line of this register is inside along every other dimension; null = always.
  mlir::Value lineInside(int64_t reg);

  int64_t bytes() const { return view.getElementBytes(); }

  ThreadLowering& t;
  tile::ViewType view;
  const ThreadLayout* layout;  // null when the access is one scalar
  mlir::Type element;
  int64_t chunk = 1;    // elements of one access
  mlir::Value uniform;  // predicate that all accesses share; null = always

 private:
  // Of a line that begins where the tiles do.
  mlir::Value size(size_t axis);
  mlir::Value computeBegin();
  mlir::Value stride(size_t axis) { return slots[1 + view.getRank() + axis]; }
  bool isLast(size_t axis) const { return axis == tileAxes.back(); }

  bool hasAlignmentOffset(size_t axis) const { return offsetKind != OffsetKind::none && isLast(axis); }
  // begin <= coordinate(reg); null where every coordinate of this register is beyond.
  mlir::Value isBehindBegin(int64_t reg);

  int64_t sizeDivisor(size_t axis) const;
  int64_t strideDivisor(size_t axis) const;
  int64_t offsetDivisor(size_t axis) const;

  int64_t lastCoordinate(int64_t reg);
  // Where the straddling chunk begins, counted from this thread's first register.
  mlir::Value straddleBegin();

  // Elements of one access: the layout's run, at most 16 bytes, as long as every address is a multiple of it and it is
  // worth a branch where it may straddle.
  int64_t chunkSize() const;

  static std::optional<int64_t> constantIndex(mlir::Value index);
  static bool isConstantZero(mlir::Value index) { return constantIndex(index) == 0; }
  // A dimension that never leaves element 0 does not care about its stride.
  static bool isZero(mlir::Value index, int64_t tileDim) { return tileDim <= 1 && isConstantZero(index); }

  mlir::Value add(mlir::Value a, mlir::Value c);
  mlir::Value difference(mlir::Value a, mlir::Value c);
  mlir::Value times(mlir::Value a, int64_t factor);
  // An i32 coordinate times stride and element size, as i64 bytes.
  mlir::Value scaled(mlir::Value coordinate, size_t axis);

  // threadAddress = base + tile origin + this thread's part of the tile, in bytes.
  void computeOrigin();

  // Whether static sizes prove all of the tile to be inside along a dimension.
  bool isProvedInside(size_t axis) const;

  // Fills `uniform` or `remaining` for a dimension that is not proved inside.
  void computeMask(size_t axis);

  // How many elements of a dimension lie at or after this thread's first register.
  mlir::Value remainingHere(int dim);
  mlir::Value leftOf(mlir::Value left, const Coordinate& at, int dim);

  // The largest coordinate of a thread's first register.
  int64_t threadReach(int dim) const;

  // coordinate(reg) + n <= remaining; null where static sizes prove it for every thread.
  mlir::Value fits(int64_t reg, int dim, int64_t n);

  Pieces slots;  // of the view: pointer, sizes, strides
  llvm::ArrayRef<int64_t> tileShape;
  mlir::Value alignmentOffset;  // i32
  mlir::Value begin;            // i32; null without an alignment offset
  OffsetKind offsetKind;
  Mover mover;
  int64_t maxAlignmentOffset;  // begin is at most this
  llvm::SmallVector<mlir::Value> indexValues;
  llvm::SmallVector<int64_t> indexDivisors;
  llvm::SmallVector<size_t> tileAxes;                    // view axis of every tile dimension
  llvm::SmallVector<mlir::Value> remaining;              // i32 per view axis, null where nothing needs testing
  llvm::SmallVector<std::optional<int64_t>> staticLeft;  // the same where it is known
  llvm::SmallDenseMap<int, mlir::Value> remainingAtThread;
  mlir::Value threadAddress;  // i64
};

}  // namespace ligerdsl::compiler::nvptx
