// Operands of matmuls that a pipelined loop loads. The loop copies them to shared memory as they
// are in global memory, and each dot reads them in its own layout. Otherwise every iteration would
// convert the layout through registers. This file decides; it does not change the IR.
#pragma once

#include "compiler/pipeline/loop_plan.h"
#include "compiler/pipeline/pipelined_loop.h"

namespace ligerdsl::compiler {

class DotOperandStaging {
 public:
  /// `threads` is per CTA, `ctas` per cluster.
  DotOperandStaging(PipelinedLoop& at, int64_t threads, int64_t ctas)
      : at(at), threads(threads), ctas(ctas) {}

  /// Returns the tiles of loads that are issued ahead, and of loads that are equal in every
  /// iteration, if these copies fill the ring. Those of `once` are operands only as the A of a dot,
  /// without a transpose.
  LoopTiles tilesOf(llvm::ArrayRef<tile::LoadTileOp> ahead, llvm::ArrayRef<tile::LoadTileOp> once,
                    Copies copies) const;
  /// The same tiles if no dot reads a slot in its own layout.
  LoopTiles tilesWithoutOperands(llvm::ArrayRef<tile::LoadTileOp> ahead,
                                 llvm::ArrayRef<tile::LoadTileOp> once) const;
  /// True if an operand is staged that copies by all threads could not bring.
  bool needTma(const LoopTiles& tiles) const;

  /// Emits a remark on each operand that is not staged and converts its layout through shared
  /// memory in every iteration.
  void remarkOthers(const LoopTiles& tiles, Copies copies) const;

  /// Reason why the load cannot become copies to shared memory; empty if it can.
  std::string reasonNotStaged(tile::LoadTileOp load, Copies copies) const;
  bool canBeStaged(tile::LoadTileOp load, Copies copies) const {
    return reasonNotStaged(load, copies).empty();
  }

 private:
  llvm::SmallVector<tgpu::ConvertLayoutOp> operandsOf(tile::LoadTileOp load) const;
  bool comesToAll() const;
  void remark(tgpu::ConvertLayoutOp conversion, Copies copies) const;

  PipelinedLoop& at;
  int64_t threads, ctas;
};

}  // namespace ligerdsl::compiler
