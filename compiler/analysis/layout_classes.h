// Finds the classes of tiles that must share a layout, and the ops that relate two classes'
// layouts.
//
// Elementwise ops, memory ops with several tiles, scans and control flow need the same layout on
// all their tiles. The tiles of such an op are therefore in one class (union-find). A shape op or
// reduction relates two classes: the layout of one determines the layout of the other.
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
  bool reducedAlongRows =
      false;                 // a reduction along the last of several dimensions reads the class
  uint64_t reducedDims = 0;  // bit d: a reduction combines dimension d
  bool scanned = false;
  std::optional<LinearLayout> layout;

  int64_t elements() const;
};

// A shape op or reduction from tiles of one class to tiles of the same or another class.
struct LayoutRelation {
  mlir::Operation* op;
  int source, result;
};

class LayoutClasses {
 public:
  /// Collects the classes. Fails with a diagnostic on an op that has tiles but no rule.
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

/// Returns the layout of the op's result for this source layout, or nothing if several are
/// possible.
std::optional<LinearLayout> resultLayout(mlir::Operation* op, const LinearLayout& source);

/// Returns the source layout for which no element changes its thread, or nothing if the result's
/// layout does not determine it.
std::optional<LinearLayout> sourceLayout(mlir::Operation* op, const LinearLayout& result);

}  // namespace ligerdsl::compiler
