// Dots of a pipelined loop that become wgmma, with operands in the slots of the loop's ring.
#pragma once

#include "compiler/pipeline/loop_tiles.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ligerdsl::compiler {

class WgmmaDots {
 public:
  /// Collects the dots of the loop's body that wgmma can compute from the slots of `tiles`
  /// (reasonNotInSlots). The IR still has the conversions of operands.
  WgmmaDots(mlir::scf::ForOp loop, const LoopTiles& tiles, bool roundsF32);

  bool contains(tile::DotOp dot) const { return llvm::is_contained(dots, dot); }
  size_t count() const { return dots.size(); }
  bool empty() const { return dots.empty(); }
  tile::DotOp last() const { return dots.back(); }
  /// Returns true if wgmmas may stay in flight while those of the next iteration start: no op of
  /// the loop reads an accumulator, and no operand is in registers.
  bool mayOverlap() const;
  /// Replaces the dots by wgmmas. Operands in slots must be results of tgpu.ring_read, or permutes
  /// of these. The wait for a wgmma is before the first reader of its accumulator, so that the
  /// wgmma overlaps with the ops in between. With `overlap`, the wait is in the next iteration, and
  /// once more after the loop.
  void replace(mlir::scf::ForOp loop, bool overlap);

 private:
  bool onlyAddsUp(tile::DotOp dot) const;
  mlir::Operation* firstReader(tgpu::WgmmaOp wgmma) const;
  void awaitReaders(llvm::ArrayRef<tgpu::WgmmaOp> started) const;

  llvm::SmallVector<tile::DotOp> dots;
  bool readsRegisters = false;  // true if a dot has an operand in registers
};

}  // namespace ligerdsl::compiler
