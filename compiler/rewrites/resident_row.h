// A row that two loops of a kernel read in opposite order: which loads may be served from copies made ahead of them.
//
//   Rule M: exactly two loops of one block, both from 0 to one constant number n of positions, load a block of the row
//           (loads elsewhere stay as they are), the first at index f(i), the second at g(i) with g(i) = f(n - 1 - i):
//           the two index computations are equal op by op, with n - 1 - j of the second loop where the first has i. No
//           loop encloses them but that of a CTA's programs, so stages are set up once.
//   Rule W: nothing that comes before the end of the first loop may write the row. Copies read ahead, by another way to
//           memory than stores write, so that no barrier orders the two.
//   Rule A: every block begins at a multiple of 16 bytes, because types prove it or because the load has the row's
//           alignment offset. The row may end anywhere, and with an alignment offset begin anywhere in the first
//           block's first group of 16 bytes.
//
// Or a stationary row, the same for all programs of a CTA, as weights are:
//   Rule S: one loop of n positions under the loop of programs loads its blocks, at indices that depend on that loop's
//           counter and on nothing else of a program; and nothing in the kernel may write it. Rule A holds.
#pragma once

#include <optional>
#include <string>

#include "compiler/dialect/tile.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ligerdsl::compiler {

class ResidentRow {
 public:
  static constexpr int64_t kGroupBytes = 16;  // what asynchronous copies move is made of

  /// Of the loads with one number; nothing if they break a rule, and `why` says which and what to change.
  static std::optional<ResidentRow> of(llvm::ArrayRef<tile::LoadTileOp> all, std::string& why);

  /// A stationary row has no second loop.
  bool isStationary() const { return !second; }
  int64_t bytes() { return positions * blockBytes(); }

  tile::LoadTileOp firstLoad, secondLoad;
  mlir::scf::ForOp first, second;
  int64_t positions = 0;
  /// The first loop's ops that compute the block's index from its counter, in order.
  llvm::SetVector<mlir::Operation*> slice;

  int64_t blockBytes() { return firstLoad.getTileShape().back() * firstLoad.getView().getType().getElementBytes(); }
  /// Whether every block ends inside of the view, as far as its columns go.
  bool fillsBlocks();
  /// Whether the author promised (tile.assume), in front of the loops of each program, that the index of an axis but
  /// the last one is inside of the view.
  bool isPromised(unsigned axis) { return promised.test(axis); }
  bool isAllInside() { return fillsBlocks() && promised.all(); }

  /// What slice and the load's indices take from outside of the first loop.
  llvm::SetVector<mlir::Value> outerValues();

 private:
  bool loopsMatch();
  bool isTheSameForAllPrograms();
  bool sameBlocks();
  bool mirrors(mlir::Value a, mlir::Value b);
  bool isReversedCounter(mlir::Value value, mlir::scf::ForOp loop);
  mlir::Operation* writer(bool before);
  bool collect(mlir::Value value);
  void findPromises();

  llvm::DenseSet<std::pair<mlir::Value, mlir::Value>> compared;
  llvm::SmallBitVector promised;  // by axis
  std::string whyNot;             // of the rule that was found broken
};

}  // namespace ligerdsl::compiler
