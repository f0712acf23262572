// tile-keep-residents
//
// Loads that carry one number `resident` read blocks of one row, in two loops of opposite order. They become reads of a
// ring of slots in shared memory that asynchronous copies (tgpu.fill) keep filled, so that memory is busy while the
// program computes and blocks that fit are read from memory once.
//
//   1. A row qualifies if exactly two loops of one block, both from 0 to one constant number n of positions, load a block
//      of it (loads elsewhere stay as they are), and no loop encloses them, so that slots are set up once; the first at
//      index f(i), the second at g(i) with g(i) = f(n - 1 - i) (rule M); if nothing that comes before the end of the first
//      loop may write the row (rule W); and if types prove that every block is made of whole aligned groups of 16 bytes
//      (rule A).
//   2. The rows of a function share `budget` bytes of shared memory. A row gets S = min(n, its share) slots, at least
//      two; otherwise its loads stay.
//   3. Position p lives in slot p mod S. Positions 0 .. S-1 are filled as early as what they depend on allows. The first
//      loop refills a slot with position p + S once all threads have read p, the second with p - S: it begins with what
//      the first left behind and n - S blocks are read again.
//   4. A slot's fills alternate in parity: position p is always awaited with the parity of p div S, because on its way
//      back the second loop passes the fills of a slot in reverse order.
//
// Rule M: the two index computations are equal op by op, with n - 1 - j of the second loop where the first has i.
// Rule W: copies read ahead, by another way to memory than stores write, so that no barrier orders the two.
#include "compiler/analysis/memory_access.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/shared_buffer.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int64_t kGroupBytes = 16;  // what a bulk copy moves is made of

std::optional<int64_t> constantOf(Value value) {
  APInt number;
  if (!matchPattern(value, m_ConstantInt(&number))) return std::nullopt;
  return number.getSExtValue();
}

// Positions of a loop from 0 to a constant by 1.
std::optional<int64_t> positionsOf(scf::ForOp loop) {
  auto begin = constantOf(loop.getLowerBound()), end = constantOf(loop.getUpperBound()),
       step = constantOf(loop.getStep());
  if (begin != 0 || step != 1 || !end) return std::nullopt;
  return end;
}

// Rule A. The last axis is the one that blocks follow each other on.
bool isAligned(tile::LoadTileOp load) {
  tile::ViewType view = load.getView().getType();
  ArrayRef<int64_t> shape = load.getTileShape();
  int64_t bytes = view.getElementBytes();
  size_t last = shape.size() - 1;
  auto whole = [&](int64_t elements) { return elements * bytes % kGroupBytes == 0; };
  for (size_t axis = 0; axis < last; ++axis) {
    int64_t stride = view.isDynamicStride(axis) ? view.getStrideDivisors()[axis] : view.getStrides()[axis];
    if (shape[axis] > 1 || !whole(stride)) return false;
  }
  return !view.isDynamicDim(last) && view.getStrides()[last] == 1 && view.getAlignment() % kGroupBytes == 0 &&
         whole(shape[last]) && whole(view.getShape()[last]);
}

class ResidentRow {
 public:
  explicit ResidentRow(ArrayRef<tile::LoadTileOp> all) {
    for (tile::LoadTileOp load : all)
      if (isa<scf::ForOp>(load->getParentOp())) loads.push_back(load);
  }

  bool qualifies() {
    if (loads.size() != 2) return false;
    first = cast<scf::ForOp>(loads[0]->getParentOp());
    second = cast<scf::ForOp>(loads[1]->getParentOp());
    if (first == second || first->getBlock() != second->getBlock() || !first->isBeforeInBlock(second)) return false;
    if (first->getParentOfType<LoopLikeOpInterface>()) return false;
    std::optional<int64_t> count = positionsOf(first);
    if (!count || *count < 2 || positionsOf(second) != count) return false;
    positions = *count;
    return loads[0].getView() == loads[1].getView() && loads[0].getTileShape() == loads[1].getTileShape() &&
           loads[0].getPadAttr() == loads[1].getPadAttr() && isAligned(loads[0]) && sameBlocks() &&
           !mayBeWrittenBefore();
  }

