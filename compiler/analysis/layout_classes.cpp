#include "compiler/analysis/layout_classes.h"

#include "compiler/dialect/atomic.h"
#include "compiler/dialect/tgpu.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler {

bool isTile(Type type) {
  return isa<RankedTensorType>(type);
}

int64_t LayoutClass::elements() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

int LayoutClasses::idOf(Value value) {
  auto [entry, added] = ids.try_emplace(value, static_cast<int>(parent.size()));
  if (added) {
    values.push_back(value);
    parent.push_back(entry->second);
  }
  return entry->second;
}

int LayoutClasses::find(int id) {
  while (parent[id] != id) id = parent[id] = parent[parent[id]];
  return id;
}

void LayoutClasses::unite(Value a, Value b) {
  if (!isTile(a.getType())) return;
  int left = find(idOf(a)), right = find(idOf(b));
  parent[std::max(left, right)] = std::min(left, right);
}

void LayoutClasses::uniteAll(ValueRange a, ValueRange b) {
  for (auto [left, right] : llvm::zip_equal(a, b)) unite(left, right);
}

void LayoutClasses::uniteTiles(Operation* op) {
  Value first;
  auto add = [&](Value value) {
    if (!isTile(value.getType())) return;
    if (first) unite(first, value);
    first = value;
  };
  llvm::for_each(op->getOperands(), add);
  llvm::for_each(op->getResults(), add);
}

LogicalResult LayoutClasses::visit(Operation* op) {
  for (Value result : op->getResults())
    if (isTile(result.getType())) idOf(result);
  for (Region& region : op->getRegions())
    for (BlockArgument argument : region.getArguments())
      if (isTile(argument.getType())) idOf(argument);

  if (isa<tile::LoadTileOp, tile::StoreTileOp, tile::LoadOp, tile::StoreOp, tgpu::LocalLoadOp>(
          op) ||
      isAtomic(op)) {
    accesses.push_back(op);
    uniteTiles(op);
  } else if (isa<tile::ReduceOp>(op)) {
    for (Value source : op->getOperands()) unite(op->getOperand(0), source);
    for (Value result : op->getResults()) unite(op->getResult(0), result);
    related.push_back(op);
  } else if (auto gather = dyn_cast<tile::GatherOp>(op)) {
    unite(gather.getIndex(),
          gather.getResult());  // the source goes through shared memory, so it can have any layout
  } else if (auto dot = dyn_cast<tile::DotOp>(op)) {
    unite(dot.getAcc(), dot.getResult());  // the operands have layouts of their own
    dots.push_back(dot);
  } else if (isa<tgpu::ConvertLayoutOp>(op)) {
    // The two layouts are independent.
  } else if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp>(op)) {
    related.push_back(op);
  } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
    uniteAll(loop.getResults(), loop.getInitArgs());
    uniteAll(loop.getResults(), loop.getRegionIterArgs());
    uniteAll(loop.getResults(), loop.getYieldedValues());
  } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
    for (Region* region : {&branch.getThenRegion(), &branch.getElseRegion()})
      if (!region->empty())
        uniteAll(branch.getResults(), region->front().getTerminator()->getOperands());
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    uniteAll(loop.getBeforeArguments(), loop.getInits());
    uniteAll(loop.getBeforeArguments(), loop.getYieldOp().getOperands());
    uniteAll(loop.getResults(), loop.getAfterArguments());
    uniteAll(loop.getResults(), loop.getConditionOp().getArgs());
  } else if (isa<scf::YieldOp, scf::ConditionOp, tile::PrintOp>(op)) {
    // The parent op unites yielded values. A print accepts any layout.
  } else if (isa<tile::SplatOp, tile::MakeRangeOp, tile::AddPtrOp, tile::AssumeDivisibleOp,
                 tile::ScanOp, tile::ShuffleXorOp>(op) ||
             op->hasTrait<OpTrait::Elementwise>() || isa<arith::ConstantOp>(op)) {
    uniteTiles(op);
    if (isa<tile::ScanOp>(op)) scans.push_back(op);
  } else if (llvm::any_of(op->getOperandTypes(), isTile) ||
             llvm::any_of(op->getResultTypes(), isTile)) {
    return op->emitOpError(
        "has tiles, but LayoutClasses::visit (compiler/analysis/layout_classes.cpp) has no rule "
        "for their layouts");
  }
  return success();
}

