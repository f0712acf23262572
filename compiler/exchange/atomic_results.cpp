// An atomic is executed once per element, by the element's canonical owner. If a layout replicates
// elements, the other holders in all CTAs get the old value through shared memory. A scalar is one
// element that every thread holds. Threads receive the old value at its first use, so that they do
// not wait for it earlier.
#include "compiler/exchange/atomic_results.h"

#include "compiler/dialect/atomic.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/exchange/cluster_exchange.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace ligerdsl::compiler {

// Returns the first op in the block of `of` that uses its result, or contains an op that does.
static Operation* firstUse(Operation* of) {
  Operation* first = nullptr;
  for (Operation* user : of->getUsers()) {
    Operation* here = of->getBlock()->findAncestorOpInBlock(*user);
    if (!first || here->isBeforeInBlock(first)) first = here;
  }
  return first;
}

// Returns the only element of a tile as a scalar.
static Value onlyElement(OpBuilder& builder, Location loc, Value tile) {
  Type element = cast<RankedTensorType>(tile.getType()).getElementType();
  auto reduce = tile::ReduceOp::create(builder, loc, TypeRange{element},
                                       tile::ReductionKind::custom, tile, 0);
  OpBuilder::InsertionGuard guard(builder);
  Block* block = builder.createBlock(&reduce.getCombiner());
  Value first = block->addArgument(element, loc);
  block->addArgument(element, loc);
  tile::YieldOp::create(builder, loc, first);
  return reduce.getResult(0);
}

void tileScalarAtomics(func::FuncOp func) {
  func.walk([&](Operation* op) {
    if (!isAtomic(op) || isa<RankedTensorType>(op->getResult(0).getType()) || op->use_empty())
      return;
    OpBuilder builder(op);
    auto splat = [&](Value scalar) -> Value {
      return tile::SplatOp::create(builder, op->getLoc(),
                                   RankedTensorType::get({1}, scalar.getType()), scalar);
    };
    AtomicOperands operands = atomicOperands(op);
    operands.ptr = splat(operands.ptr);
    for (Value& value : operands.values) value = splat(value);
    if (operands.mask) operands.mask = splat(operands.mask);
    Operation* atomic = cloneAtomic(builder, op, operands);
    builder.setInsertionPoint(firstUse(op));
    op->getResult(0).replaceAllUsesWith(onlyElement(builder, op->getLoc(), atomic->getResult(0)));
    op->erase();
  });
}

// Returns true if the layout has several CTAs, and each of them holds every element.
static bool isForAllCtas(RankedTensorType type) {
  LinearLayout layout = layoutOf(type);
  return layout.ctas() > 1 && layout.redundant().cta == static_cast<uint64_t>(layout.ctas() - 1);
}

static bool containsLoop(Operation* op) {
  return op->walk([](LoopLikeOpInterface) { return WalkResult::interrupt(); }).wasInterrupted();
}

// Returns the op before which the result is sent: the last op between `op` and `use` that contains
// a loop, so that the result arrives during the loop. Returns `use` if there is no such op.
static Operation* sendingPlace(Operation* op, Operation* use) {
  for (Operation* before = use->getPrevNode(); before && before != op;
       before = before->getPrevNode())
    if (containsLoop(before)) return before;
  return use;
}

static void sendResult(Operation* op) {
  Operation* use = firstUse(op);
  Value old = op->getResult(0);
  OpBuilder early(sendingPlace(op, use)), late(use);
  ClusterExchange exchange(early, op->getLoc(), old, /*fromFirst=*/true);
  old.replaceAllUsesExcept(exchange.receive(late, old.getType())[0], exchange.op());
}

void shareAtomicResults(func::FuncOp func) {
  func.walk([&](Operation* op) {
    if (!isAtomic(op)) return;
    Value old = op->getResult(0);
    auto type = dyn_cast<RankedTensorType>(old.getType());
    if (!type || old.use_empty() || !layoutOf(type).isReplicated()) return;
    if (isForAllCtas(type) && fitsExchange(type, layoutOf(type).ctas())) return sendResult(op);
    OpBuilder builder(firstUse(op));
    const bool remote = layoutOf(type).redundant().cta != 0;
    std::optional<RankedTensorType> part = remote ? std::nullopt : partOfCta(type);
    auto memory = tgpu::MemDescType::get(op->getContext(), (part ? *part : type).getShape(),
                                         type.getElementType(), 0);
    Value buffer = tgpu::LocalAllocOp::create(builder, op->getLoc(), memory, IntegerAttr());
    Operation* store =
        remote
            ? tgpu::RemoteStoreOp::create(builder, op->getLoc(), old, buffer, /*owners_only=*/true)
                  .getOperation()
            : tgpu::LocalStoreOp::create(builder, op->getLoc(), old, buffer).getOperation();
    Value shared = tgpu::LocalLoadOp::create(builder, op->getLoc(), type, buffer);
    old.replaceAllUsesExcept(shared, store);
  });
}

}  // namespace ligerdsl::compiler
