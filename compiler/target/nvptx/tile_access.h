// Addresses and masks of one thread's part of a tile access (load_tile, store_tile, ring fills).
//
// The origin of the tile is one 64-bit offset. Inside the tile, offsets have 32 bits if static
// strides keep them small. With static strides, the addresses of a thread's registers differ by
// constants.
//
// A chunk is one access: up to 16 bytes of contiguous elements, depending on the known alignment of
// base, strides and layout.
//
// Masks are chosen per dimension. From cheap to expensive:
// 1. No mask: static sizes prove that the tile is inside the view.
// 2. One predicate for the tile: the dimension is squeezed, or the view's size is a multiple of the
//    tile's.
// 3. One predicate per chunk compares the chunk's coordinate with remaining = min(size - tile
//    origin, tile size). A chunk that is inside a static size in every thread needs no predicate.
// 4. The last dimension may end inside a chunk. Chunks that fit are accessed as in 3. The thread
//    that holds the straddling chunk then branches to an element-by-element access. If a thread
//    holds only a few elements and the size is dynamic, chunks are so small that none straddles.
// 5. With an alignment offset, the row may begin inside the first chunk of its first tile. That
//    chunk is handled like the straddling chunk in 4.
//
// With an alignment offset of n, column 0 of the first tile is n elements before the row. The row
// then ends n columns later, and columns before `begin` are outside. `begin` is the part of n that
// earlier tiles have not covered. Chunks are whole vectors if the alignment offset is that of this
// row, or if the caller has tested isAligned().
#pragma once

#include <optional>

#include "compiler/target/nvptx/memory_access.h"

namespace ligerdsl::compiler::nvptx {

class TileAccess {
 public:
  /// Kind of an alignment offset: `aligns` makes chunks whole vectors, `unknown` single elements.
  enum class OffsetKind { none, unknown, aligns };
  /// Instruction that moves a chunk:
  /// - access: a load or store,
  /// - copy: a copy with the number of bytes inside the view as an operand,
  /// - copy_inside: a copy of a tile that is known to be inside (isInside).
  enum class Mover { access, copy, copy_inside };

  TileAccess(ThreadLowering& t, mlir::Value view, mlir::ValueRange indices,
             llvm::ArrayRef<int64_t> tileShape, mlir::RankedTensorType tile,
             mlir::Value alignmentOffset = {}, OffsetKind kind = OffsetKind::none,
             Mover mover = Mover::access);

  /// Returns an i1 that is true if the tile's first column is at a multiple of 16 bytes.
  mlir::Value isAligned();

  /// Returns a predicate that is true if the whole tile is inside the view, or null if it always
  /// is. The predicate is uniform and cheaper than the predicates of chunks.
  mlir::Value isInside();

  int64_t registers() const { return layout ? layout->registers() : 1; }

  /// Returns the address of element `i` of the chunk that begins at register `reg`.
  mlir::Value pointer(int64_t reg, int64_t i = 0);

  /// Returns the address of a scalar access: all dimensions are squeezed.
  mlir::Value scalarAddress() const { return threadAddress; }

  /// Returns a predicate that is true if the whole chunk is inside the view, or null if it always
  /// is.
  mlir::Value inside(int64_t reg);

  /// Returns the number of the chunk's bytes inside the view as an i32, or null if all are. If the
  /// row begins inside the chunk, the elements before it count too.
  mlir::Value bytesInside(int64_t reg);

  /// Returns true if a chunk may begin inside the view and end outside (case 4).
  bool mayStraddle() const;

  // Case 4. Chunks and this thread's origin are multiples of `chunk`. The straddling chunks of all
  // lines and threads therefore begin at the same column and have the same number of elements
  // inside.

  /// Returns the first registers of the chunks, grouped by line. Chunks of a line differ along the
  /// last dimension only.
  llvm::SmallVector<llvm::SmallVector<int64_t>> lines();
  // Case 5. The row may begin inside the chunk at column 0.

  bool mayBeginInside() const { return begin && chunk > 1; }
  /// Returns a predicate that is true in threads with the chunk at column 0, if the row begins but
  /// does not end inside it.
  mlir::Value holdsBegin();
  /// Returns the registers of the chunks at column 0, grouped by line.
  llvm::SmallVector<llvm::SmallVector<int64_t>> firstChunks();
  /// Returns a predicate that is true if the other indices of a line of `firstChunks` are inside
  /// the view. Returns null if they always are.
  mlir::Value firstLineInside(int64_t reg);
  /// Returns a predicate that is true if element `i` of the first chunk belongs to the row.
  mlir::Value hasBegun(int64_t i);

