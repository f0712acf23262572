// tile-assign-layouts
//
//   1. Clone each constant, splat and range for each use. Otherwise a cheap value would unite the
//      classes of its users.
//   2. Collect classes of tiles that must share a layout, and relations between classes
//      (layout_classes.h). A dot fixes the layouts of its operands and accumulator (dot_layout.h).
//      A conversion separates each operand from the class of its source.
//   3. Process the classes in order of memory traffic, the largest tile first. Among equal sizes,
//      the class with the most elements per vector is first: its vectors are whole vectors of wider
//      types too. A class without a layout gets its preferred one (layout_preference.h). Its
//      relations then determine the layouts of other classes. So each thread loads the elements of
//      a broadcast operand that it needs, and a reduction's result stays in the threads that
//      compute it.
//   4. Write the layouts into the types.
//   5. Insert a conversion where a relation's two layouts differ.
//   6. If a thread has two consecutive vectors of 32-bit elements, the lanes of a pair exchange
//      vectors before the store, so that they write whole sectors.
//
// Remarks report dots without tensor cores, conversions in loops, and accesses of less than 16
// bytes by threads that hold more.
//
// Old values of atomics are sent to all holders of replicated elements (atomic_results.h).
#include <numeric>
#include <tuple>

#include "compiler/analysis/exchange_bytes.h"
#include "compiler/analysis/layout_classes.h"
#include "compiler/analysis/layout_preference.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/thread_registers.h"
#include "compiler/analysis/wgmma_choice.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/exchange/atomic_results.h"
#include "compiler/layout/conversion.h"
#include "compiler/layout/dot_layout.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "program/gpu_arch.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TILEASSIGNLAYOUTSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

bool isCheapCreator(Operation* op) {
  return op->getNumResults() == 1 && isTile(op->getResult(0).getType()) &&
         isa<arith::ConstantOp, tile::SplatOp, tile::MakeRangeOp>(op);
}

void rematerializeCreators(func::FuncOp func) {
  SmallVector<Operation*> creators;
  func.walk([&](Operation* op) {
    if (isCheapCreator(op)) creators.push_back(op);
  });
  for (Operation* op : creators) {
    OpBuilder builder(op);
    builder.setInsertionPointAfter(op);
    for (OpOperand& use : llvm::make_early_inc_range(op->getUses()))
      if (!op->hasOneUse()) use.set(builder.clone(*op)->getResult(0));
  }
}

// Returns true if an operand is loaded with k across its rows: B without a permute, or A with one.
bool hasKAcrossRows(Value operand, bool second) {
  if (auto conversion = operand.getDefiningOp<tgpu::ConvertLayoutOp>())
    operand = conversion.getSource();
  auto permute = operand.getDefiningOp<tile::PermuteOp>();
  if (permute) operand = permute.getSource();
  return operand.getDefiningOp<tile::LoadTileOp>() && second != static_cast<bool>(permute);
}

void separateOperands(func::FuncOp func) {
  func.walk([](tile::DotOp dot) {
    OpBuilder builder(dot);
    for (OpOperand* operand : {&dot.getAMutable(), &dot.getBMutable()})
      operand->set(tgpu::ConvertLayoutOp::create(builder, dot.getLoc(), operand->get().getType(),
                                                 operand->get()));
  });
}

// Returns true if the store is in the loop of the dot, or in a loop that does not contain the dot.
bool repeatsWith(tile::DotOp dot, tile::StoreTileOp store) {
  auto loop = store->getParentOfType<scf::ForOp>();
  auto dotLoop = dot->getParentOfType<scf::ForOp>();
  return loop && (loop == dotLoop || !loop->isAncestor(dot));
}

