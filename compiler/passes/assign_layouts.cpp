// tile-assign-layouts
//
//   1. Make every use of a constant, splat or range its own op, so that one cheap value never ties two classes
//   together.
//   2. Collect classes of tiles that must share a layout, and relations between classes (layout_classes.h).
//      Matrix products say where their tiles are (dot_layout.h); their factors become values of their own, converted.
//   3. Take the classes in order of memory traffic, largest tile first, of equal ones that with the widest vectors:
//      they are whole vectors of wider types too. A class without a layout gets its preferred one
//      (layout_preference.h), and everything that follows through relations is assigned at once: a broadcast operand is
//      loaded where it is needed, sums stay where the reduction leaves them.
//   4. Write the layouts into the types.
//   5. Where a relation's two layouts do not match, convert.
//   6. Words of which a thread has two vectors are stored by pairs of lanes, so that they write whole sectors.
//
// Accesses of less than 16 bytes although a thread has more, and changes of layout in loops, are remarks.
//
// Old values of atomics are sent to all holders of replicated elements (atomic_results.h).
#include <numeric>
#include <tuple>

#include "compiler/analysis/exchange_bytes.h"
#include "compiler/analysis/layout_classes.h"
#include "compiler/analysis/layout_preference.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/thread_registers.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/layout/conversion.h"
#include "compiler/layout/dot_layout.h"
#include "compiler/layout/swizzle.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "compiler/rewrites/atomic_results.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "program/gpu_arch.h"

using namespace mlir;

namespace ligerdsl::compiler {
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

// What multiplies, and where it wants its tiles.
struct DotPlan {
  DotLayouts layouts;
  std::string whyThreads;  // empty: tensor cores
};

DotShape shapeOf(tile::DotOp dot, const Threads& threads, WarpPart part) {
  auto a = cast<RankedTensorType>(dot.getA().getType()), b = cast<RankedTensorType>(dot.getB().getType());
  return {a.getDimSize(0), b.getDimSize(1), a.getDimSize(1), threads.warps, threads.ctas, part, dot.getFactorBytes()};
}

DotPlan planOf(tile::DotOp dot, const Threads& threads, WarpPart part) {
  const DotShape shape = shapeOf(dot, threads, part);
  if (dot.isIeeeF32()) return {threadLayouts(shape), "they multiply f16, bf16, fp8, i8 and tf32, not IEEE f32"};
  if (std::optional<DotLayouts> fragments = mmaLayouts(shape)) return {*fragments, ""};
  return {threadLayouts(shape),
          llvm::formatv("m is {0}, n {1} and k {2}; m needs a factor of {3}, n one of {4}, k one of {5}", shape.m,
                        shape.n, shape.k, kMmaM, kMmaN, mmaK(shape.bytes))
              .str()};
}

// Whether the product's loop loads a factor ahead, so that it comes to wait in swizzled rows of shared memory, where wgmma reads it;
// `permuted` or not, where that is said.
bool isLoadedAhead(tile::DotOp dot, Value source, std::optional<bool> permuted = std::nullopt) {
  if (auto conversion = source.getDefiningOp<tgpu::ConvertLayoutOp>()) source = conversion.getSource();
  auto permute = source.getDefiningOp<tile::PermuteOp>();
  if (permuted && *permuted != static_cast<bool>(permute)) return false;
  if (permute) source = permute.getSource();
  auto load = source.getDefiningOp<tile::LoadTileOp>();
  if (!load || load->getParentOp() != dot->getParentOp()) return false;
  const auto type = cast<RankedTensorType>(load.getType());
  if (Swizzle::widest(type.getDimSize(0), type.getDimSize(1) * sharedElementBytes(type.getElementType())) == 0)
    return false;
  auto loop = dyn_cast<scf::ForOp>(load->getParentOp());
  auto stages = loop ? loop->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr) : IntegerAttr();
  return stages && stages.getInt() >= 2;
}