  // Case 4, continued.
  /// Returns a predicate that is true in threads that hold the straddling chunks.
  mlir::Value holdsStraddle(llvm::ArrayRef<int64_t> line);
  /// Returns a predicate that is true if the chunk at this register straddles. Assumes that one
  /// chunk of its line does.
  mlir::Value straddles(int64_t reg);
  /// Return whether element `i` of the straddling chunk is inside along the last dimension. With a
  /// static size and no alignment offset, straddleKnows answers at compile time; otherwise
  /// straddleHas returns a predicate.
  enum class Inside { no, yes, tested };
  Inside straddleKnows(int64_t i) const;
  mlir::Value straddleHas(int64_t i);
  /// Returns the address of element `i` of the straddling chunk in the line of this register.
  mlir::Value straddlePointer(int64_t reg, int64_t i);
  /// Returns a predicate that is true if the line of this register is inside along every other
  /// dimension, or null if it always is.
  mlir::Value lineInside(int64_t reg);

  int64_t bytes() const { return view.getElementBytes(); }

  ThreadLowering& t;
  tile::ViewType view;
  const ThreadLayout* layout;  // null if the access is one scalar
  mlir::Type element;
  int64_t chunk = 1;    // elements per access
  mlir::Value uniform;  // predicate of all accesses; null means true

 private:
  // Returns a dimension's size, counted from column 0 of the first tile: it includes the alignment
  // offset.
  mlir::Value size(size_t axis);
  mlir::Value computeBegin();
  mlir::Value stride(size_t axis) { return slots[1 + view.getRank() + axis]; }
  bool isLast(size_t axis) const { return axis == tileAxes.back(); }

  bool hasAlignmentOffset(size_t axis) const {
    return offsetKind != OffsetKind::none && isLast(axis);
  }
  // Returns a predicate that is true if the whole chunk is before the view's end, or null if it
  // always is.
  mlir::Value isBeforeEnd(int64_t reg);
  // Returns begin <= coordinate(reg), or null if that holds in every thread.
  mlir::Value isAtOrAfterBegin(int64_t reg);

  int64_t sizeDivisor(size_t axis) const;
  int64_t strideDivisor(size_t axis) const;
  int64_t offsetDivisor(size_t axis) const;

  int64_t lastCoordinate(int64_t reg);
  // Returns the column of the straddling chunk relative to this thread's first register.
  mlir::Value straddleBegin();

  // Returns the elements per access: the layout's contiguous elements, limited to 16 bytes and to
  // the alignment of every address.
  int64_t chunkSize() const;

  static std::optional<int64_t> constantIndex(mlir::Value index);
  static bool isConstantZero(mlir::Value index) { return constantIndex(index) == 0; }
  // Returns true if the access stays at element 0 of the dimension, so that its stride does not
  // matter.
  static bool isZero(mlir::Value index, int64_t tileDim) {
    return tileDim <= 1 && isConstantZero(index);
  }

  mlir::Value add(mlir::Value a, mlir::Value c);
  mlir::Value difference(mlir::Value a, mlir::Value c);
  mlir::Value times(mlir::Value a, int64_t factor);
  // Returns the byte offset coordinate * stride * element size as an i64.
  mlir::Value scaled(mlir::Value coordinate, size_t axis);

  // Sets threadAddress = base + tile origin + this thread's offset in the tile, in bytes.
  void computeOrigin();

  // Returns true if static sizes prove that the tile is inside along a dimension.
  bool isProvedInside(size_t axis) const;

  // Sets `uniform` or `remaining` for a dimension that is not proved to be inside.
  void computeMask(size_t axis);

  // Returns the number of a dimension's elements at and after this thread's first register.
  mlir::Value remainingHere(int dim);
  // Returns the number of a dimension's elements at and after `at.base`. `left` is
  // remainingHere(dim).
  mlir::Value leftOf(mlir::Value left, const Coordinate& at, int dim);

  // Returns the largest coordinate of register 0 in any thread.
  int64_t threadReach(int dim) const;

  // Returns coordinate(reg) + n <= remaining, or null if static sizes prove it for every thread.
  mlir::Value fits(int64_t reg, int dim, int64_t n);

  Pieces slots;  // the view's pointer, sizes and strides
  llvm::ArrayRef<int64_t> tileShape;
  mlir::Value alignmentOffset;  // i32
  mlir::Value begin;            // i32; null without an alignment offset
  OffsetKind offsetKind;
  Mover mover;
  int64_t maxAlignmentOffset;  // upper bound of `begin`
  llvm::SmallVector<mlir::Value> indexValues;
  llvm::SmallVector<int64_t> indexDivisors;
  llvm::SmallVector<size_t> tileAxes;        // view axis of every tile dimension
  llvm::SmallVector<mlir::Value> remaining;  // i32 per view axis; null if no test is needed
  // Lower bound of size - tile origin per view axis, if known at compile time.
  llvm::SmallVector<std::optional<int64_t>> staticLeft;
  llvm::SmallDenseMap<int, mlir::Value> remainingAtThread;
  mlir::Value threadAddress;  // i64
};

}  // namespace ligerdsl::compiler::nvptx
