// tgpu-decompose-reduce
//
// Independent reductions of one shape are merged first (merge_reductions.h).
//
// A reduction whose axis is within warps is one tgpu.reduce_in_warp: registers, then shuffles.
// Otherwise:
//
//   1. reduce_in_warp leaves one value per warp: a tile whose axis has W elements, one for each
//      warp along the axis (all warps of the cluster if CTAs share the axis).
//   2. convert_layout gives every thread, or every group of lanes, all W values. This is the only
//      exchange through shared memory. A variadic reduction exchanges all its values with one
//      barrier.
//   3. reduce_in_warp combines the W values in a fixed order, the same in all CTAs.
//
// Every thread that needs the result computes it, so no result is sent back. If the only use of all
// results is a conversion to one layout, step 2 converts to that layout directly.
//
// A scan is converted to a layout whose axis is within one warp, scanned there, and converted back.
// Tiles that are scanned are not split among CTAs.
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/exchange/merge_reductions.h"
#include "compiler/passes/passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "program/gpu_arch.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPUDECOMPOSEREDUCEPASS
#include "compiler/passes/Passes.h.inc"

namespace {

using Basis = LinearLayout::Basis;
using Bases = LinearLayout::Bases;
using Shape = LinearLayout::Shape;

// Largest number of values that each thread reads and combines alone. For more, lanes share the
// work.
constexpr int64_t kMaxInThread = 8;

Bases insertAxis(const Bases& bases, int axis) {
  Bases result;
  for (Basis basis : bases) {
    basis.insert(basis.begin() + axis, 0);
    result.push_back(std::move(basis));
  }
  return result;
}

Basis along(int rank, int axis, int64_t offset) {
  Basis basis(rank, 0);
  basis[axis] = offset;
  return basis;
}

Shape insertSize(Shape shape, int axis, int64_t size) {
  shape.insert(shape.begin() + axis, size);
  return shape;
}

// Returns a layout of one value per warp, the result of reduce_in_warp. The i-th warp or CTA bit
// that moves along the axis becomes bit i of the axis.
LinearLayout perWarpLayout(const LinearLayout& source, int axis) {
  LinearLayout slice = source.slice(axis);
  Bases warp = insertAxis(slice.bases(Axis::warp), axis),
        cta = insertAxis(slice.bases(Axis::cta), axis);
  int64_t position = 1;
  auto number = [&](Bases& bases, uint64_t moving) {
    for (size_t bit = 0; bit < bases.size(); ++bit) {
      if (!(moving >> bit & 1)) continue;
      bases[bit] = along(source.rank(), axis, position);
      position *= 2;
    }
  };
  number(warp, source.along(axis).warp);
  number(cta, source.along(axis).cta);
  return LinearLayout(insertSize(slice.shape(), axis, position),
                      insertAxis(slice.bases(Axis::reg), axis),
                      insertAxis(slice.bases(Axis::lane), axis), std::move(warp), std::move(cta));
}

// Returns `target` with an inserted axis of `size` values. Many values are distributed over lanes
// that would otherwise hold copies; few are in registers.
LinearLayout gatherLayout(const LinearLayout& target, int axis, int64_t size) {
  const int rank = target.rank() + 1;
  Bases reg = insertAxis(target.bases(Axis::reg), axis),
        lane = insertAxis(target.bases(Axis::lane), axis);
  Bases values;
  for (int64_t offset = 1; offset < size; offset *= 2) values.push_back(along(rank, axis, offset));

  SmallVector<size_t> freeLanes;
  for (size_t bit = 0; bit < lane.size(); ++bit)
    if (lane[bit] == Basis(rank, 0)) freeLanes.push_back(bit);
  // If the axis is the last dimension, its values are in the lowest registers, so that a thread
  // reads them as vectors.
  const bool share =
      size > program::kWarpThreads || (size > kMaxInThread && freeLanes.size() >= values.size());
  const size_t distributed = share ? std::min(values.size(), freeLanes.size()) : 0;
  const size_t kept = values.size() - distributed;
  for (size_t i = 0; i < distributed; ++i) lane[freeLanes[i]] = values[kept + i];
  reg.insert(axis == rank - 1 ? reg.begin() : reg.end(), values.begin(), values.begin() + kept);
  return LinearLayout(insertSize(target.shape(), axis, size), std::move(reg), std::move(lane),
                      insertAxis(target.bases(Axis::warp), axis),
                      insertAxis(target.bases(Axis::cta), axis));
}

// Copies a combiner region. The terminator of the copy is tgpu.yield.
void takeCombiner(Region& from, Region& to) {
  IRMapping mapping;
  from.cloneInto(&to, mapping);
  Operation* yield = to.front().getTerminator();
  if (isa<tgpu::YieldOp>(yield)) return;
  OpBuilder builder(yield);
  tgpu::YieldOp::create(builder, yield->getLoc(), yield->getOperands());
  yield->erase();
}

SmallVector<Value> reduceInWarp(OpBuilder& builder, tile::ReduceOp reduce, ValueRange sources,
                                TypeRange types) {
  auto op = tgpu::ReduceInWarpOp::create(builder, reduce.getLoc(), types, reduce.getKind(), sources,
                                         reduce.getAxis());
  takeCombiner(reduce.getCombiner(), op.getCombiner());
  return op.getResults();
}

SmallVector<Value> convertAll(OpBuilder& builder, Location loc, ValueRange values,
                              const LinearLayout& layout) {
  SmallVector<Value> results;
  for (Value value : values) {
    auto type = withLayout(cast<RankedTensorType>(value.getType()), layout);
    results.push_back(type == value.getType()
                          ? value
                          : tgpu::ConvertLayoutOp::create(builder, loc, type, value).getResult());
  }
  return results;
}

// Returns the layout to which every result is converted, if it is the same for all and they have no
// other use.
std::optional<LinearLayout> commonConversion(tile::ReduceOp reduce) {
  std::optional<LinearLayout> common;
  for (Value result : reduce.getResults()) {
    if (!result.hasOneUse()) return std::nullopt;
    auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(*result.user_begin());
    if (!conversion || conversion->getBlock() != reduce->getBlock()) return std::nullopt;
    LinearLayout layout = layoutOf(conversion.getResult());
    if (common && *common != layout) return std::nullopt;
    common = layout;
  }
  return common;
}

void replaceResults(tile::ReduceOp reduce, ValueRange values, bool converted) {
  for (auto [result, value] : llvm::zip_equal(reduce.getResults(), values)) {
    if (!converted) {
      result.replaceAllUsesWith(value);
      continue;
    }
    Operation* conversion = *result.user_begin();
    conversion->getResult(0).replaceAllUsesWith(value);
    conversion->erase();
  }
  reduce.erase();
}

void decompose(tile::ReduceOp reduce) {
  OpBuilder builder(reduce);
  const int axis = static_cast<int>(reduce.getAxis());
  SmallVector<Value> sources = reduce.getSources();
  LinearLayout source = layoutOf(sources[0]);
  if (source.along(axis).warp == 0 && source.along(axis).cta == 0) {
    replaceResults(reduce, reduceInWarp(builder, reduce, sources, reduce.getResultTypes()), false);
    return;
  }

  LinearLayout perWarp = perWarpLayout(source, axis);
  SmallVector<Type> partialTypes, resultTypes;
  bool scalar = source.rank() == 1;
  std::optional<LinearLayout> conversion = scalar ? std::nullopt : commonConversion(reduce);
  LinearLayout target = conversion ? *conversion : source.slice(axis);
  for (Value value : sources) {
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    partialTypes.push_back(withLayout(RankedTensorType::get(perWarp.shape(), element), perWarp));
    resultTypes.push_back(
        scalar ? element : withLayout(RankedTensorType::get(target.shape(), element), target));
  }
  SmallVector<Value> partials = reduceInWarp(builder, reduce, sources, partialTypes);
  LinearLayout gathered = gatherLayout(target, axis, perWarp.shape()[axis]);
  SmallVector<Value> values = convertAll(builder, reduce.getLoc(), partials, gathered);
  replaceResults(reduce, reduceInWarp(builder, reduce, values, resultTypes),
                 conversion.has_value());
}

// Returns a layout whose axis is within one warp: contiguous elements per lane, then lanes. Warps
// and remaining lanes are along the other dimensions.
LinearLayout scanLayout(const LinearLayout& source, int axis) {
  const int rank = source.rank();
  std::vector<int64_t> order, inverse(rank);
  for (int dim = 0; dim < rank; ++dim)
    if (dim != axis) order.push_back(dim);
  order.push_back(axis);
  Shape shape;
  for (int dim = 0; dim < rank; ++dim) {
    shape.push_back(source.shape()[order[dim]]);
    inverse[order[dim]] = dim;
  }
  int64_t linear = int64_t{1} << splitOdd(shape.back()).second;
  return LinearLayout::blocked(shape, std::max<int64_t>(1, linear / source.lanes()), source.lanes(),
                               source.warps(), ClusterCut{source.ctas()})
      .permute(inverse);
}

void decompose(tile::ScanOp scan) {
  OpBuilder builder(scan);
  LinearLayout source = layoutOf(scan.getSources()[0]);
  LinearLayout inWarp = scanLayout(source, scan.getAxis());
  SmallVector<Value> sources = convertAll(builder, scan.getLoc(), scan.getSources(), inWarp);
  SmallVector<Type> types =
      llvm::map_to_vector(sources, [](Value value) { return value.getType(); });
  auto op = tgpu::ScanInWarpOp::create(builder, scan.getLoc(), types, scan.getKind(), sources,
                                       scan.getAxis(), scan.getReverse());
  takeCombiner(scan.getCombiner(), op.getCombiner());
  SmallVector<Value> results = convertAll(builder, scan.getLoc(), op.getResults(), source);
  scan.replaceAllUsesWith(results);
  scan.erase();
}

class TgpuDecomposeReducePass : public impl::TgpuDecomposeReducePassBase<TgpuDecomposeReducePass> {
 public:
  using TgpuDecomposeReducePassBase::TgpuDecomposeReducePassBase;

  void runOnOperation() override {
    mergeReductions(getOperation());
    SmallVector<tile::ReduceOp> reductions;
    SmallVector<tile::ScanOp> scans;
    getOperation().walk([&](tile::ReduceOp op) { reductions.push_back(op); });
    getOperation().walk([&](tile::ScanOp op) { scans.push_back(op); });
    for (tile::ReduceOp op : reductions) decompose(op);
    for (tile::ScanOp op : scans) decompose(op);
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