  int64_t blockBytes() {
    return loads[0].getTileShape().back() * loads[0].getView().getType().getElementBytes();
  }

  void keep(int64_t share, int64_t threads) {
    slots = std::min({positions, share / blockBytes(), threads});
    if (slots < 2) return;
    OpBuilder builder(first);
    builder.setInsertionPoint(earliest());
    Location loc = loads[0].getLoc();
    auto alloc = [&](tgpu::MemDescType type) -> Value {
      return tgpu::LocalAllocOp::create(builder, loc, type, IntegerAttr());
    };
    SmallVector<int64_t> shape{slots};
    llvm::append_range(shape, slotType().getShape());
    buffer = alloc(tgpu::MemDescType::get(builder.getContext(), shape, slotType().getElementType(), 0));
    barriers = alloc(tgpu::MemDescType::get(builder.getContext(), {slots}, builder.getI64Type(), 0));
    tgpu::InitFillsOp::create(builder, loc, barriers);
    fill(builder, number(builder, 0), slots);
    replace(loads[0], first.getInductionVar(), slots);
    OpBuilder inSecond = OpBuilder::atBlockBegin(second.getBody());
    Value position = arith::SubIOp::create(inSecond, loc, number(inSecond, positions - 1),
                                           toI32(inSecond, second.getInductionVar()));
    replace(loads[1], position, -slots);
  }

 private:
  //===-- Does it qualify? --===//

  // All indices but the last are one value from outside of the loops; the last obeys rule M.
  bool sameBlocks() {
    for (auto [a, b] : llvm::zip_equal(loads[0].getIndices().drop_back(), loads[1].getIndices().drop_back()))
      if (!mirrors(a, b) || !first.isDefinedOutsideOfLoop(a)) return false;
    return mirrors(loads[0].getIndices().back(), loads[1].getIndices().back()) && collect(loads[0].getIndices().back());
  }

  // Rule M.
  bool mirrors(Value a, Value b) {
    if (a == first.getInductionVar()) return isReversedCounter(b);
    if (a == b) return true;  // from outside of both
    Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
    if (!left || !right || left->getName() != right->getName() || left->getNumRegions() || !isPure(left) ||
        left->getAttrDictionary() != right->getAttrDictionary() || a.getType() != b.getType() ||
        left->getNumOperands() != right->getNumOperands() ||
        cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber())
      return false;
    return llvm::all_of(llvm::zip_equal(left->getOperands(), right->getOperands()),
                        [&](auto pair) { return mirrors(std::get<0>(pair), std::get<1>(pair)); });
  }

  bool isReversedCounter(Value value) {
    auto difference = value.getDefiningOp<arith::SubIOp>();
    return difference && constantOf(difference.getLhs()) == positions - 1 &&
           difference.getRhs() == second.getInductionVar();
  }

  // Rule W.
  bool mayBeWrittenBefore() {
    MemoryAccess row = *memoryAccess(loads[0]);
    bool written = false;
    first->getParentOfType<func::FuncOp>().walk<WalkOrder::PreOrder>([&](Operation* op) {
      Operation* here = first->getBlock()->findAncestorOpInBlock(*op);
      if (here && first->isBeforeInBlock(here)) return WalkResult::interrupt();
      std::optional<MemoryAccess> access = memoryAccess(op);
      written = written || (access && access->writes && mayOverlap(*access, row));
      return WalkResult::advance();
    });
    return written;
  }

