// Replaces loads of a pipelined loop by reads of a ring (tgpu.ring) that copies fill some
// iterations ahead.
#pragma once

#include "compiler/pipeline/dot_operand_staging.h"
#include "compiler/pipeline/loop_carried_state.h"
#include "compiler/pipeline/outer_loop_pipeline.h"
#include "compiler/pipeline/wgmma_dots.h"

namespace ligerdsl::compiler {

class LoopRing {
 public:
  struct Options {
    int64_t ctas;         // per cluster
    bool wgmma;           // the target has it
    bool early;           // copies start at the top of an iteration, not before its first reduction
    bool tensor = false;  // TMA copies, which reasonNoTensorCopies has allowed
  };

  LoopRing(PipelinedLoop& at, DotOperandStaging& operands, const Options& options)
      : at(at), operands(operands), options(options) {}

  /// Returns one load per distinct tile, of the loads that can be staged.
  llvm::SmallVector<tile::LoadTileOp> partsOf(llvm::ArrayRef<tile::LoadTileOp> all) const;
  /// Shape, element type and swizzle of the tile in a slot.
  tgpu::MemDescType slotOf(tile::LoadTileOp load) const;

  /// Reason why TMA copies cannot bring these loads to a ring of `slots` slots; empty if they can.
  /// The ring is allocated before the outermost loop, or before the outer loop of `pipeline`.
  std::string reasonNoTensorCopies(llvm::ArrayRef<tile::LoadTileOp> loads, int64_t slots,
                                   const OuterLoopPipeline* pipeline) const;

  /// Replaces the loads that can be staged by reads of slots. The loop carries the others in
  /// registers, one iteration ahead. Tiles of `stationary` are copied once. Returns the new loop.
  mlir::scf::ForOp stage(llvm::ArrayRef<tile::LoadTileOp> loads,
                         llvm::ArrayRef<tile::LoadTileOp> stationary, int64_t slots);
  /// The same for loads that can all be staged, with copies that continue across iterations of the
  /// outer loop.
  mlir::scf::ForOp stage(llvm::ArrayRef<tile::LoadTileOp> loads, OuterLoopPipeline& pipeline,
                         int64_t slots);

  /// Outer loops and branches that were replaced in order to carry the slot and parity. mbarriers
  /// count phases from 0 only once, so these must outlive the inner loop.
  llvm::ArrayRef<LoopCarriedState::Replaced> replaced() const {
    return around ? around->replaced() : llvm::ArrayRef<LoopCarriedState::Replaced>();
  }

 private:
  bool isSameTile(tile::LoadTileOp a, tile::LoadTileOp b) const;
  mlir::Value number(mlir::OpBuilder& builder, int64_t value);
  mlir::Value ringOf(mlir::OpBuilder& builder, llvm::ArrayRef<tile::LoadTileOp> parts,
                     int64_t slots, bool tensor);
  mlir::Value nextSlot(mlir::OpBuilder& builder, mlir::Value slot, int64_t step);
  bool isInSlot(mlir::Value operand) const;
  std::string reasonNoTensorCopy(tile::LoadTileOp load) const;
  size_t placeValues() const { return options.tensor ? 2 : 1; }
  llvm::SmallVector<mlir::Value> firstPlace(mlir::OpBuilder& builder);
  llvm::SmallVector<mlir::Value> nextPlace(mlir::OpBuilder& builder, mlir::ValueRange place);
  void remarkHints(tile::LoadTileOp load);
  void prepare(llvm::ArrayRef<tile::LoadTileOp> loads, int64_t count);
  void fill(mlir::OpBuilder& builder, mlir::Value ring, llvm::ArrayRef<tile::LoadTileOp> parts,
            mlir::Value position, mlir::Value slot, bool open);
  void fill(mlir::OpBuilder& builder, mlir::Value slot, OuterLoopPipeline& pipeline,
            mlir::ValueRange iteration);
  void fill(mlir::OpBuilder& builder, mlir::Value ring, llvm::ArrayRef<tile::LoadTileOp> parts,
            llvm::ArrayRef<mlir::Value> views, mlir::Value position, mlir::Value slot, bool open,
            const mlir::IRMapping& values, mlir::Value wanted);
  mlir::scf::ForOp replaceLoop(
      mlir::IRRewriter& rewriter, mlir::ValueRange inits,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<mlir::BlockArgument>)>
          addYields);
  mlir::Operation* await(mlir::OpBuilder& builder, mlir::Location loc, int64_t pending);
  void empty(mlir::OpBuilder& builder, mlir::Location loc);
  void awaitSlot(mlir::OpBuilder& builder, mlir::ValueRange place);
  void readParts(mlir::IRRewriter& rewriter, mlir::Value ring, llvm::ArrayRef<tile::LoadTileOp> all,
                 mlir::Value slot);
  tile::ReduceOp firstReduction();
  mlir::Value toBeFilled(mlir::OpBuilder& builder, mlir::Value slot);
  llvm::SmallVector<mlir::Value> fetchNext(llvm::ArrayRef<mlir::BlockArgument> carried);
  llvm::SmallVector<mlir::Value> fetchNext(llvm::ArrayRef<mlir::BlockArgument> carried,
                                           OuterLoopPipeline& pipeline);

  PipelinedLoop& at;
  DotOperandStaging& operands;
  Options options;
  int64_t slots = 0;
  llvm::SmallVector<tile::LoadTileOp> staged, small, stationary;
  mlir::Value ring, stationaryRing;
  std::optional<WgmmaDots> dots;  // become wgmma
  std::optional<LoopCarriedState> around;
  bool overlapping = false;  // wgmmas stay in flight while those of the next iteration start
};

}  // namespace ligerdsl::compiler
