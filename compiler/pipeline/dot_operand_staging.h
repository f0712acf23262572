// Matmul operands that a pipelined loop loads. The loop copies them to shared memory without a
// change of layout, and each dot reads them in its own layout. Otherwise every iteration would
// convert the layout through registers. This class decides which operands are staged; it does not
// change the IR.
#pragma once

#include "compiler/pipeline/loop_plan.h"
#include "compiler/pipeline/pipelined_loop.h"

namespace ligerdsl::compiler {

class DotOperandStaging {
 public:
  /// `threads` is per CTA, `ctas` per cluster.
  DotOperandStaging(PipelinedLoop& at, int64_t threads, int64_t ctas)
      : at(at), threads(threads), ctas(ctas) {}

  /// Returns the tiles of the loads in `ahead` (issued ahead) and `once` (equal in all iterations)
  /// if `copies` fill the ring. A tile of `once` is an operand only if it is the A of a dot,
  /// without a transpose.
  LoopTiles tilesOf(llvm::ArrayRef<tile::LoadTileOp> ahead, llvm::ArrayRef<tile::LoadTileOp> once,
                    Copies copies) const;
  /// Returns the same tiles if no dot reads a slot in its own layout.
  LoopTiles tilesWithoutOperands(llvm::ArrayRef<tile::LoadTileOp> ahead,
                                 llvm::ArrayRef<tile::LoadTileOp> once) const;
  /// Returns true if a staged operand cannot be copied by all threads.
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
