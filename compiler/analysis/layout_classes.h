// Which tiles of a function must share one layout, and which ops relate the layouts of two classes.
//
// Elementwise ops, memory ops with several tiles, scans, and control flow need the same layout on all their tiles:
// those values form one class (union-find). Shape ops and reductions relate two classes: knowing one layout gives the
// other's.
#pragma once

#include <vector>

#include "compiler/dialect/tile.h"
#include "compiler/layout/linear_layout.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Operation.h"

namespace ligerdsl::compiler {

struct LayoutClass {
  LinearLayout::Shape shape;
  std::vector<mlir::Value> values;         // in program order
  std::vector<mlir::Operation*> accesses;  // loads, stores and atomics
  bool reducedAlongRows = false;           // a reduction over the last of several dimensions reads it
  uint64_t reducedDims = 0;                // dimensions over which reductions read it
  bool scanned = false;
  std::optional<LinearLayout> layout;

  int64_t elements() const;
};

// A shape op or reduction from tiles of one class to tiles of another (or the same).
struct LayoutRelation {
  mlir::Operation* op;
  int source, result;
};

class LayoutClasses {
 public:
  /// Fails with a diagnostic on an op that has tiles but no rule.
  mlir::LogicalResult build(mlir::func::FuncOp func);

  std::vector<LayoutClass> classes;
  std::vector<LayoutRelation> relations;
  std::vector<tile::DotOp> dots;
  int classOf(mlir::Value value) const { return index.lookup(value); }

 private:
  int idOf(mlir::Value value);
  int find(int id);
  void unite(mlir::Value a, mlir::Value b);
  void uniteAll(mlir::ValueRange a, mlir::ValueRange b);
  void uniteTiles(mlir::Operation* op);
  mlir::LogicalResult visit(mlir::Operation* op);
  void number();

  llvm::DenseMap<mlir::Value, int> ids;
  std::vector<mlir::Value> values;
  std::vector<int> parent;
  std::vector<mlir::Operation*> related, accesses, scans;
  llvm::DenseMap<mlir::Value, int> index;
};

bool isTile(mlir::Type type);

/// The layout that a relation's op gives its result for this source layout; nothing if it leaves a choice.
std::optional<LinearLayout> resultLayout(mlir::Operation* op, const LinearLayout& source);

/// The layout in which a relation's op finds its source in the same thread; nothing if the result does not determine
/// it.
std::optional<LinearLayout> sourceLayout(mlir::Operation* op, const LinearLayout& result);

}  // namespace ligerdsl::compiler
