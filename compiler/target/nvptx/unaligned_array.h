// Accesses to an array that may begin inside a vector (isUnalignedArray).
//
// A thread holds groups of contiguous elements, and the lanes of a warp hold adjacent groups. A
// unit is aligned memory of a group's size, at most 16 bytes. All groups begin at the same place
// inside a unit.
//
// 1. A load reads the units that overlap the group and shifts their words.
// 2. A store writes whole units, so warps write whole sectors of L2. The first unit begins in the
//    lower lane's group, so its first elements come from that lane. Lanes 0 and 31 store the
//    elements at the ends of the warp's groups one by one.
// 3. A unit that crosses an end of the array is accessed element by element. Threads without such a
//    unit skip these accesses.
#pragma once

#include "compiler/target/nvptx/tile_access.h"

namespace ligerdsl::compiler::nvptx {

class UnalignedArray {
 public:
  UnalignedArray(ThreadLowering& t, TileAccess& access, mlir::Value view, mlir::Value index,
                 int64_t tileSize, mlir::Value alignmentOffset);

  /// Returns true if lanes hold adjacent groups, no two threads share one, and registers suffice.
  static bool fits(const TileAccess& access);

  llvm::SmallVector<mlir::Value> load(mlir::Value pad, AccessHints hints);
  /// Stores the elements. All lanes of a warp must execute it. Later loads by the threads that hold
  /// these elements read the stored values.
  void store(llvm::ArrayRef<mlir::Value> elements, AccessHints hints);

 private:
  mlir::Value plus(mlir::Value a, int64_t c);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value c);
  mlir::Value any(mlir::Value a, mlir::Value c);
  /// Returns the column of a group's first element, relative to the tile.
  mlir::Value columnOf(int64_t reg);
  /// Returns the address `elements` elements after the start of the first unit of group `reg`.
  mlir::Value unitPointer(int64_t reg, int64_t elements);
  /// Returns a predicate that is true if `count` elements from `column` on are inside the array.
  mlir::Value inside(mlir::Value column, int64_t count);
  /// Returns a predicate that is true if a unit that overlaps a group crosses an end of the array.
  mlir::Value crossesEnd();
  void loadSingles(llvm::SmallVectorImpl<mlir::Value>& words, mlir::Value pad, AccessHints hints);
  void storeUnits(int64_t reg, llvm::ArrayRef<mlir::Value> elements, AccessHints hints);
  void storeSingles(int64_t reg, llvm::ArrayRef<mlir::Value> elements, AccessHints hints);

  int64_t units() const { return group / unit; }
  int64_t unitBytes() const { return unit * access.bytes(); }

  ThreadLowering& t;
  TileAccess& access;
  int64_t group, unit;    // elements
  mlir::Value back;       // elements from the beginning of a unit to the group, i32
  mlir::Value isShifted;  // back != 0
  mlir::Value first;      // first column of the array in the tile, i32; -unit in later tiles
  mlir::Value end;        // column after the array's last one, relative to the tile, i32
};

}  // namespace ligerdsl::compiler::nvptx
