// tile-prefetch-loads
//
// In a loop that asks for num_stages >= 2 (its own attribute, else the compile option), loads are issued num_stages - 1
// iterations before they are used and travel there in registers, so that memory is busy while an iteration computes.
//
//   1. A load_tile of the loop's body qualifies if its indices are pure functions of the induction variable and of
//      values from outside, and no store of the loop may touch what it reads ahead of it (rule S).
//   2. What the loop carries must stay within a part of the registers (carriedBudget); otherwise fewer iterations are
//      kept in flight.
//   3. For every qualifying load: one load per stage before the loop, one in the body for the iteration
//      num_stages - 1 ahead, and a carried value in place of the load.
//   4. If not even one iteration fits, the loads stay, and the body begins by asking for the next iteration's tiles
//      (prefetch_tile): they wait in the second-level cache, not in registers.
//
// Loads past the loop's end read tiles that nobody uses: a view's bounds are tested for every index that is not a
// constant, so outside of the view they read nothing.
//
// Rule S: a store qualifies beside a load if the two cannot overlap (alias facts), or if both walk one memory by equal
// partitions and share an index that differs from iteration to iteration: the store is at iv, the load at iv + n step.
#include "compiler/analysis/memory_access.h"
#include "compiler/dialect/tile.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Bytes of registers of a thread when one CTA has the processor to itself, and the part of them that a loop may carry:
// the rest is for operands, results and addresses.
constexpr int64_t kRegisterFile = 256 * 1024, kMostPerThread = 1020;
int64_t carriedBudget(int64_t threads) {
  return std::min(kRegisterFile / threads, kMostPerThread) * 3 / 8;
}

class LoopPrefetcher {
 public:
  // Threads of a CTA, CTAs of a cluster.
  LoopPrefetcher(scf::ForOp loop, int64_t stages, int64_t threads, int64_t ctas)
      : loop(loop), depth(stages - 1), threads(threads), ctas(ctas) {}

  void run() {
    if (depth < 1 || !collectWrites()) return;
    int64_t bytes = 0, carried = 0;
    for (tile::LoadTileOp load : loop.getBody()->getOps<tile::LoadTileOp>()) {
      if (!qualifies(load)) continue;
      loads.push_back(load);
      bytes += bytesPerThread(load.getType());
    }
    if (loads.empty()) return;
    for (Type type : loop.getResultTypes()) carried += bytesPerThread(type);
    depth = std::min(depth, (carriedBudget(threads) - carried) / std::max<int64_t>(bytes, 1));
    if (depth > 0)
      carryLoads();
    else
      askForNext();
  }

 private:
  // False if the loop talks to other programs: atomics may announce what a later load reads.
  bool collectWrites() {
    auto walked = loop.getBody()->walk([&](Operation* op) {
      auto access = memoryAccess(op);
      if (!access || !access->writes) return WalkResult::advance();
      if (access->atomic) return WalkResult::interrupt();
      writes.push_back(*access);
      return WalkResult::advance();
    });
    return !walked.wasInterrupted();
  }

  int64_t bytesPerThread(Type type) const {
    auto tensor = dyn_cast<RankedTensorType>(type);
    Type element = getElementTypeOrSelf(type);
    int64_t bytes = element.isIntOrFloat() ? llvm::divideCeil(element.getIntOrFloatBitWidth(), 8) : 8;
    return bytes * (tensor ? llvm::divideCeil(tensor.getNumElements(), threads * ctas) : 1);
  }

  bool qualifies(tile::LoadTileOp load) {
    SetVector<Operation*> slice;
    bool follows = false;
    for (Value index : load.getIndices())
      if (!addSlice(index, slice, follows)) return false;
    if (!follows) return false;
    MemoryAccess access = *memoryAccess(load);
    return llvm::all_of(writes, [&](const MemoryAccess& write) { return staysBehind(write, access, load); });
  }

  // Collects the body's ops that compute `value`, in order; false if it is no pure function of the induction variable.
  bool addSlice(Value value, SetVector<Operation*>& slice, bool& follows) {
    if (value == loop.getInductionVar()) return follows = true;
    if (loop.isDefinedOutsideOfLoop(value)) return true;
    Operation* op = value.getDefiningOp();
    if (!op || op->getNumRegions() || !isPure(op)) return false;
    for (Value operand : op->getOperands())
      if (!addSlice(operand, slice, follows)) return false;
    slice.insert(op);
    return true;
  }

  // Rule S.
  bool staysBehind(const MemoryAccess& write, const MemoryAccess& read, tile::LoadTileOp load) {
    if (!mayOverlap(write, read)) return true;
    auto store = dyn_cast<tile::StoreTileOp>(write.op);
    bool exact = write.root == read.root || (write.aliasClass != 0 && write.aliasClass == read.aliasClass);
    if (!store || !write.root || !read.root || !exact || store.getTileShape() != load.getTileShape()) return false;
    return llvm::any_of(llvm::zip_equal(store.getIndices(), load.getIndices()), [&](auto pair) {
      auto [stored, loaded] = pair;
      return stored == loaded && isInjective(stored);
    });
  }