// wgmma reads numbers of 8 and 32 bits with k along the rows; here from shared memory alone.
std::string whyNoWgmmaOfRows(tile::DotOp dot) {
  const char* type = dot.isFp8() ? "fp8" : dot.isInt8() ? "i8" : "tf32";
  const int64_t depth = cast<RankedTensorType>(dot.getA().getType()).getDimSize(1);
  const int64_t step = kMmaBytes * 8 / dot.getFactorType().getIntOrFloatBitWidth();
  if (depth % step != 0)
    return llvm::formatv("k is {0}, and of {1} it takes a multiple of {2}", depth, type, step).str();
  if (!isLoadedAhead(dot, dot.getA(), false) || !isLoadedAhead(dot, dot.getB(), true))
    return llvm::formatv(
               "its {0} factors are not both tiles that a pipelined loop loads with k along their rows, of a "
               "multiple of 32 bytes: [m, k], and [n, k] that is permuted{1}",
               type, dot.isFp8() ? "; they become f16 where they are multiplied" : "")
        .str();
  if (dot.getTf32() && !dot->getParentOp()->hasAttr(tile::kTensorCopiesAttr))
    return "it rounds no f32 to tf32, nor do the loop's copies to shared memory; ask for tensor copies, which do";
  return "";
}

// Whether the tile is another one from turn to turn of the loop that loads it.
bool movesOn(Value source) {
  if (auto conversion = source.getDefiningOp<tgpu::ConvertLayoutOp>()) source = conversion.getSource();
  if (auto permute = source.getDefiningOp<tile::PermuteOp>()) source = permute.getSource();
  auto load = source.getDefiningOp<tile::LoadTileOp>();
  auto loop = load ? dyn_cast<scf::ForOp>(load->getParentOp()) : scf::ForOp();
  return loop && !llvm::all_of(load.getIndices(), [&](Value index) { return loop.isDefinedOutsideOfLoop(index); });
}

// What a cluster's CTAs share: products of two factors that tensor copies bring in each turn.
bool canBeShared(tile::DotOp dot) {
  if (!dot->getParentOp()->hasAttr(tile::kTensorCopiesAttr)) return false;
  return llvm::all_of(ValueRange{dot.getA(), dot.getB()},
                      [&](Value factor) { return isLoadedAhead(dot, factor) && movesOn(factor); });
}

bool isReadFromSlots(tile::DotOp dot, const Threads& threads) {
  if (threads.ctas > 1 && !canBeShared(dot)) return false;
  if (dot.takesRowsOnly()) return whyNoWgmmaOfRows(dot).empty();
  return isLoadedAhead(dot, dot.getB());
}

// Why it is not wgmma that multiplies; empty if it is to, or where other tensor cores are all there are.
std::string whyNoWgmma(tile::DotOp dot, const Threads& threads) {
  const DotShape shape = shapeOf(dot, threads, WarpPart::group);
  if (threads.ctas > 1 && !canBeShared(dot))
    return "num_ctas is " + std::to_string(threads.ctas) +
           ", and a cluster shares products of two factors that tensor copies bring in each turn of a loop with "
           "tensor_copies";
  if (dot.isInt8() && shape.n <= kMostWgmmaN && !fitsWgmmaColumns(shape))
    return "n is " + std::to_string(shape.n) + ", and of i8 it takes more than 32 columns by 16";
  if (!fitsWgmma(shape))
    return llvm::formatv(
               "m is {0} and n {1}, for {2} warps{6}; it takes a multiple of four warps, of {3} rows for each of "
               "them, at most {4} columns and {5} sums a thread",
               shape.m, shape.n, threads.warps * threads.ctas, kMmaM, kMostWgmmaN, kMostWgmmaSums,
               threads.ctas > 1 ? " of a cluster, whose m is a power of two" : "")
        .str();
  if (dot.takesRowsOnly()) return whyNoWgmmaOfRows(dot);
  if (!isReadFromSlots(dot, threads))
    return "its second factor is not a tile that a pipelined loop loads, in rows of a multiple of 32 bytes";
  return "";
}

// Whether a factor is loaded with k across its rows; of the first one columns of memory are its rows then.
bool liesAcross(Value factor, bool second) {
  if (auto conversion = factor.getDefiningOp<tgpu::ConvertLayoutOp>()) factor = conversion.getSource();
  auto permute = factor.getDefiningOp<tile::PermuteOp>();
  if (permute) factor = permute.getSource();
  return factor.getDefiningOp<tile::LoadTileOp>() && second != static_cast<bool>(permute);
}

