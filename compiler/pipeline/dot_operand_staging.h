// Operands of matmuls that a pipelined loop loads. The loop copies them to shared memory as they
// are in global memory, and each dot reads them in its own layout. Otherwise every iteration would
// convert the layout through registers.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "compiler/pipeline/pipelined_loop.h"
#include "llvm/ADT/MapVector.h"

namespace ligerdsl::compiler {

class DotOperandStaging {
 public:
  /// `loads` are the loads that the loop issues ahead; dots may get loads of their own there.
  /// `threads` is per CTA, `ctas` per cluster.
  DotOperandStaging(PipelinedLoop& at, llvm::SmallVector<tile::LoadTileOp>& loads, int64_t threads,
                    int64_t ctas)
      : at(at), loads(loads), threads(threads), ctas(ctas) {}

  /// The kind of copy that brings operands: all threads copy at least one 16-byte vector each, or
  /// one thread issues TMA copies.
  enum class Copies { threads, tensor };
  void copyBy(Copies by) { copiesBy = by; }
  /// True if an operand is staged that copies by all threads could not bring.
  bool needTensorCopies() const;

  /// Stages the operands and removes their layout conversions. The conversions' shared memory is
  /// then free for the ring.
  void take();
  /// Emits a remark on each operand that is not staged and converts its layout through shared
  /// memory in every iteration.
  void remarkOthers();
  /// Stages those of `once`, tiles that all iterations share, that are the A of a dot without a
  /// permute.
  void takeOnce(llvm::ArrayRef<tile::LoadTileOp> once);
  /// Undoes the staging if the ring has no room, with a remark.
  void giveBack();
  void giveAllBack();  // emits no remark
  void giveBack(tile::LoadTileOp load);
  /// Erases loads that dots no longer use, because each dot has a load of its own.
  void dropOriginals();

  bool empty() const { return operands.empty(); }
  bool contains(mlir::Operation* load) const { return operands.contains(load); }
  llvm::SmallVector<tile::LoadTileOp> all() const;

  /// Layout in which the tile is copied.
  mlir::RankedTensorType loadedType(tile::LoadTileOp load) const;
  /// Reason why the load cannot become copies to shared memory; empty if it can.
  std::string reasonNotStaged(tile::LoadTileOp load) const {
    return reasonNotStaged(load, copiesBy);
  }
  bool canBeStaged(tile::LoadTileOp load) const { return reasonNotStaged(load).empty(); }

 private:
  struct DotOperand;
  std::string reasonNotStaged(tile::LoadTileOp load, Copies by) const;
  static std::optional<DotOperand> operandOf(tile::LoadTileOp load);
  llvm::SmallVector<tgpu::ConvertLayoutOp> conversionsOf(tile::LoadTileOp load);
  void take(tile::LoadTileOp load, DotOperand operand);
  bool comesToAll() const;
  void separateLoads();
  void uniteLoads();
  void remark(tgpu::ConvertLayoutOp conversion);

  // A load that only one dot uses, directly or after a permute.
  struct DotOperand {
    tile::PermuteOp permute;  // or null
    tgpu::ConvertLayoutOp conversion;
    mlir::RankedTensorType loaded, permuted;  // types before staging
  };

  PipelinedLoop& at;
  llvm::SmallVector<tile::LoadTileOp>& loads;
  int64_t threads, ctas;
  Copies copiesBy = Copies::threads;
  llvm::MapVector<mlir::Operation*, DotOperand> operands;  // key: the load
  // Key: a dot's own load. Value: the load that it copies.
  llvm::MapVector<mlir::Operation*, tile::LoadTileOp> copies;
};

}  // namespace ligerdsl::compiler
