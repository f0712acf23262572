// A row that two loops of a kernel read in opposite order. Finds the loads that can read from
// copies started ahead of the loops.
//
// Rules for a row that two loops read:
//   Rule M: Exactly two loops of one block load blocks of the row; loads elsewhere stay unchanged.
//           Both loops run from 0 to the same constant n, the number of positions. The first loop
//           loads block f(i), and the second loads block g(i) = f(n - 1 - i). The two index
//           computations are identical op by op, if n - 1 - j in the second loop replaces i in the
//           first. No loop encloses the two loops except the loop over a CTA's programs, so the
//           ring is set up once.
//   Rule W: Nothing before the end of the first loop may write the row. Copies read ahead through
//           the async proxy, and no barrier orders them with stores.
//   Rule A: Every block begins at a multiple of 16 bytes: types prove it, or the load has the row's
//           alignment offset. The row may end anywhere. With an alignment offset it may begin at
//           any element of the first 16 bytes of the first block.
//
// A stationary row is the same for all programs of a CTA, for example a weight:
//   Rule S: One loop of n positions inside the loop over programs loads its blocks. The indices
//           depend on no value of a program except the inner loop's counter. Nothing in the kernel
//           may write the row. Rule A holds.
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
  static constexpr int64_t kGroupBytes = 16;  // unit of bulk copies

  /// Builds the row from the loads of one resident number. Returns nothing if they break a rule;
  /// `why` then says how, and what to change.
  static std::optional<ResidentRow> of(llvm::ArrayRef<tile::LoadTileOp> all, std::string& why);

  /// A stationary row has no second loop.
  bool isStationary() const { return !second; }
  int64_t bytes() { return positions * blockBytes(); }

  tile::LoadTileOp firstLoad, secondLoad;
  mlir::scf::ForOp first, second;
  int64_t positions = 0;
  /// Ops of the first loop that compute the block's index from its counter, in order.
  llvm::SetVector<mlir::Operation*> slice;

  int64_t blockBytes() {
    return firstLoad.getTileShape().back() * firstLoad.getView().getType().getElementBytes();
  }
  /// Returns true if every block ends inside of the view along the last dimension.
  bool fillsBlocks();
  /// Returns true if the author promised (tile.assume), before the first loop, that the index along
  /// `axis` is inside of the view. `axis` is not the last one.
  bool isPromised(unsigned axis) { return promised.test(axis); }
  bool isAllInside() { return fillsBlocks() && promised.all(); }

  /// Values from outside of the first loop that `slice` and the load's operands use.
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
  llvm::SmallBitVector promised;  // per axis
  std::string reason;             // how a rule is broken, and what to change
};

}  // namespace ligerdsl::compiler