  // Whether different iterations give different values.
  bool isInjective(Value value) {
    if (value == loop.getInductionVar()) return true;
    Operation* op = value.getDefiningOp();
    if (!op) return false;
    if (isa<arith::ExtSIOp, arith::ExtUIOp>(op)) return isInjective(op->getOperand(0));
    if (!isa<arith::AddIOp, arith::SubIOp>(op)) return false;
    Value a = op->getOperand(0), b = op->getOperand(1);
    return loop.isDefinedOutsideOfLoop(a) ? isInjective(b) : loop.isDefinedOutsideOfLoop(b) && isInjective(a);
  }

  // Repeats what computes the indices of the loads, for induction value `at`.
  IRMapping indicesAt(OpBuilder& builder, Value at) {
    IRMapping mapping;
    mapping.map(loop.getInductionVar(), at);
    SetVector<Operation*> slice;
    bool follows = false;
    for (tile::LoadTileOp load : loads)
      for (Value index : load.getIndices()) addSlice(index, slice, follows);
    for (Operation* op : slice) builder.clone(*op, mapping);
    return mapping;
  }

  SmallVector<Value> loadAt(OpBuilder& builder, Value at) {
    IRMapping mapping = indicesAt(builder, at);
    return llvm::map_to_vector(
        loads, [&](tile::LoadTileOp load) { return Value(builder.clone(*load, mapping)->getResult(0)); });
  }

  void askForNext() {
    OpBuilder builder = OpBuilder::atBlockBegin(loop.getBody());
    IRMapping mapping = indicesAt(builder, ahead(builder, loop.getInductionVar()));
    for (tile::LoadTileOp load : loads) {
      if (!isa<RankedTensorType>(load.getType())) continue;
      SmallVector<Value> indices =
          llvm::map_to_vector(load.getIndices(), [&](Value v) { return mapping.lookupOrDefault(v); });
      tile::PrefetchTileOp::create(builder, load.getLoc(), load.getView(), indices, load.getTileShape());
    }
  }

  Value ahead(OpBuilder& builder, Value from) {
    return arith::AddIOp::create(builder, loop.getLoc(), from, loop.getStep());
  }

  // Where the loaded tiles have been widened: from here on, what this iteration carried can make room for the next.
  Operation* lastWidening() {
    Operation* last = loads.front();
    for (Operation& op : loop.getBody()->without_terminator()) {
      if (op.getNumRegions()) break;
      auto widening = dyn_cast<arith::ExtFOp>(op);
      auto load = widening ? widening.getIn().getDefiningOp<tile::LoadTileOp>() : tile::LoadTileOp();
      if (load && llvm::is_contained(loads, load)) last = &op;
    }
    return last;
  }

  void carryLoads() {
    IRRewriter rewriter(loop);
    SmallVector<Value> inits;  // stage by stage
    Value at = loop.getLowerBound();
    for (int64_t stage = 0; stage < depth; ++stage) {
      llvm::append_range(inits, loadAt(rewriter, at));
      at = ahead(rewriter, at);
    }
    rewriter.setInsertionPointAfter(lastWidening());
    at = loop.getInductionVar();
    for (int64_t stage = 0; stage < depth; ++stage) at = ahead(rewriter, at);
    SmallVector<Value> fetched = loadAt(rewriter, at);

    SmallVector<NamedAttribute> attributes(loop->getDiscardableAttrs());
    rewriter.setInsertionPoint(loop);
    SmallVector<BlockArgument> carried;
    auto yields = [&](OpBuilder&, Location, ArrayRef<BlockArgument> arguments) {
      carried.assign(arguments.begin(), arguments.end());
      SmallVector<Value> next(arguments.drop_front(loads.size()));
      llvm::append_range(next, fetched);
      return next;
    };
    auto replaced = loop.replaceWithAdditionalYields(rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, yields);
    (*replaced)->setDiscardableAttrs(attributes);
    for (auto [load, value] : llvm::zip_first(loads, carried)) rewriter.replaceOp(load, value);
  }

  scf::ForOp loop;
  int64_t depth, threads, ctas;
  SmallVector<MemoryAccess> writes;
  SmallVector<tile::LoadTileOp> loads;
};

class TilePrefetchLoadsPass : public PassWrapper<TilePrefetchLoadsPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TilePrefetchLoadsPass)
  TilePrefetchLoadsPass() = default;
  TilePrefetchLoadsPass(const TilePrefetchLoadsPass& other) : PassWrapper(other) {}
  TilePrefetchLoadsPass(int stages, int warps, int ctas) {
    numStages = stages;
    numWarps = warps;
    numCtas = ctas;
  }

  StringRef getArgument() const override { return "tile-prefetch-loads"; }
  StringRef getDescription() const override { return "Issue the loads of pipelined loops iterations ahead"; }

  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops) {
      auto own = loop->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr);
      LoopPrefetcher(loop, own ? own.getInt() : int64_t{numStages}, 32 * int64_t{numWarps}, numCtas).run();
    }
  }

 private:
  Option<int> numStages{*this, "num-stages", llvm::cl::desc("Stages of loops that name none"), llvm::cl::init(1)};
  Option<int> numWarps{*this, "num-warps", llvm::cl::desc("Warps per CTA"), llvm::cl::init(4)};
  Option<int> numCtas{*this, "num-ctas", llvm::cl::desc("CTAs per cluster"), llvm::cl::init(1)};
};

}  // namespace

std::unique_ptr<Pass> createTilePrefetchLoadsPass(int numStages, int numWarps, int numCtas) {
  return std::make_unique<TilePrefetchLoadsPass>(numStages, numWarps, numCtas);
}

}  // namespace ligerdsl::compiler