  // The body's ops that compute `value` from the first loop's counter, in order.
  bool collect(Value value) {
    if (value == first.getInductionVar() || first.isDefinedOutsideOfLoop(value)) return true;
    Operation* op = value.getDefiningOp();
    if (!op || op->getNumRegions() || !isPure(op)) return false;
    if (!llvm::all_of(op->getOperands(), [&](Value operand) { return collect(operand); })) return false;
    slice.insert(op);
    return true;
  }

  //===-- Rewriting --===//

  // The earliest op of the loops' block in front of which the first fills may stand: behind what they use and behind
  // what may write memory.
  Operation* earliest() {
    llvm::SmallPtrSet<Operation*, 8> needed;
    auto need = [&](Value value) {
      if (Operation* op = value.getDefiningOp()) needed.insert(op);
    };
    for (Value index : loads[0].getIndices()) need(index);
    for (Operation* op : slice)
      for (Value operand : op->getOperands()) need(operand);
    Operation* at = first;
    for (Operation* before = at->getPrevNode(); before; before = at->getPrevNode()) {
      if (needed.contains(before) || !(isMemoryEffectFree(before) || hasSingleEffect<MemoryEffects::Read>(before) ||
                                       isa<tgpu::LocalAllocOp, tgpu::InitFillsOp, tgpu::FillOp>(before)))
        break;
      at = before;
    }
    return at;
  }

  static Value number(OpBuilder& builder, int64_t value) {
    return arith::ConstantOp::create(builder, builder.getUnknownLoc(), builder.getI32IntegerAttr(value));
  }
  static Value toI32(OpBuilder& builder, Value value) {
    if (value.getType().isInteger(32)) return value;
    return arith::TruncIOp::create(builder, value.getLoc(), builder.getI32Type(), value);
  }

  tgpu::MemDescType slotType() {
    auto tile = cast<RankedTensorType>(loads[0].getType());
    return tgpu::MemDescType::get(tile.getContext(), tile.getShape(), tile.getElementType(), 0);
  }

  // How many elements of the block at these indices are inside of the view.
  Value inside(OpBuilder& builder, ValueRange indices) {
    Location loc = loads[0].getLoc();
    tile::ViewType view = loads[0].getView().getType();
    int64_t block = loads[0].getTileShape().back();
    auto wide = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
    };
    // As an unsigned comparison this rejects negative indices as well.
    auto below = [&](Value index, Value size) -> Value {
      return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index, size);
    };
    Value origin = arith::MulIOp::create(builder, loc, indices.back(), wide(block)), size = wide(view.getShape().back());
    Value exists = below(origin, size);
    for (auto [axis, index] : llvm::enumerate(indices.drop_back())) {
      Value dim = tile::DimOp::create(builder, loc, loads[0].getView(), static_cast<uint32_t>(axis));
      exists = arith::AndIOp::create(builder, loc, exists, below(index, dim));
    }
    Value left = arith::SubIOp::create(builder, loc, size, origin);
    left = arith::MinUIOp::create(builder, loc, left, wide(block));
    left = arith::SelectOp::create(builder, loc, exists, left, wide(0));
    return arith::TruncIOp::create(builder, loc, builder.getI32Type(), left);
  }

  void fill(OpBuilder& builder, Value from, int64_t count) {
    Location loc = loads[0].getLoc();
    Value n = number(builder, count);
    auto op = tgpu::FillOp::create(builder, loc, loads[0].getView(), loads[0].getTileShape(), buffer, barriers, from, n);
    Block* body = op.getPosition().empty() ? &op.getPosition().emplaceBlock() : &op.getPosition().front();
    Value position = body->addArgument(builder.getI32Type(), loc);
    OpBuilder inside = OpBuilder::atBlockEnd(body);
    if (position.getType() != first.getInductionVar().getType())
      position = arith::ExtSIOp::create(inside, loc, first.getInductionVar().getType(), position);
    IRMapping mapping;
    mapping.map(first.getInductionVar(), position);
    for (Operation* op : slice) inside.clone(*op, mapping);
    SmallVector<Value> yielded =
        llvm::map_to_vector(loads[0].getIndices(), [&](Value index) { return mapping.lookupOrDefault(index); });
    yielded.push_back(this->inside(inside, yielded));
    tgpu::YieldOp::create(inside, loc, yielded);
  }

  // Reads the load's block from its slot; where position + distance exists, the slot is then refilled with it.
  void replace(tile::LoadTileOp load, Value at, int64_t distance) {
    OpBuilder builder(load);
    Location loc = load.getLoc();
    Value position = toI32(builder, at), slot = position, parity = number(builder, 0);
    if (slots < positions) {
      Value n = number(builder, slots);
      slot = arith::RemUIOp::create(builder, loc, position, n);
      Value round = arith::DivUIOp::create(builder, loc, position, n);
      parity = arith::AndIOp::create(builder, loc, round, number(builder, 1));
    }
    tgpu::AwaitFillOp::create(builder, loc, barriers, slot, parity);
    Value place = tgpu::LocalSlotOp::create(builder, loc, slotType(), buffer, slot);
    auto read = tgpu::LocalLoadOp::create(builder, loc, load.getType(), place, inside(builder, load.getIndices()),
                                          load.getPadAttr());
    if (slots < positions) {
      Value next = arith::AddIOp::create(builder, loc, position, number(builder, distance));
      Value exists =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, next, number(builder, positions));
      auto branch = scf::IfOp::create(builder, loc, exists, /*withElseRegion=*/false);
      OpBuilder refill = OpBuilder::atBlockBegin(branch.thenBlock());
      tgpu::BarrierOp::create(refill, loc);
      fill(refill, next, 1);
    }
    load.replaceAllUsesWith(read.getResult());
    dead.push_back(load);
  }

  SmallVector<tile::LoadTileOp> loads;  // those in loops
  scf::ForOp first, second;
  int64_t positions = 0, slots = 0;
  SetVector<Operation*> slice;
  Value buffer, barriers;

 public:
  SmallVector<tile::LoadTileOp> dead;
};

