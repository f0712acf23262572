// Loads of a pipelined loop that become reads of a ring (tgpu.ring), which copies fill some iterations ahead.
#pragma once

#include "compiler/rewrites/carried_through.h"
#include "compiler/rewrites/product_factors.h"
#include "compiler/rewrites/turn_sequence.h"
#include "compiler/rewrites/warpgroup_products.h"

namespace ligerdsl::compiler {

class LoopRing {
 public:
  struct Options {
    int64_t ctas;         // of a cluster
    bool wgmma;           // is there
    bool early;           // copies start at the top of a turn, not in front of its first reduction
    bool tensor = false;  // copies of whole tiles: what whyNoTensorCopies has allowed
  };

  LoopRing(PipelinedLoop& at, ProductFactors& factors, const Options& options)
      : at(at), factors(factors), options(options) {}

  /// One of the loads that can be staged for each tile.
  llvm::SmallVector<tile::LoadTileOp> partsOf(llvm::ArrayRef<tile::LoadTileOp> all) const;
  /// What a slot holds of a tile.
  tgpu::MemDescType slotOf(tile::LoadTileOp load) const;

  /// Why these loads cannot come by tensor copies to so many slots of a ring that is made in front of the outermost loop, or of the
  /// sequence's. Empty where they can.
  std::string whyNoTensorCopies(llvm::ArrayRef<tile::LoadTileOp> loads, int64_t slots,
                                const TurnSequence* sequence) const;

  /// `loads` become reads of slots, those that can; the others are carried in registers, an iteration ahead. What is
  /// `stationary` is copied once. Gives the loop that takes the place.
  mlir::scf::ForOp stage(llvm::ArrayRef<tile::LoadTileOp> loads, llvm::ArrayRef<tile::LoadTileOp> stationary,
                         int64_t slots);
  /// The same of loads that can all be staged, with copies that go on from one iteration of the loop around to the next.
  mlir::scf::ForOp stage(llvm::ArrayRef<tile::LoadTileOp> loads, TurnSequence& sequence, int64_t slots);

  /// Loops and branches around that have been replaced with what carries the ring's place, as memory barriers count phases from 0 once.
  llvm::ArrayRef<CarriedThrough::Replaced> replaced() const {
    return around ? around->replaced() : llvm::ArrayRef<CarriedThrough::Replaced>();
  }

 private:
  bool isSameTile(tile::LoadTileOp a, tile::LoadTileOp b) const;
  mlir::Value number(mlir::OpBuilder& builder, int64_t value);
  mlir::Value ringOf(mlir::OpBuilder& builder, llvm::ArrayRef<tile::LoadTileOp> parts, int64_t slots, bool tensor);
  mlir::Value nextSlot(mlir::OpBuilder& builder, mlir::Value slot, int64_t turn);
  bool isInSlot(mlir::Value factor) const;
  std::string whyNoTensorCopy(tile::LoadTileOp load) const;
  size_t placeValues() const { return options.tensor ? 2 : 1; }
  llvm::SmallVector<mlir::Value> firstPlace(mlir::OpBuilder& builder);
  llvm::SmallVector<mlir::Value> nextPlace(mlir::OpBuilder& builder, mlir::ValueRange place);
  void remarkHints(tile::LoadTileOp load);
  void prepare(llvm::ArrayRef<tile::LoadTileOp> loads, int64_t count);
  void fill(mlir::OpBuilder& builder, mlir::Value ring, llvm::ArrayRef<tile::LoadTileOp> parts, mlir::Value position,
            mlir::Value slot, bool open);
  void fill(mlir::OpBuilder& builder, mlir::Value slot, TurnSequence& sequence, mlir::ValueRange turn);
  void fill(mlir::OpBuilder& builder, mlir::Value ring, llvm::ArrayRef<tile::LoadTileOp> parts,
            llvm::ArrayRef<mlir::Value> views, mlir::Value position, mlir::Value slot, bool open,
            const mlir::IRMapping& values, mlir::Value wanted);
  mlir::scf::ForOp replaceLoop(
      mlir::IRRewriter& rewriter, mlir::ValueRange inits,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<mlir::BlockArgument>)> turn);
  mlir::Operation* await(mlir::OpBuilder& builder, mlir::Location loc, int64_t pending);
  void empty(mlir::OpBuilder& builder, mlir::Location loc);
  void awaitSlot(mlir::OpBuilder& builder, mlir::ValueRange place);
  void readParts(mlir::IRRewriter& rewriter, mlir::Value ring, llvm::ArrayRef<tile::LoadTileOp> all, mlir::Value slot);
  tile::ReduceOp firstReduction();
  mlir::Value toBeFilled(mlir::OpBuilder& builder, mlir::Value slot);
  llvm::SmallVector<mlir::Value> fetchNext(llvm::ArrayRef<mlir::BlockArgument> carried);
  llvm::SmallVector<mlir::Value> fetchNext(llvm::ArrayRef<mlir::BlockArgument> carried, TurnSequence& sequence);

  PipelinedLoop& at;
  ProductFactors& factors;
  Options options;
  int64_t slots = 0;
  llvm::SmallVector<tile::LoadTileOp> staged, small, stationary;
  mlir::Value ring, stationaryRing;
  std::optional<WarpgroupProducts> products;  // that wgmma makes of the ring's slots
  std::optional<CarriedThrough> around;
  bool overlapping = false;  // these are under way while those of the next turn start
};

}  // namespace ligerdsl::compiler
