// A loop whose loads may be issued iterations ahead: where a load will be then, and the same load there.
#pragma once

#include "compiler/dialect/tile.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace ligerdsl::compiler {

struct PipelinedLoop {
  mlir::scf::ForOp loop;
  int64_t stages;                // asked for
  std::string whyNotAhead = "";  // of the value that addSlice has refused

  mlir::InFlightDiagnostic remark(mlir::Operation* op) const;

  /// Collects the body's ops that compute `value`, in order; false if it is no pure function of the induction variable.
  bool addSlice(mlir::Value value, llvm::SetVector<mlir::Operation*>& slice, bool& follows);
  /// What says where a load is.
  static llvm::SmallVector<mlir::Value> positionOf(tile::LoadTileOp load);

  /// Repeats what computes the indices of loads, for induction value `at`, and for what other values map to.
  mlir::IRMapping indicesAt(mlir::OpBuilder& builder, llvm::ArrayRef<tile::LoadTileOp> loads, mlir::Value at,
                            mlir::IRMapping mapping = {});
  llvm::SmallVector<mlir::Value> loadAt(mlir::OpBuilder& builder, llvm::ArrayRef<tile::LoadTileOp> loads,
                                        mlir::Value at);
  /// The induction value an iteration after `from`.
  mlir::Value ahead(mlir::OpBuilder& builder, mlir::Value from) const;
};

}  // namespace ligerdsl::compiler