class TileKeepResidentsPass : public PassWrapper<TileKeepResidentsPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TileKeepResidentsPass)
  TileKeepResidentsPass() = default;
  TileKeepResidentsPass(const TileKeepResidentsPass& other) : PassWrapper(other) {}
  TileKeepResidentsPass(int64_t bytes, int warps) {
    budget = bytes;
    numWarps = warps;
  }

  StringRef getArgument() const override { return "tile-keep-residents"; }
  StringRef getDescription() const override { return "Keep resident rows in shared memory between two passes"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<tgpu::TgpuDialect>(); }

  void runOnOperation() override {
    llvm::MapVector<int64_t, SmallVector<tile::LoadTileOp>> byNumber;
    getOperation().walk([&](tile::LoadTileOp load) {
      if (load.getResident()) byNumber[*load.getResident()].push_back(load);
    });
    SmallVector<ResidentRow> rows;
    for (auto& [number, loads] : byNumber)
      if (ResidentRow row(loads); row.qualifies()) rows.push_back(std::move(row));
    for (ResidentRow& row : rows) row.keep(budget / static_cast<int64_t>(rows.size()), 32 * int64_t{numWarps});
    for (ResidentRow& row : rows)
      for (tile::LoadTileOp load : row.dead) load.erase();
  }

 private:
  Option<int64_t> budget{*this, "shared-bytes", llvm::cl::desc("Shared memory for resident rows"), llvm::cl::init(0)};
  Option<int> numWarps{*this, "num-warps", llvm::cl::desc("Warps per CTA"), llvm::cl::init(4)};
};

}  // namespace

std::unique_ptr<Pass> createTileKeepResidentsPass(int64_t sharedBytes, int numWarps) {
  return std::make_unique<TileKeepResidentsPass>(sharedBytes, numWarps);
}

}  // namespace ligerdsl::compiler
