// A loop with loads that may be issued iterations ahead. Computes a load's indices for a later
// iteration, and repeats the load.
#pragma once

#include "compiler/dialect/tile.h"
#include "compiler/remarks.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace ligerdsl::compiler {

struct PipelinedLoop {
  mlir::scf::ForOp loop;
  int64_t stages = 0;               // requested by the author or the options; for remarks
  std::string reasonNotAhead = "";  // why a load stays; set by addSlice and LoadReach::of

  /// Begins a remark with the number of stages.
  MissedRemark remark(mlir::Operation* op, RemarkId id) const;

  /// Collects the body's ops that compute `value`, in order. Returns false if `value` is not a pure
  /// function of the induction variable and of values from outside. Sets `follows` if it depends on
  /// the induction variable.
  bool addSlice(mlir::Value value, llvm::SetVector<mlir::Operation*>& slice, bool& follows);
  /// Returns the indices of a load and its alignment offset.
  static llvm::SmallVector<mlir::Value> positionOf(tile::LoadTileOp load);

  /// Emits the computation of the loads' indices for induction value `at`. `mapping` replaces other
  /// values.
  mlir::IRMapping indicesAt(mlir::OpBuilder& builder, llvm::ArrayRef<tile::LoadTileOp> loads,
                            mlir::Value at, mlir::IRMapping mapping = {});
  llvm::SmallVector<mlir::Value> loadAt(mlir::OpBuilder& builder,
                                        llvm::ArrayRef<tile::LoadTileOp> loads, mlir::Value at);
  /// Emits the induction value one iteration after `from`.
  mlir::Value ahead(mlir::OpBuilder& builder, mlir::Value from) const;
};

}  // namespace ligerdsl::compiler