void separateFactors(func::FuncOp func) {
  func.walk([](tile::DotOp dot) {
    OpBuilder builder(dot);
    for (OpOperand* factor : {&dot.getAMutable(), &dot.getBMutable()})
      factor->set(tgpu::ConvertLayoutOp::create(builder, dot.getLoc(), factor->get().getType(), factor->get()));
  });
}

// Whether the store stands in a loop that the product stands in directly, or in one further inside.
bool repeatsWith(tile::DotOp dot, tile::StoreTileOp store) {
  auto loop = store->getParentOfType<scf::ForOp>();
  auto turns = dot->getParentOfType<scf::ForOp>();
  return loop && (loop == turns || !loop->isAncestor(dot));
}

// A thread has two neighbours of a row of sums, four threads half a sector of narrow ones, and a whole one of f32, which is
// enough to store but not to add: memory adds by requests, of a line at most. Tiles of whole vectors are stored in a layout of
// their own, behind the loops that have taken shared memory for other things. Says whether there are any.
bool separateStores(const LayoutClasses& classes, const Threads& threads) {
  constexpr int64_t kNarrowBytes = 2, kMostBytes = 64 * 1024;
  llvm::SmallDenseSet<Operation*> stores;
  for (tile::DotOp dot : classes.dots) {
    const LayoutClass& sums = classes.classes[classes.classOf(dot.getResult())];
    for (Operation* access : sums.accesses) {
      auto store = dyn_cast<tile::StoreTileOp>(access);
      auto type = store ? dyn_cast<RankedTensorType>(store.getValue().getType()) : RankedTensorType();
      if (!type || !type.getElementType().isIntOrFloat() || repeatsWith(dot, store)) continue;
      const int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
      const int64_t vector = tile::kVectorBytes / bytes, elements = type.getNumElements();
      const bool adds = store.getAdds() && planOf(dot, threads, WarpPart::square).whyThreads.empty();
      const bool gains = adds || (bytes <= kNarrowBytes && elements * bytes <= kMostBytes * threads.ctas);
      if (gains && accessShape(store).vector >= vector && elements % (threads.count() * vector) == 0)
        stores.insert(store);
    }
  }
  for (Operation* op : stores) {
    auto store = cast<tile::StoreTileOp>(op);
    OpBuilder builder(store);
    store.getValueMutable().assign(
        tgpu::ConvertLayoutOp::create(builder, store.getLoc(), store.getValue().getType(), store.getValue()));
  }
  return !stores.empty();
}

// Words that are computed from as many 16-bit elements, as f32 from bf16, are two vectors of a thread: a store of one of them by all lanes
// would write half of each sector, which costs the second-level cache as much as all of it. Lanes of a pair exchange one for one, and write
// whole sectors together. 128256 rows of 2048 f32, the embedding's gradient: 90 million sectors written where its bytes
// are 33 million, 554 us, then 338 (an H200).
void pairLanesOfStores(func::FuncOp func) {
  constexpr int64_t kWordBytes = 4, kVector = tile::kVectorBytes / kWordBytes;
  func.walk([](tile::StoreTileOp store) {
    auto type = dyn_cast<RankedTensorType>(store.getValue().getType());
    if (!type || !type.getElementType().isIntOrFloat() || type.getElementTypeBitWidth() != 8 * kWordBytes ||
        store.getAdds())
      return;
    const LinearLayout layout = layoutOf(type);
    const AccessShape access = accessShape(store);
    if (access.fastDim < 0 || access.vector != kVector || layout.contiguous(access.fastDim) != 2 * kVector) return;
    LinearLayout::Basis next(type.getRank(), 0);  // where the neighbouring lane's vectors begin
    next[access.fastDim] = 2 * kVector;
    const BitSwap bits{static_cast<int>(llvm::Log2_64(kVector)), 0};
    if (layout.bases(Axis::lane).front() != next) return;
    OpBuilder builder(store);
    store.getValueMutable().assign(tgpu::ConvertLayoutOp::create(
        builder, store.getLoc(), withLayout(type, swapped(layout, bits)), store.getValue()));
  });
}

