// A pipelined loop in the body of another loop, as one sequence of turns: behind the last turn of the inner loop comes the
// first one that the outer loop's next iteration has, or, where iterations differ in how many turns they have and some have none, the
// next one with any. Copies for turns ahead go on through what stands between.
#pragma once

#include "compiler/rewrites/pipelined_loop.h"

namespace ligerdsl::compiler {

class TurnSequence {
 public:
  /// Of the loop that stands in another one's body, if what its loads read is known in front of the outer loop for all its
  /// turns and written by none of them: memory that none of them writes may say it. Otherwise nothing, and in `why` what is in the way;
  /// "" where no loop is around.
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
  /// A load's view there: itself, or a slice that the outer body takes, taken again.
  mlir::Value viewAt(mlir::OpBuilder& builder, mlir::Value view, const mlir::IRMapping& values);

  /// Cuts the inner loop, of step 1, whose last iteration arguments say which turn is filled, `ahead` turns behind the one at
  /// work: turns that fill later ones of their own tile become a loop in front of it, where that is plain arithmetic of its
  /// counter. `loop` keeps the last turns. Does nothing where the step is another one.
  void separateOwnTurns(mlir::scf::ForOp loop, int64_t ahead);

 private:
  explicit TurnSequence(PipelinedLoop& at) : at(&at) {}
  bool isOutside(mlir::Value value) { return outer.isDefinedOutsideOfLoop(value); }
  bool mayRepeat(mlir::Operation* op);
  bool collectBounds();
  bool collectView(mlir::Value view, llvm::SmallVectorImpl<mlir::Value>& used);
  bool collect(mlir::Value value, llvm::SetVector<mlir::Operation*>& slice, bool& follows);
  bool collectPlaces(llvm::ArrayRef<tile::LoadTileOp> loads);
  mlir::Value hoisted(mlir::OpBuilder& builder, mlir::Value value);
  llvm::SmallVector<mlir::Value> ofIteration(mlir::OpBuilder& builder, mlir::Value counter);
  mlir::Value withTurns(mlir::OpBuilder& builder, mlir::Value counter);
  mlir::Value upperIn(mlir::ValueRange turn) { return !turnsDiffer ? upper : endsAtCounter ? turn[0] : turn[2]; }

  PipelinedLoop* at;
  llvm::SetVector<mlir::Value> fixed,
      following;  // what places take from the outer body: the same in all iterations, or not
  // Of what has been collected: whether it differs from iteration to iteration; what memory says.
  llvm::DenseMap<mlir::Operation*, bool> moving;
  llvm::DenseSet<mlir::Operation*> read;
  bool turnsDiffer = false;        // then the inner loop's end is the first of `following`
  bool endsAtCounter = false;      // or the outer loop's counter
  mlir::IRMapping inFront;         // what is the same, computed in front of the outer loop
  mlir::Value lower, upper, step;  // of the inner loop, there; the end where it is the same
};

}  // namespace ligerdsl::compiler