// Inserts a conversion before some stores of accumulators, to a layout in which lanes have
// contiguous vectors. Returns true if there are such stores.
//
// In an accumulator's layout, four lanes hold eight contiguous elements of a row: half a sector (16
// bytes) of 16-bit elements, or a whole sector of f32. A whole sector is enough for a store. It is
// not enough for an add, because memory handles adds in requests of up to a line. The conversion
// comes after the loops whose rings need the shared memory. The rows' alignment limits the vectors.
bool separateStores(const LayoutClasses& classes, const Threads& threads) {
  constexpr int64_t kNarrowBytes = 2, kMostBytes = 64 * 1024;
  llvm::SmallDenseSet<Operation*> stores;
  for (tile::DotOp dot : classes.dots) {
    const LayoutClass& accs = classes.classes[classes.classOf(dot.getResult())];
    for (Operation* access : accs.accesses) {
      auto store = dyn_cast<tile::StoreTileOp>(access);
      auto type =
          store ? dyn_cast<RankedTensorType>(store.getValue().getType()) : RankedTensorType();
      if (!type || !type.getElementType().isIntOrFloat() || repeatsWith(dot, store)) continue;
      const int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
      const int64_t vector = tile::kVectorBytes / bytes, elements = type.getNumElements();
      const bool adds = store.getAdds() && reasonNoTensorCores(dot, threads).empty();
      const AccessShape access_shape = accessShape(store);
      const bool narrow = bytes <= kNarrowBytes && elements * bytes <= kMostBytes * threads.ctas;
      const bool gains =
          (narrow && access_shape.fastDim >= 0) || (adds && access_shape.vector >= vector);
      if (gains && elements % (threads.count() * vector) == 0) stores.insert(store);
    }
  }
  for (Operation* op : stores) {
    auto store = cast<tile::StoreTileOp>(op);
    OpBuilder builder(store);
    store.getValueMutable().assign(tgpu::ConvertLayoutOp::create(
        builder, store.getLoc(), store.getValue().getType(), store.getValue()));
  }
  return !stores.empty();
}

// A thread that computes 32-bit elements from a vector of 16-bit ones (f32 from bf16) has two
// vectors of results. If all lanes store their first vector at once, they write half of each
// sector, which costs L2 as much as the whole sector. So the lanes of a pair exchange one vector
// each, and then write whole sectors together.
void pairLanesOfStores(func::FuncOp func) {
  constexpr int64_t kWordBytes = 4, kVector = tile::kVectorBytes / kWordBytes;
  func.walk([](tile::StoreTileOp store) {
    auto type = dyn_cast<RankedTensorType>(store.getValue().getType());
    if (!type || !type.getElementType().isIntOrFloat() ||
        type.getElementTypeBitWidth() != 8 * kWordBytes || store.getAdds())
      return;
    const LinearLayout layout = layoutOf(type);
    const AccessShape access = accessShape(store);
    if (access.fastDim < 0 || access.vector != kVector ||
        layout.contiguous(access.fastDim) != 2 * kVector)
      return;
    LinearLayout::Basis next(type.getRank(), 0);  // start of the next lane's vectors
    next[access.fastDim] = 2 * kVector;
    const BitSwap bits{static_cast<int>(llvm::Log2_64(kVector)), 0};
    if (layout.bases(Axis::lane).front() != next) return;
    OpBuilder builder(store);
    store.getValueMutable().assign(tgpu::ConvertLayoutOp::create(
        builder, store.getLoc(), withLayout(type, swapped(layout, bits)), store.getValue()));
  });
}

// Moves the conversion of a loop-invariant operand before the loop, if a thread's part leaves
// enough registers for the loop.
void hoistOperands(func::FuncOp func) {
  constexpr int64_t kMostBytes = 128;  // per thread: 32 registers
  func.walk([](tile::DotOp dot) {
    for (Value operand : {dot.getA(), dot.getB()}) {
      auto conversion = operand.getDefiningOp<tgpu::ConvertLayoutOp>();
      if (!conversion || layoutOf(operand).registers() *
                                 getElementTypeOrSelf(operand.getType()).getIntOrFloatBitWidth() >
                             8 * kMostBytes)
        continue;
      Operation* at = conversion;
      for (auto loop = dot->getParentOfType<LoopLikeOpInterface>();
           loop && loop.isDefinedOutsideOfLoop(conversion.getSource());
           loop = loop->getParentOfType<LoopLikeOpInterface>())
        at = loop;
      if (at != conversion) conversion->moveBefore(at);
    }
  });
}

class Assigner {
 public:
  Assigner(LayoutClasses& classes, const Threads& threads, bool wgmma)
      : all(classes), threads(threads), wgmma(wgmma) {}

  void run() {
    std::vector<int> order(all.classes.size());
    std::iota(order.begin(), order.end(), 0);
    auto weight = [&](int number) {
      const LayoutClass& tiles = all.classes[number];
      return std::tuple(tiles.accesses.empty() ? 0 : tiles.elements(), tiles.elements(),
                        widestVector(tiles));
    };
    llvm::stable_sort(order, [&](int a, int b) { return weight(a) > weight(b); });
    anchorDots();
    for (int number : order) {
      if (all.classes[number].layout) continue;
      all.classes[number].layout = choose(number);
      propagateFrom(number);
    }
  }