// A factor that is the same in all turns of a loop is converted once, in front of it, if a thread's part of it leaves room for
// what the loop works with.
void hoistFactors(func::FuncOp func) {
  constexpr int64_t kMostBytes = 128;  // of a thread: 32 registers
  func.walk([](tile::DotOp dot) {
    for (Value factor : {dot.getA(), dot.getB()}) {
      auto conversion = factor.getDefiningOp<tgpu::ConvertLayoutOp>();
      if (!conversion || layoutOf(factor).registers() * getElementTypeOrSelf(factor.getType()).getIntOrFloatBitWidth() >
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
  Assigner(LayoutClasses& classes, const Threads& threads, bool wgmma) : all(classes), threads(threads), wgmma(wgmma) {}

  void run() {
    std::vector<int> order(all.classes.size());
    std::iota(order.begin(), order.end(), 0);
    auto weight = [&](int number) {
      const LayoutClass& tiles = all.classes[number];
      return std::tuple(tiles.accesses.empty() ? 0 : tiles.elements(), tiles.elements(), widestVector(tiles));
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
  // Sums that become the rows of another product, computed with or not, as in attention: both products leave rows to warps.
  llvm::SmallDenseSet<int> sumsOfWholeRows() const {
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

  // Sums of which wgmma can make all products, and should one.
  llvm::SmallDenseSet<int> sumsOfGroups() const {
    llvm::SmallDenseSet<int> fit, others;
    for (tile::DotOp dot : all.dots) {
      const bool possible = wgmma && !dot.isIeeeF32() && fitsWgmma(shapeOf(dot, threads, WarpPart::group));
      if (!possible || isReadFromSlots(dot, threads)) (possible ? fit : others).insert(all.classOf(dot.getResult()));
    }
    for (int number : others) fit.erase(number);
    return fit;
  }

  // Equal shapes of sums have equal layouts, so that a class has one.
  void anchorDots() {
    const llvm::SmallDenseSet<int> rows = sumsOfWholeRows(), groups = sumsOfGroups();
    for (tile::DotOp dot : all.dots) {
      const int number = all.classOf(dot.getResult());
      const DotPlan plan = planOf(dot, threads,
                                  groups.contains(number) ? WarpPart::group
                                  : rows.contains(number) ? WarpPart::rows
                                                          : WarpPart::square);
      all.classes[all.classOf(dot.getA())].layout = plan.layouts.a;
      all.classes[all.classOf(dot.getB())].layout = plan.layouts.b;
      all.classes[all.classOf(dot.getResult())].layout = plan.layouts.sums;
    }
    for (tile::DotOp dot : all.dots) propagateFrom(all.classOf(dot.getResult()));
  }

  // The preferred layout, or one with wider vectors (so that some threads repeat others) if only that finds the
  // operands of its broadcasts where they already are.
  LinearLayout choose(int number) const {
    const LayoutClass& tiles = all.classes[number];
    LinearLayout preferred = preferredLayout(tiles, threads);
    for (int64_t vector = preferredVector(tiles, threads.count()); vector <= widestVector(tiles); vector *= 2) {
      LinearLayout candidate = blockedLayout(tiles, threads, vector);
      bool fits = llvm::all_of(all.relations, [&](const LayoutRelation& relation) {
        const std::optional<LinearLayout>& source = all.classes[relation.source].layout;
        return relation.result != number || !source || sourceLayout(relation.op, candidate) == source;
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
        if (relation.result == number && offer(relation.source, start, sourceLayout(relation.op, layout)))
          pending.push_back(relation.source);
      }
    }
  }

  // A reduction across warps has to exchange values anyway. If it leaves enough of them and they go to memory, they are
  // better spread over all warps (the result's own choice) than repeated in every one.
  bool keepsWarpsBusy(const LayoutRelation& relation, const LinearLayout& source) const {
    auto reduce = dyn_cast<tile::ReduceOp>(relation.op);
    const LayoutClass& result = all.classes[relation.result];
    if (!reduce) return false;
    const BitMasks moving = source.along(reduce.getAxis());
    return (moving.warp != 0 || moving.cta != 0) && !result.accesses.empty() && result.elements() >= threads.count();
  }

  // Assigns a layout that follows from that of class `start`. Tiles as large as those that move through memory keep
  // their wide accesses instead and are converted; for smaller ones a conversion would cost more than narrow or
  // repeated accesses.
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
      if (layout.contiguous(dim) < std::min(preferred.contiguous(dim), preferredVector(tiles, threads.count())))
        return false;
    return true;
  }

  LayoutClasses& all;
  Threads threads;
  bool wgmma;  // is there
};

void setType(Value value, const LinearLayout& layout) {
  RankedTensorType type = withLayout(cast<RankedTensorType>(value.getType()), layout);
  value.setType(type);
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    constant.setValueAttr(cast<TypedAttr>(cast<DenseElementsAttr>(constant.getValue()).reshape(type)));
}

Value convert(OpBuilder& builder, Location loc, Value value, const LinearLayout& layout) {
  auto type = withLayout(cast<RankedTensorType>(value.getType()), layout);
  return type == value.getType() ? value : tgpu::ConvertLayoutOp::create(builder, loc, type, value).getResult();
}

// Gives a result the layout that its op produces and its users the one they expect.
void convertResult(Operation* op, unsigned number, const LinearLayout& produced, const LinearLayout& expected) {
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
  // A reshape whose map is not linear: exact in every thread that holds all elements.
  auto whole = [&](Value value) {
    return LinearLayout::replicated(LinearLayout::Shape(cast<RankedTensorType>(value.getType()).getShape()),
                                    result.lanes(), result.warps(), result.ctas());
  };
  op->setOperand(0, convert(builder, op->getLoc(), source, whole(source)));
  convertResult(op, 0, whole(op->getResult(0)), result);
}

InFlightDiagnostic remark(Operation* op) {
  return missed(op, "tile-assign-layouts");
}

// Of a load or store of a partition's tile: what facts or its layout cost it of 16 bytes.
void remarkNarrowAccess(Operation* op) {
  Value tile = isa<tile::LoadTileOp>(op) ? op->getResult(0) : op->getOperand(0);
  auto type = dyn_cast<RankedTensorType>(tile.getType());
  if (!type || !type.getElementType().isIntOrFloat()) return;
  const int64_t bytes = std::max<int64_t>(1, type.getElementTypeBitWidth() / 8);
  const LinearLayout layout = layoutOf(type);
  const int64_t threads = layout.lanes() * layout.warps() * layout.ctas();
  const int64_t wanted =
      llvm::bit_floor<uint64_t>(std::min(tile::kVectorBytes / bytes, type.getNumElements() / threads));
  if (wanted <= 1) return;
  const AccessShape proved = accessShape(op);
  if (proved.vector < wanted) {
    remark(op) << "accesses of " << proved.vector * bytes << " bytes, not " << wanted * bytes << ": " << whyNarrow(op);
  } else if (int64_t held = layout.contiguous(proved.fastDim); held < wanted) {
    remark(op) << "accesses of " << held * bytes << " bytes, not " << wanted * bytes
               << ": what the tile is used with gives each thread " << held
               << " neighbours in memory; take tiles along the same dimension";
  }
}

// Of sums, by separateStores, or of words, by pairLanesOfStores.
bool isForStore(tgpu::ConvertLayoutOp op) {
  auto store = dyn_cast_or_null<tile::StoreTileOp>(op->getNextNode());
  return store && store.getValue() == op.getResult() && op->hasOneUse() && op->getLoc() == store->getLoc();
}

// Reductions exchange their results anyway.
void remarkConversion(tgpu::ConvertLayoutOp op) {
  const bool inLoop = op->getParentOfType<scf::ForOp>() != nullptr;
  if (!inLoop || op.getSource().getDefiningOp<tile::ReduceOp>() ||
      llvm::all_of(op->getUsers(), llvm::IsaPred<tile::DotOp>) || isForStore(op) || !passesMemory(op))
    return;
  auto type = cast<RankedTensorType>(op.getResult().getType());
  const int64_t bytes = type.getNumElements() * std::max<int64_t>(1, type.getElementTypeBitWidth() / 8);
  remark(op) << "change of layout in a loop: each iteration moves " << bytes
             << " bytes through shared memory; do it outside of the loop, or load the tile in the shape in which it is "
                "used";
}

void remarkMisses(func::FuncOp func) {
  func.walk([](Operation* op) {
    if (isa<tile::LoadTileOp, tile::StoreTileOp>(op)) remarkNarrowAccess(op);
    if (auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(op)) remarkConversion(conversion);
  });
}

class TileAssignLayoutsPass : public PassWrapper<TileAssignLayoutsPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TileAssignLayoutsPass)
  TileAssignLayoutsPass() = default;
  TileAssignLayoutsPass(const TileAssignLayoutsPass& other) : PassWrapper(other) {}
  TileAssignLayoutsPass(int warps, int ctas, StringRef arch) {
    numWarps = warps;
    numCtas = ctas;
    archName = arch.str();
  }

  StringRef getArgument() const override { return "tile-assign-layouts"; }
  StringRef getDescription() const override { return "Give every tile a linear layout"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<tgpu::TgpuDialect>(); }

  void runOnOperation() override {
    const program::GpuArch* arch = archNamed(getOperation(), archName);
    if (!arch) return signalPassFailure();
    if (numWarps < 1 || !llvm::isPowerOf2_64(numWarps) || numWarps > program::kMaxWarps) {
      getOperation().emitError("num_warps is ") << int(numWarps) << "; expected a power of two from 1 to 32";
      return signalPassFailure();
    }
    if (numCtas < 1 || !llvm::isPowerOf2_64(numCtas) || numCtas > program::kMaxCluster) {
      getOperation().emitError("num_ctas is ") << int(numCtas) << "; expected 1, 2, 4, 8 or 16";
      return signalPassFailure();
    }
    if (failed(checkShapes())) return signalPassFailure();
    tileScalarAtomics(getOperation());
    rematerializeCreators(getOperation());
    separateFactors(getOperation());
    if (numCtas > 1) getOperation()->setAttr(kNumCtasAttr, Builder(&getContext()).getI64IntegerAttr(numCtas));
    LayoutClasses found, separated;
    if (failed(found.build(getOperation()))) return signalPassFailure();
    const bool stores = separateStores(found, {numWarps, numCtas});
    if (stores && failed(separated.build(getOperation()))) return signalPassFailure();
    LayoutClasses& classes = stores ? separated : found;
    for (tile::DotOp dot : classes.dots) remarkDot(dot, arch->wgmma);
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
    hoistFactors(getOperation());
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
              op->emitOpError("has a tile dimension of ") << size << "; expected c * 2^n with odd c <= 31";
              return WalkResult::interrupt();
            }
      return WalkResult::advance();
    });
    return failure(status.wasInterrupted());
  }

  void remarkDot(tile::DotOp dot, bool wgmma) {
    const Threads threads{numWarps, numCtas};
    if (const std::string why = planOf(dot, threads, WarpPart::square).whyThreads; !why.empty()) {
      remark(dot) << "the product is not made by tensor cores: " << why;
      return;
    }
    if (const std::string why = wgmma ? whyNoWgmma(dot, threads) : ""; !why.empty())
      remark(dot) << "the product is made by mma.sync, not by wgmma: " << why;
    if (dot.isInt8() && (liesAcross(dot.getA(), false) || liesAcross(dot.getB(), true)))
      remark(dot) << "an i8 factor is read byte by byte: its neighbours along k are none in memory; lay it out with k "
                     "along its rows";
  }

  Option<int> numWarps{*this, "num-warps", llvm::cl::desc("Warps per CTA"), llvm::cl::init(4)};
  Option<int> numCtas{*this, "num-ctas", llvm::cl::desc("CTAs per cluster"), llvm::cl::init(1)};
  Option<std::string> archName{*this, "arch", llvm::cl::desc("GPU architecture"), llvm::cl::init(kUsualArch.str())};
};

}  // namespace

std::unique_ptr<Pass> createTileAssignLayoutsPass(int numWarps, int numCtas, StringRef arch) {
  return std::make_unique<TileAssignLayoutsPass>(numWarps, numCtas, arch);
}

}  // namespace ligerdsl::compiler
