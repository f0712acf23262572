// A pipelined loop in the body of another loop, as one pipeline over the iterations of both. The
// last iteration of the inner loop is followed by the first of its next execution. Outer iterations
// may have different numbers of inner iterations; those with none are skipped. Copies continue
// across the ops between two executions.
#pragma once

#include "compiler/pipeline/pipelined_loop.h"

namespace ligerdsl::compiler {

class OuterLoopPipeline {
 public:
  /// Returns the pipeline if the inner loop is in the body of another scf.for and its loads are
  /// known ahead. Loop bounds and load indices must be computable before the outer loop for each of
  /// its iterations; they may depend on memory that the outer loop does not write. No op of the
  /// outer loop may write memory that the loads read. Otherwise returns nothing and sets `why` to
  /// the reason, or to "" if there is no outer loop.
  static std::optional<OuterLoopPipeline> around(PipelinedLoop& at,
                                                 llvm::ArrayRef<tile::LoadTileOp> loads,
                                                 std::string& why);

  mlir::scf::ForOp outer;

  /// Emits, before the outer loop, the state of the first iteration: both counters, and the outer
  /// body's values that the loads' indices use.
  llvm::SmallVector<mlir::Value> first(mlir::OpBuilder& builder);
  /// Emits the state of the iteration that follows `iteration`.
  llvm::SmallVector<mlir::Value> next(mlir::OpBuilder& builder, mlir::ValueRange iteration);
  /// Returns the inner loop's counter in an iteration.
  static mlir::Value counter(mlir::ValueRange iteration) { return iteration[1]; }
  /// Emits an i1 that is true if both loops have this iteration.
  mlir::Value isIteration(mlir::OpBuilder& builder, mlir::ValueRange iteration);
  /// Maps the values that the inner loop's indices use to their values in an iteration.
  mlir::IRMapping values(mlir::ValueRange iteration);
  /// Returns the load's view in an iteration. If the outer body slices the view, repeats the slice.
  mlir::Value viewAt(mlir::OpBuilder& builder, mlir::Value view, const mlir::IRMapping& values);

  /// Splits an inner loop of step 1 into two. Its last iteration arguments are the state of the
  /// iteration to fill, `ahead` iterations later. In the first of the two loops, that iteration is
  /// in the same execution of the inner loop, so its state is simple arithmetic on the counter. The
  /// second one is `loop`, which keeps the last iterations. Does nothing for other steps.
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
  // Values of the outer body that the indices use: `fixed` ones are the same in all outer
  // iterations, `following` ones differ.
  llvm::SetVector<mlir::Value> fixed, following;
  // For collected ops: whether the result differs between outer iterations (`moving`), or depends
  // on memory (`read`).
  llvm::DenseMap<mlir::Operation*, bool> moving;
  llvm::DenseSet<mlir::Operation*> read;
  bool countsDiffer = false;      // the inner loop's end differs between outer iterations
  bool endsAtCounter = false;     // that end is the outer counter; else it is following[0]
  mlir::IRMapping hoistedValues;  // values of all iterations, computed before the outer loop
  mlir::Value lower, upper,
      step;  // inner bounds, computed before the outer loop; `upper` is null if it differs
};

}  // namespace ligerdsl::compiler
