// Emits the ring (tgpu.ring) of a pipelined loop: slots, fills, waits and reads. A copy fills a
// slot some iterations before the loop reads it. The three rewrites that use a ring share this
// class.
#pragma once

#include "compiler/pipeline/loop_plan.h"
#include "compiler/pipeline/pipelined_loop.h"
#include "compiler/pipeline/wgmma_dots.h"
#include "mlir/IR/PatternMatch.h"

namespace ligerdsl::compiler {

class LoopRing {
 public:
  /// Takes the loop's plan and its tiles (takeTiles). `wgmma` is true if the target has wgmma.
  LoopRing(mlir::scf::ForOp loop, bool wgmma);

  mlir::Value number(mlir::OpBuilder& builder, int64_t value);

  /// Emits the ring for the tiles that are loaded ahead.
  void create(mlir::OpBuilder& builder);
  /// Emits the ring for tiles that are the same in all iterations, if any, and its fill.
  void fillOnce(mlir::OpBuilder& builder, mlir::Value iteration);
  /// Starts the copies of `iteration`. TMA copies start only if the loop has this iteration,
  /// because they must be awaited.
  void fill(mlir::OpBuilder& builder, mlir::Value iteration, mlir::Value slot);
  /// Starts the copies with the views and index values of an iteration of an outer loop. `wanted`
  /// is null or an i1; nothing is copied if it is false.
  void fill(mlir::OpBuilder& builder, mlir::ValueRange views, mlir::Value iteration,
            mlir::Value slot, const mlir::IRMapping& values, mlir::Value wanted);

  /// Number of carried values for the ring: the current slot and, if mbarriers signal the copies,
  /// the parity of its fill.
  size_t placeValues() const { return byTma() ? 2 : 1; }
  llvm::SmallVector<mlir::Value> firstPlace(mlir::OpBuilder& builder);
  llvm::SmallVector<mlir::Value> nextPlace(mlir::OpBuilder& builder, mlir::ValueRange place);
  mlir::Value nextSlot(mlir::OpBuilder& builder, mlir::Value slot, int64_t step);
  mlir::Value toBeFilled(mlir::OpBuilder& builder, mlir::Value slot);

  mlir::Operation* await(mlir::OpBuilder& builder, mlir::Location loc, int64_t pending);
  void awaitSlot(mlir::OpBuilder& builder, mlir::ValueRange place);
  void empty(mlir::OpBuilder& builder, mlir::Location loc);

  /// Emits the body's copies and reads. Returns the values to yield for the carried state: the
  /// place in the ring, and values of loads that are not staged.
  llvm::SmallVector<mlir::Value> fetchNext(llvm::ArrayRef<mlir::BlockArgument> carried);
  /// Replaces the loads by reads of a slot.
  void readParts(mlir::IRRewriter& rewriter, mlir::Value slot);
  /// Adds carried values to the loop. `addYields` returns their yielded values.
  mlir::scf::ForOp replaceLoop(
      mlir::IRRewriter& rewriter, mlir::ValueRange inits,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<mlir::BlockArgument>)>
          addYields);
  /// Replaces dots by wgmmas, after the reads.
  void replaceDots();

  bool byTma() const { return plan.copies == Copies::tma; }

  PipelinedLoop at;
  LoopPlan plan;
  LoopTiles tiles;
  int64_t slots;
  llvm::SmallVector<tile::LoadTileOp> small;  // carried in registers, one iteration ahead
  llvm::SmallVector<LoadedTile> parts;
  std::optional<WgmmaDots> dots;  // dots that become wgmma
  bool overlapping = false;       // wgmmas stay in flight while those of the next iteration start
  mlir::Value ring, onceRing;

 private:
  mlir::Value createRing(mlir::OpBuilder& builder, llvm::ArrayRef<LoadedTile> parts, int64_t slots,
                         Copies copies);
  void fill(mlir::OpBuilder& builder, mlir::Value ring, llvm::ArrayRef<LoadedTile> parts,
            mlir::ValueRange views, mlir::Value iteration, mlir::Value slot, bool open,
            const mlir::IRMapping& values, mlir::Value wanted);
  void readParts(mlir::IRRewriter& rewriter, mlir::Value ring, llvm::ArrayRef<LoadedTile> all,
                 mlir::Value slot);
  tile::ReduceOp firstReduction();
};

}  // namespace ligerdsl::compiler
