// Products of a pipelined loop that wgmma makes of what waits in the slots of the loop's ring.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ligerdsl::compiler {

/// Whether the product's tiles are where wgmma has them.
bool isDealtToGroups(tile::DotOp dot);

class WarpgroupProducts {
 public:
  /// The products of the loop's body that wgmma can make if `inSlot` says which factors will be read from swizzled slots: the
  /// second one has to be. `roundsF32`: whether what fills the slots rounds f32 to tf32, as tensor copies do and wgmma does not.
  WarpgroupProducts(mlir::scf::ForOp loop, llvm::function_ref<bool(mlir::Value)> inSlot, bool roundsF32);

  size_t count() const { return products.size(); }
  bool empty() const { return products.empty(); }
  tile::DotOp last() const { return products.back(); }
  /// Whether products may be under way while those of the next turn start: nothing looks at a sum within the loop, nor writes to
  /// registers that they read.
  bool mayOverlap() const;
  /// Replaces them; their factors are tgpu.ring_read by now, maybe permuted. A product is waited for in front of what reads its
  /// sums first, so that it is under way beside what stands between; with `overlap`, in the next turn, and behind the loop.
  void replace(mlir::scf::ForOp loop, bool overlap);

 private:
  bool onlyAddsUp(tile::DotOp dot) const;
  mlir::Operation* firstReader(tgpu::WgmmaOp product) const;
  void awaitReaders(llvm::ArrayRef<tgpu::WgmmaOp> started) const;

  llvm::SmallVector<tile::DotOp> products;
  bool readsRegisters = false;  // for factors
};

}  // namespace ligerdsl::compiler
