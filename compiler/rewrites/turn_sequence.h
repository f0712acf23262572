// A pipelined loop in the body of another loop, as one sequence of turns: behind the last turn of the inner loop comes the
// first one that the outer loop's next iteration has. Copies for turns ahead go on through what stands between.
#pragma once

#include "compiler/rewrites/pipelined_loop.h"

namespace ligerdsl::compiler {

class TurnSequence {
 public:
  /// Of the loop that stands in another one's body, if what its loads read is known in front of the outer loop for all its
  /// turns and written by none of them. Otherwise nothing, and in `why` what is in the way; "" where no loop is around.
  static std::optional<TurnSequence> around(PipelinedLoop& at, llvm::ArrayRef<tile::LoadTileOp> loads,
                                            std::string& why);

  mlir::scf::ForOp outer;

  /// What says which turn it is, of the first one of all, in front of the outer loop: its counters, and what the loads'
  /// indices take from the outer loop's iteration.
  llvm::SmallVector<mlir::Value> first(mlir::OpBuilder& builder);
  /// Of the turn behind one.
  llvm::SmallVector<mlir::Value> next(mlir::OpBuilder& builder, mlir::ValueRange turn);
  /// The inner loop's counter in a turn.
  static mlir::Value counter(mlir::ValueRange turn) { return turn[1]; }
  /// Whether both loops have this turn.
  mlir::Value isTurn(mlir::OpBuilder& builder, mlir::ValueRange turn);
  /// What the indices of loads that are computed in the inner loop stand for in a turn.
  mlir::IRMapping values(mlir::ValueRange turn);

  /// Cuts the inner loop, of step 1, whose last iteration arguments say which turn is filled, `ahead` turns behind the one at
  /// work: turns that fill later ones of their own tile become a loop in front of it, where that is plain arithmetic of its
  /// counter. `loop` keeps the last turns. Does nothing where the step is another one.
  void separateOwnTurns(mlir::scf::ForOp loop, int64_t ahead);

 private:
  explicit TurnSequence(PipelinedLoop& at) : at(&at) {}
  bool isOutside(mlir::Value value) { return outer.isDefinedOutsideOfLoop(value); }
  bool collect(mlir::Value value, llvm::SetVector<mlir::Operation*>& slice, bool& follows);
  bool collectIndices(llvm::ArrayRef<tile::LoadTileOp> loads);
  mlir::Value hoisted(mlir::OpBuilder& builder, mlir::Value value);
  llvm::SmallVector<mlir::Value> ofIteration(mlir::OpBuilder& builder, mlir::Value counter);

  PipelinedLoop* at;
  llvm::SetVector<mlir::Value> fixed,
      following;                   // what indices take from the outer body: the same in all iterations, or not
  mlir::IRMapping inFront;         // what is the same, computed in front of the outer loop
  mlir::Value lower, upper, step;  // of the inner loop, there
};

}  // namespace ligerdsl::compiler
