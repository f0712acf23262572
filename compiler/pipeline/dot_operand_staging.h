// Decides which matmul operands of a pipelined loop are staged; does not change the IR. The loop
// copies a staged operand to shared memory without a change of layout, and each dot reads it in the
// dot's layout. Otherwise every iteration would convert the layout through registers.
#pragma once

#include "compiler/pipeline/loop_plan.h"
#include "compiler/pipeline/pipelined_loop.h"

namespace ligerdsl::compiler {

class DotOperandStaging {
 public:
  /// `threads` is per CTA, `ctas` per cluster.
  DotOperandStaging(PipelinedLoop& at, int64_t threads, int64_t ctas)
      : at(at), threads(threads), ctas(ctas) {}

  /// Returns the tiles of the loads in `ahead` (issued ahead) and `once` (the same tile in all
  /// iterations), for a ring that is filled by `copies`. A tile of `once` is a dot's operand only
  /// if it is the A of a dot, without a transpose.
  LoopTiles tilesOf(llvm::ArrayRef<tile::LoadTileOp> ahead, llvm::ArrayRef<tile::LoadTileOp> once,
                    Copies copies) const;
  /// Like tilesOf for copies by threads, but all readers, also dots, read a tile in the layout of
  /// its load.
  LoopTiles tilesWithoutOperands(llvm::ArrayRef<tile::LoadTileOp> ahead,
                                 llvm::ArrayRef<tile::LoadTileOp> once) const;
  /// Returns true if only TMA copies can stage one of the operands.
  bool needTma(const LoopTiles& tiles) const;

  /// Emits a remark on each operand that is not staged and whose layout is converted through shared
  /// memory in every iteration.
  void remarkOthers(const LoopTiles& tiles, Copies copies) const;

  /// Returns why the load cannot become copies to shared memory, or "" if it can.
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