// Converts union-find roots to class numbers, in program order.
void LayoutClasses::number() {
  llvm::DenseMap<int, int> classOfRoot;
  for (Value value : values) {
    int root = find(idOf(value));
    auto [entry, added] = classOfRoot.try_emplace(root, static_cast<int>(classes.size()));
    if (added) {
      classes.emplace_back();
      classes.back().shape =
          LinearLayout::Shape(cast<RankedTensorType>(value.getType()).getShape());
    }
    classes[entry->second].values.push_back(value);
    index[value] = entry->second;
  }
  for (Operation* op : accesses) {
    auto isTileValue = [](Value value) { return isTile(value.getType()); };
    auto operand = llvm::find_if(op->getOperands(), isTileValue);
    if (operand != op->operand_end())
      classes[classOf(*operand)].accesses.push_back(op);
    else if (op->getNumResults() == 1 && isTile(op->getResult(0).getType()))
      classes[classOf(op->getResult(0))].accesses.push_back(op);
  }
  for (Operation* op : scans) classes[classOf(op->getOperand(0))].scanned = true;
  for (Operation* op : related) {
    int source = classOf(op->getOperand(0));
    if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
      size_t rank = classes[source].shape.size();
      if (rank > 1 && reduce.getAxis() == rank - 1) classes[source].reducedAlongRows = true;
      classes[source].reducedDims |= uint64_t{1} << reduce.getAxis();
    }
    if (isTile(op->getResult(0).getType()))
      relations.push_back({op, source, classOf(op->getResult(0))});
  }
}

LogicalResult LayoutClasses::build(func::FuncOp func) {
  auto status = func.getBody().walk<WalkOrder::PreOrder>([&](Operation* op) {
    if (failed(visit(op))) return WalkResult::interrupt();
    // Combiners work on scalars.
    return isa<tile::ReduceOp, tile::ScanOp>(op) ? WalkResult::skip() : WalkResult::advance();
  });
  if (status.wasInterrupted()) return failure();
  number();
  return success();
}

std::optional<LinearLayout> resultLayout(Operation* op, const LinearLayout& source) {
  if (auto reduce = dyn_cast<tile::ReduceOp>(op)) return source.slice(reduce.getAxis());
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) return source.expandDims(expand.getAxis());
  if (auto permute = dyn_cast<tile::PermuteOp>(op))
    return source.permute({permute.getPermutation().begin(), permute.getPermutation().end()});
  if (isa<tile::ReshapeOp>(op))
    return source.reshape(
        LinearLayout::Shape(cast<RankedTensorType>(op->getResult(0).getType()).getShape()));
  return std::nullopt;
}

std::optional<LinearLayout> sourceLayout(Operation* op, const LinearLayout& result) {
  LinearLayout::Shape shape(cast<RankedTensorType>(op->getOperand(0).getType()).getShape());
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) return result.slice(expand.getAxis());
  if (isa<tile::BroadcastOp>(op)) return result.shrink(shape);
  if (isa<tile::ReshapeOp>(op)) return result.reshape(shape);
  if (auto permute = dyn_cast<tile::PermuteOp>(op)) {
    std::vector<int64_t> inverse(shape.size());
    for (auto [dim, from] : llvm::enumerate(permute.getPermutation())) inverse[from] = dim;
    return result.permute(inverse);
  }
  return std::nullopt;
}

}  // namespace ligerdsl::compiler