 private:
  // Returns the accumulator classes of chained dots, as in attention: one dot's result, possibly
  // after elementwise ops, is operand A of another. In both dots, each warp then gets whole rows.
  llvm::SmallDenseSet<int> accumulatorsOfWholeRows() const {
    llvm::SmallDenseSet<int> sums, found;
    for (tile::DotOp dot : all.dots) sums.insert(all.classOf(dot.getResult()));
    for (tile::DotOp dot : all.dots) {
      const int rows = all.classOf(dot.getA().getDefiningOp<tgpu::ConvertLayoutOp>().getSource());
      if (!sums.contains(rows)) continue;
      found.insert(rows);
      found.insert(all.classOf(dot.getResult()));
    }
    return found;
  }

  // Returns the accumulator classes for which every dot fits wgmma and at least one dot reads
  // slots.
  llvm::SmallDenseSet<int> accumulatorsForWgmma() const {
    llvm::SmallDenseSet<int> fit, others;
    for (tile::DotOp dot : all.dots) {
      const bool possible = wgmma && couldUseWgmma(dot, threads);
      if (!possible || readsSlots(dot, threads))
        (possible ? fit : others).insert(all.classOf(dot.getResult()));
    }
    for (int number : others) fit.erase(number);
    return fit;
  }

  // Assigns the layouts of the dots' operands and accumulators. Dots that share an accumulator
  // class get the same accumulator layout.
  void anchorDots() {
    const llvm::SmallDenseSet<int> rows = accumulatorsOfWholeRows(),
                                   groups = accumulatorsForWgmma();
    for (tile::DotOp dot : all.dots) {
      const int number = all.classOf(dot.getResult());
      const DotLayouts layouts = layoutsOf(dot, threads,
                                           groups.contains(number) ? WarpPart::group
                                           : rows.contains(number) ? WarpPart::rows
                                                                   : WarpPart::square);
      all.classes[all.classOf(dot.getA())].layout = layouts.a;
      all.classes[all.classOf(dot.getB())].layout = layouts.b;
      all.classes[all.classOf(dot.getResult())].layout = layouts.acc;
    }
    for (tile::DotOp dot : all.dots) propagateFrom(all.classOf(dot.getResult()));
  }

  // Returns the preferred layout if it matches the layouts that broadcast operands already have.
  // Otherwise returns one with wider vectors that does; threads then hold copies. If none does,
  // returns the preferred layout.
  LinearLayout choose(int number) const {
    const LayoutClass& tiles = all.classes[number];
    LinearLayout preferred = preferredLayout(tiles, threads);
    for (int64_t vector = preferredVector(tiles, threads.count()); vector <= widestVector(tiles);
         vector *= 2) {
      LinearLayout candidate = blockedLayout(tiles, threads, vector);
      bool fits = llvm::all_of(all.relations, [&](const LayoutRelation& relation) {
        const std::optional<LinearLayout>& source = all.classes[relation.source].layout;
        return relation.result != number || !source ||
               sourceLayout(relation.op, candidate) == source;
      });
      if (fits) return candidate;
    }
    return preferred;
  }

  void propagateFrom(int start) {
    SmallVector<int> pending{start};
    while (!pending.empty()) {
      int number = pending.pop_back_val();
      for (const LayoutRelation& relation : all.relations) {
        const LinearLayout& layout = *all.classes[number].layout;
        if (relation.source == number && !keepsWarpsBusy(relation, layout) &&
            offer(relation.result, start, resultLayout(relation.op, layout)))
          pending.push_back(relation.result);
        if (relation.result == number &&
            offer(relation.source, start, sourceLayout(relation.op, layout)))
          pending.push_back(relation.source);
      }
    }
  }

  // Returns true if a reduction's result should be distributed over all warps instead of replicated
  // in each. This is so if the reduction crosses warps, and its result goes to memory and has an
  // element for every thread.
  bool keepsWarpsBusy(const LayoutRelation& relation, const LinearLayout& source) const {
    auto reduce = dyn_cast<tile::ReduceOp>(relation.op);
    const LayoutClass& result = all.classes[relation.result];
    if (!reduce) return false;
    const BitMasks moving = source.along(reduce.getAxis());
    return (moving.warp != 0 || moving.cta != 0) && !result.accesses.empty() &&
           result.elements() >= threads.count();
  }

  // Gives class `target` a layout that follows from the layout of class `start`. Does nothing if
  // `target` accesses memory, is at least as large as `start` and would lose wide accesses: it is
  // converted instead. For smaller tiles, a conversion would cost more than narrow or repeated
  // accesses.
  bool offer(int target, int start, const std::optional<LinearLayout>& layout) {
    LayoutClass& tiles = all.classes[target];
    if (!layout || tiles.layout) return false;
    bool large = !tiles.accesses.empty() && tiles.elements() >= all.classes[start].elements();
    if (large && !isWideEnough(tiles, *layout)) return false;
    tiles.layout = layout;
    return true;
  }

