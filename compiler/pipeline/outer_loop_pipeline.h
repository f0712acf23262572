// A pipelined loop in the body of another loop, as one pipeline over the iterations of both. After
// the last iteration of the inner loop comes the first one of its next execution. Outer iterations
// may have different numbers of inner iterations; those with none are skipped. Copies of later
// iterations continue across the ops between two executions.
#pragma once

#include "compiler/pipeline/pipelined_loop.h"

namespace ligerdsl::compiler {

class OuterLoopPipeline {
 public:
  /// Returns the pipeline if the inner loop is in the body of another scf.for and its loads are
  /// known ahead. Their indices and bounds must be computable before the outer loop for every
  /// iteration of it; they may read memory that the outer loop does not write. No op of the outer
  /// loop may write what the loads read. Otherwise returns nothing: `why` has the reason, or "" if
  /// there is no outer loop.
  static std::optional<OuterLoopPipeline> around(PipelinedLoop& at,
                                                 llvm::ArrayRef<tile::LoadTileOp> loads,
                                                 std::string& why);

  mlir::scf::ForOp outer;

  /// Emits, before the outer loop, the state of the first iteration: both counters and the
  /// outer-loop values that the loads' indices use.
  llvm::SmallVector<mlir::Value> first(mlir::OpBuilder& builder);
  /// Emits the state of the iteration after this one.
  llvm::SmallVector<mlir::Value> next(mlir::OpBuilder& builder, mlir::ValueRange iteration);
  /// The inner loop's counter of an iteration.
  static mlir::Value counter(mlir::ValueRange iteration) { return iteration[1]; }
  /// Emits an i1 that is true if both loops have this iteration.
  mlir::Value isIteration(mlir::OpBuilder& builder, mlir::ValueRange iteration);
  /// Maps the values that the inner loop's indices use to their values in an iteration.
  mlir::IRMapping values(mlir::ValueRange iteration);
  /// Returns the load's view in an iteration. A slice that the outer body takes is repeated.
  mlir::Value viewAt(mlir::OpBuilder& builder, mlir::Value view, const mlir::IRMapping& values);

  /// Splits an inner loop of step 1 in two. Its last iteration arguments are the state of the
  /// iteration to fill, `ahead` iterations later. The first of the two loops has the iterations
  /// whose fills stay within this execution; there the state is plain arithmetic of the counter.
  /// `loop` keeps the last iterations. Does nothing for other steps.
  void separateOwnIterations(mlir::scf::ForOp loop, int64_t ahead);

 private:
  explicit OuterLoopPipeline(PipelinedLoop& at) : at(&at) {}
  bool isOutside(mlir::Value value) { return outer.isDefinedOutsideOfLoop(value); }
  bool mayRepeat(mlir::Operation* op);
  bool collectBounds();
  bool collectView(mlir::Value view, llvm::SmallVectorImpl<mlir::Value>& used);
  bool collect(mlir::Value value, llvm::SetVector<mlir::Operation*>& slice, bool& follows);
  bool collectPlaces(llvm::ArrayRef<tile::LoadTileOp> loads);
  mlir::Value hoisted(mlir::OpBuilder& builder, mlir::Value value);
  llvm::SmallVector<mlir::Value> valuesAt(mlir::OpBuilder& builder, mlir::Value counter);
  mlir::Value nextNonEmpty(mlir::OpBuilder& builder, mlir::Value counter);
  mlir::Value upperIn(mlir::ValueRange iteration) {
    return !countsDiffer ? upper : endsAtCounter ? iteration[0] : iteration[2];
  }

  PipelinedLoop* at;
  // Values of the outer body that the indices use. `fixed` are equal in all outer iterations;
  // `following` differ.
  llvm::SetVector<mlir::Value> fixed, following;
  // For collected ops: does the result differ between outer iterations, and does it depend on
  // memory?
  llvm::DenseMap<mlir::Operation*, bool> moving;
  llvm::DenseSet<mlir::Operation*> read;
  bool countsDiffer = false;       // then the inner loop's end is the first of `following`
  bool endsAtCounter = false;      // the inner loop's end is the outer counter itself
  mlir::IRMapping hoistedValues;   // values equal in all iterations, computed before the outer loop
  mlir::Value lower, upper, step;  // the inner loop's bounds there; `upper` is null if it differs
};

}  // namespace ligerdsl::compiler
