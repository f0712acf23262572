// Factors of matrix products that a pipelined loop loads. Copied as they lie in memory, they are read from shared memory in
// the layout that the product wants, instead of changing it through registers in every turn.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "compiler/rewrites/pipelined_loop.h"
#include "llvm/ADT/MapVector.h"

namespace ligerdsl::compiler {

class ProductFactors {
 public:
  /// Among `loads`, which the loop issues ahead: products may get loads of their own there. Threads of a CTA, CTAs of a
  /// cluster.
  ProductFactors(PipelinedLoop& at, llvm::SmallVector<tile::LoadTileOp>& loads, int64_t threads, int64_t ctas)
      : at(at), loads(loads), threads(threads), ctas(ctas) {}

  /// The kind of copy that brings operands: all threads copy at least one 16-byte vector each, or one thread issues TMA copies.
  enum class Copies { threads, tensor };
  void copyBy(Copies by) { copiesBy = by; }
  /// True if an operand is staged that copies by all threads could not bring.
  bool needTensorCopies() const;

  /// The conversions go: what they take of shared memory is room for the ring.
  void take();
  /// Remarks on factors that were not taken and change their layout through shared memory in every iteration.
  void remarkOthers();
  /// The same of those among `once`, tiles that all iterations share, that are first factors as they were loaded.
  void takeOnce(llvm::ArrayRef<tile::LoadTileOp> once);
  /// There was no room, for any of them or for this one.
  void giveBack();
  void giveAllBack();  // without a remark
  void giveBack(tile::LoadTileOp load);
  /// What was loaded for several products, each with a load of its own by now, is loaded no more.
  void dropOriginals();

  bool empty() const { return factors.empty(); }
  bool contains(mlir::Operation* load) const { return factors.contains(load); }
  llvm::SmallVector<tile::LoadTileOp> all() const;

  /// In which layout it is copied.
  mlir::RankedTensorType loadedType(tile::LoadTileOp load) const;
  /// Why the load cannot become copies to shared memory. Empty where it can.
  std::string whyNotStaged(tile::LoadTileOp load) const { return whyNotStaged(load, copiesBy); }
  bool canBeStaged(tile::LoadTileOp load) const { return whyNotStaged(load).empty(); }

 private:
  struct Factor;
  std::string whyNotStaged(tile::LoadTileOp load, Copies by) const;
  static std::optional<Factor> factorOf(tile::LoadTileOp load);
  llvm::SmallVector<tgpu::ConvertLayoutOp> conversionsOf(tile::LoadTileOp load);
  void take(tile::LoadTileOp load, Factor factor);
  bool comesToAll() const;
  void separateLoads();
  void uniteLoads();
  void remark(tgpu::ConvertLayoutOp conversion);

  // A load that only a product uses, maybe permuted.
  struct Factor {
    tile::PermuteOp permute;  // or null
    tgpu::ConvertLayoutOp conversion;
    mlir::RankedTensorType loaded, permuted;  // the types before
  };

  PipelinedLoop& at;
  llvm::SmallVector<tile::LoadTileOp>& loads;
  int64_t threads, ctas;
  Copies copiesBy = Copies::threads;
  llvm::MapVector<mlir::Operation*, Factor> factors;           // of these loads
  llvm::MapVector<mlir::Operation*, tile::LoadTileOp> copies;  // loads of their own that products have, and of which
};

}  // namespace ligerdsl::compiler