  bool isWideEnough(const LayoutClass& tiles, const LinearLayout& layout) const {
    LinearLayout preferred = preferredLayout(tiles, threads);
    for (int dim = 0; dim < layout.rank(); ++dim)
      if (layout.contiguous(dim) <
          std::min(preferred.contiguous(dim), preferredVector(tiles, threads.count())))
        return false;
    return true;
  }

  LayoutClasses& all;
  Threads threads;
  bool wgmma;  // the target has wgmma
};

void setType(Value value, const LinearLayout& layout) {
  RankedTensorType type = withLayout(cast<RankedTensorType>(value.getType()), layout);
  value.setType(type);
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    constant.setValueAttr(
        cast<TypedAttr>(cast<DenseElementsAttr>(constant.getValue()).reshape(type)));
}

Value convert(OpBuilder& builder, Location loc, Value value, const LinearLayout& layout) {
  auto type = withLayout(cast<RankedTensorType>(value.getType()), layout);
  return type == value.getType()
             ? value
             : tgpu::ConvertLayoutOp::create(builder, loc, type, value).getResult();
}

// Sets a result's layout to `produced` and converts the result to `expected` for its users.
void convertResult(Operation* op, unsigned number, const LinearLayout& produced,
                   const LinearLayout& expected) {
  Value result = op->getResult(number);
  setType(result, produced);
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Value converted = convert(builder, op->getLoc(), result, expected);
  if (converted != result) result.replaceAllUsesExcept(converted, converted.getDefiningOp());
}

void matchReduction(tile::ReduceOp reduce) {
  LinearLayout produced = layoutOf(reduce.getSources()[0]).slice(reduce.getAxis());
  for (auto [number, result] : llvm::enumerate(reduce.getResults()))
    convertResult(reduce, number, produced, layoutOf(result));
}

void matchShapeOp(Operation* op) {
  OpBuilder builder(op);
  Value source = op->getOperand(0);
  LinearLayout result = layoutOf(op->getResult(0));
  if (auto wanted = sourceLayout(op, result)) {
    op->setOperand(0, convert(builder, op->getLoc(), source, *wanted));
    return;
  }
  // The reshape's map is not linear. Give each thread all elements, so that the reshape is correct
  // anyway.
  auto whole = [&](Value value) {
    return LinearLayout::replicated(
        LinearLayout::Shape(cast<RankedTensorType>(value.getType()).getShape()), result.lanes(),
        result.warps(), result.ctas());
  };
  op->setOperand(0, convert(builder, op->getLoc(), source, whole(source)));
  convertResult(op, 0, whole(op->getResult(0)), result);
}

// Emits a remark if the facts or the layout prevent 16-byte accesses to the tile.
void remarkNarrowAccess(Operation* op) {
  Value tile = isa<tile::LoadTileOp>(op) ? op->getResult(0) : op->getOperand(0);
  auto type = dyn_cast<RankedTensorType>(tile.getType());
  if (!type || !type.getElementType().isIntOrFloat()) return;
  const int64_t bytes = std::max<int64_t>(1, type.getElementTypeBitWidth() / 8);
  const LinearLayout layout = layoutOf(type);
  const int64_t threads = layout.lanes() * layout.warps() * layout.ctas();
  const int64_t wanted = llvm::bit_floor<uint64_t>(
      std::min(tile::kVectorBytes / bytes, type.getNumElements() / threads));
  if (wanted <= 1) return;
  const AccessShape proved = accessShape(op);
  if (proved.vector < wanted) {
    missed(op, RemarkId::narrow_access) << "accesses of " << proved.vector * bytes << " bytes, not "
                                        << wanted * bytes << ": " << whyNarrow(op);
  } else if (int64_t held = layout.contiguous(proved.fastDim); held < wanted) {
    missed(op, RemarkId::narrow_layout)
        << "accesses of " << held * bytes << " bytes, not " << wanted * bytes
        << ": the layout of its uses gives each thread " << held
        << " contiguous elements; use tiles along the same dimension";
  }
}

// Returns true if separateStores or pairLanesOfStores inserted the conversion.
bool isForStore(tgpu::ConvertLayoutOp op) {
  auto store = dyn_cast_or_null<tile::StoreTileOp>(op->getNextNode());
  return store && store.getValue() == op.getResult() && op->hasOneUse() &&
         op->getLoc() == store->getLoc();
}

// Emits a remark on a conversion in a loop. Exceptions are a reduction's result, which threads
// exchange anyway, operands of dots, and tiles for a store (isForStore).
void remarkConversion(tgpu::ConvertLayoutOp op) {
  const bool inLoop = op->getParentOfType<scf::ForOp>() != nullptr;
  if (!inLoop || op.getSource().getDefiningOp<tile::ReduceOp>() ||
      llvm::all_of(op->getUsers(), llvm::IsaPred<tile::DotOp>) || isForStore(op) ||
      !passesMemory(op))
    return;
  auto type = cast<RankedTensorType>(op.getResult().getType());
  const int64_t bytes =
      type.getNumElements() * std::max<int64_t>(1, type.getElementTypeBitWidth() / 8);
  missed(op, RemarkId::layout_change_in_loop)
      << "change of layout in a loop: each iteration moves " << bytes
      << " bytes through shared memory; convert the tile before the loop, or load it in the shape "
         "in which it is used";
}

void remarkMisses(func::FuncOp func) {
  func.walk([](Operation* op) {
    if (isa<tile::LoadTileOp, tile::StoreTileOp>(op)) remarkNarrowAccess(op);
    if (auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(op)) remarkConversion(conversion);
  });
}

class TileAssignLayoutsPass : public impl::TileAssignLayoutsPassBase<TileAssignLayoutsPass> {
 public:
  using TileAssignLayoutsPassBase::TileAssignLayoutsPassBase;

  void runOnOperation() override {
    const program::GpuArch* arch = archNamed(getOperation(), archName);
    if (!arch) return signalPassFailure();
    if (numWarps < 1 || !llvm::isPowerOf2_64(numWarps) || numWarps > program::kMaxWarps) {
      getOperation().emitError("num_warps is ")
          << int(numWarps) << "; expected a power of two from 1 to 32";
      return signalPassFailure();
    }
    if (numCtas < 1 || !llvm::isPowerOf2_64(numCtas) || numCtas > program::kMaxCluster) {
      getOperation().emitError("num_ctas is ") << int(numCtas) << "; expected 1, 2, 4, 8 or 16";
      return signalPassFailure();
    }
    if (failed(checkShapes())) return signalPassFailure();
    tileScalarAtomics(getOperation());
    rematerializeCreators(getOperation());
    separateOperands(getOperation());
    if (numCtas > 1)
      getOperation()->setAttr(kNumCtasAttr, Builder(&getContext()).getI64IntegerAttr(numCtas));
    LayoutClasses found, separated;
    if (failed(found.build(getOperation()))) return signalPassFailure();
    const bool stores = separateStores(found, {numWarps, numCtas});
    if (stores && failed(separated.build(getOperation()))) return signalPassFailure();
    LayoutClasses& classes = stores ? separated : found;
    for (tile::DotOp dot : classes.dots) remarkDot(dot);
    Assigner(classes, {numWarps, numCtas}, arch->wgmma).run();
    for (const LayoutClass& tiles : classes.classes)
      for (Value value : tiles.values) setType(value, *tiles.layout);
    for (const LayoutRelation& relation : classes.relations) {
      if (auto reduce = dyn_cast<tile::ReduceOp>(relation.op))
        matchReduction(reduce);
      else
        matchShapeOp(relation.op);
    }
    shareAtomicResults(getOperation());
    hoistOperands(getOperation());
    pairLanesOfStores(getOperation());
    remarkMisses(getOperation());
  }

 private:
  LogicalResult checkShapes() {
    auto status = getOperation().walk([&](Operation* op) {
      for (Type type : op->getResultTypes())
        if (auto tensor = dyn_cast<RankedTensorType>(type))
          for (int64_t size : tensor.getShape())
            if (!tile::isTileDim(size)) {
              op->emitOpError("has a tile dimension of ")
                  << size << "; expected c * 2^n with odd c <= 31";
              return WalkResult::interrupt();
            }
      return WalkResult::advance();
    });
    return failure(status.wasInterrupted());
  }

  void remarkDot(tile::DotOp dot) {
    if (const std::string why = reasonNoTensorCores(dot, {numWarps, numCtas}); !why.empty())
      missed(dot, RemarkId::tensor_cores_not_used) << "tensor cores: not used: " << why;
    else if (dot.isInt8() &&
             (hasKAcrossRows(dot.getA(), false) || hasKAcrossRows(dot.getB(), true)))
      missed(dot, RemarkId::i8_read_by_bytes)
          << "an i8 operand is read byte by byte: it is not contiguous along k; store it with k "
             "along its rows";
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
