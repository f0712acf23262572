#include "compiler/analysis/memory_access.h"

#include "compiler/analysis/effects.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/atomic.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Returns the view or pointer argument from which an address is computed, or null if unknown.
Value rootOf(Value address) {
  while (Operation* op = address.getDefiningOp()) {
    if (!isa<tile::SliceOp, tile::ViewPtrOp, tile::AddPtrOp, tile::SplatOp, tile::ExpandDimsOp,
             tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp, tgpu::ConvertLayoutOp>(op))
      return Value();
    address = op->getOperand(0);
  }
  bool isArgument = isa<func::FuncOp>(cast<BlockArgument>(address).getOwner()->getParentOp());
  return isArgument ? address : Value();
}

MemoryAccess globalAccess(Operation* op, Value address, bool reads, bool writes) {
  MemoryAccess access{.op = op, .reads = reads, .writes = writes, .atomic = reads && writes};
  access.root = rootOf(address);
  access.view = address;
  if (!access.root) return access;
  auto argument = cast<BlockArgument>(access.root);
  auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (auto number =
          func.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), tile::kAliasClassAttr))
    access.aliasClass = number.getInt();
  access.readOnly =
      static_cast<bool>(func.getArgAttr(argument.getArgNumber(), tile::kReadOnlyAttr));
  access.alone =
      static_cast<bool>(func.getArgAttr(argument.getArgNumber(), tile::kNextProgramAttr));
  return access;
}

// Returns `index` if a loop carries it and alternates it (0, 1, 0, ...), else null.
BlockArgument flippedIndex(Value index) {
  auto argument = dyn_cast<BlockArgument>(index);
  auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : scf::ForOp();
  if (!loop || argument == loop.getInductionVar()) return nullptr;
  auto flip = loop.getTiedLoopYieldedValue(argument)->get().getDefiningOp<arith::XOrIOp>();
  return flip && flip.getLhs() == argument && matchPattern(flip.getRhs(), m_One()) ? argument
                                                                                   : nullptr;
}

MemoryAccess sharedAccess(Operation* op, Value buffer, bool writes) {
  MemoryAccess access{.op = op, .reads = !writes, .writes = writes, .shared = true};
  if (auto stage = buffer.getDefiningOp<tgpu::LocalStageOp>()) {
    access.phase = flippedIndex(stage.getIndex());
    access.buffer = buffer = stage.getBuffer();
  }
  auto alloc = buffer.getDefiningOp<tgpu::LocalAllocOp>();
  access.begin = alloc.getOffset().value_or(0);
  access.end = access.begin + bufferBytes(alloc.getType());
  access.exchange = isOfExchange(alloc);
  access.async = isa<tgpu::TensorStoreOp>(op);
  return access;
}

// Returns true if every warp of every CTA sends. Once all of them have sent the next iteration's
// values, no warp still reads the values of this iteration.
bool everyWarpSends(tgpu::ClusterSendOp send) {
  return !send.getFromFirst() && llvm::any_of(send.getValues(), [](Value value) {
    BitMasks redundant = layoutOf(value).redundant();
    return redundant.warp == 0 && redundant.cta == 0;
  });
}

// Appends the accesses to the slots of a ring. A ring filled by bulk copies has none, because no
// buffer shares its memory. A ring filled by TMA copies may share memory: its reads conflict with
// later accesses to that memory, and its fills (tensorCopies) with earlier ones.
void addRingAccesses(Operation* op, Value address, bool writes, MemoryAccesses& accesses) {
  auto ring = address.getDefiningOp<tgpu::RingOp>();
  if (ring.getType().getFill() == tgpu::RingFill::bulk) return;
  auto read = dyn_cast<tgpu::RingReadOp>(op);
  for (unsigned part = 0; part < ring.getType().getParts().size(); ++part) {
    if (read && read.getPart() != part) continue;
    MemoryAccess access{.op = op, .reads = !writes, .writes = writes, .shared = true};
    access.begin = ring.getOffsets() ? ring.getOffsetsAttr()[part] : 0;
    access.end = access.begin + bufferBytes(ring.getType())[part];
    access.ring = address;
    access.async =
        isa<tgpu::WgmmaOp>(op) || (writes && ring.getType().getFill() == tgpu::RingFill::tensor);
    accesses.push_back(access);
  }
}

// Returns the type of the loaded or stored tile, or null for a scalar.
RankedTensorType movedTile(const MemoryAccess& access) {
  Operation* op = access.op;
  if (auto fill = dyn_cast<tgpu::RingFillOp>(op)) return fill.tileOf(access.part);
  Value value;
  if (auto store = dyn_cast<tile::StoreTileOp>(op))
    value = store.getValue();
  else if (auto store = dyn_cast<tile::StoreOp>(op))
    value = store.getValue();
  else if (auto store = dyn_cast<tgpu::LocalStoreOp>(op))
    value = store.getValue();
  else if (auto store = dyn_cast<tgpu::RemoteStoreOp>(op))
    value = store.getValue();
  else if (op->getNumResults() == 1)
    value = op->getResult(0);
  return value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
}

// Returns the tile shape of a partition access. Two accesses with the same alignment offset, shape
// and layout assign a partition's elements to threads in the same way.
ArrayRef<int64_t> partitionShape(const MemoryAccess& access) {
  Operation* op = access.op;
  if (auto load = dyn_cast<tile::LoadTileOp>(op)) return load.getTileShape();
  if (auto store = dyn_cast<tile::StoreTileOp>(op)) return store.getTileShape();
  if (auto fill = dyn_cast<tgpu::RingFillOp>(op)) return fill.shapeOf(access.part);
  return {};
}

Value alignmentOffsetOf(Operation* op) {
  if (auto load = dyn_cast<tile::LoadTileOp>(op)) return load.getAlignmentOffset();
  if (auto store = dyn_cast<tile::StoreTileOp>(op)) return store.getAlignmentOffset();
  return Value();
}

Value pointerTile(Operation* op) {
  if (auto load = dyn_cast<tile::LoadOp>(op)) return load.getPtr();
  if (auto store = dyn_cast<tile::StoreOp>(op)) return store.getPtr();
  if (isAtomic(op)) return atomicOperands(op).ptr;
  return Value();
}

// Returns true if all elements provably have the same value.
bool isUniform(Value value) {
  SplatElementsAttr constant;
  return !isa<RankedTensorType>(value.getType()) || value.getDefiningOp<tile::SplatOp>() ||
         matchPattern(value, m_Constant(&constant));
}

// Returns true if all elements of an integer or pointer tile provably differ, as in base + arange.
bool isInjective(Value value) {
  Operation* op = value.getDefiningOp();
  if (!op) return false;
  if (isa<tile::MakeRangeOp>(op)) return true;
  if (isa<arith::ExtSIOp, arith::ExtUIOp, tgpu::ConvertLayoutOp>(op))
    return isInjective(op->getOperand(0));
  if (!isa<arith::AddIOp, arith::SubIOp, tile::AddPtrOp>(op)) return false;
  Value a = op->getOperand(0), b = op->getOperand(1);
  return (isUniform(a) && isInjective(b)) || (isInjective(a) && isUniform(b));
}

// Returns true if the value is defined outside all loops. A pointer tile inside a loop may differ
// in the next iteration.
bool isLoopInvariant(Value value) {
  Operation* parent = value.getParentBlock()->getParentOp();
  return !isa<LoopLikeOpInterface>(parent) && !parent->getParentOfType<LoopLikeOpInterface>();
}

// Returns true if the same tile indices select the same elements in both accesses. Different slices
// may begin at different elements, and so may a slice in different iterations of a loop.
bool isOneGrid(const MemoryAccess& a, const MemoryAccess& b) {
  if (a.view.getDefiningOp() || b.view.getDefiningOp())
    return a.view == b.view && isLoopInvariant(a.view);
  return a.root == b.root || (a.aliasClass != 0 && a.aliasClass == b.aliasClass);
}

// Returns true if both accesses assign elements to threads in the same way. One owner stores a
// replicated element, but all holders load it. A load and a store therefore agree only if the
// layout is not replicated.
bool assignThreadsAlike(const MemoryAccess& a, const MemoryAccess& b) {
  if (a.ring || b.ring) return a.ring == b.ring;
  const RankedTensorType left = movedTile(a), right = movedTile(b);
  bool bothStore = !a.reads && !b.reads;
  if (!left || !right) return !left && !right && bothStore;  // thread 0 stores all scalars
  if (left.getShape() != right.getShape() || left.getEncoding() != right.getEncoding())
    return false;
  if (!bothStore && layoutOf(left).isReplicated()) return false;
  if (a.shared)
    return bothStore && a.remote == b.remote && !a.phase && !b.phase && a.begin == b.begin &&
           left == right;
  if (Value pointers = pointerTile(a.op))
    return pointers == pointerTile(b.op) && isInjective(pointers) && isLoopInvariant(pointers);
  ArrayRef<int64_t> shape = partitionShape(a);
  return !shape.empty() && shape == partitionShape(b) &&
         alignmentOffsetOf(a.op) == alignmentOffsetOf(b.op) && isOneGrid(a, b);
}

}  // namespace

FailureOr<MemoryAccesses> memoryAccesses(Operation* op) {
  FailureOr<OperandEffects> effects = effectsOf(op);
  if (failed(effects)) return failure();
  MemoryAccesses accesses;
  for (const OperandEffect& effect : *effects) {
    // The cluster synchronises between this initialisation and the first use of an exchange's
    // mbarriers.
    if (isa<tgpu::InitMbarriersOp>(op) && isOfExchange(effect.address)) continue;
    if (isa<tgpu::RingType>(effect.address.getType())) {
      addRingAccesses(op, effect.address, effect.writes, accesses);
      continue;
    }
    accesses.push_back(effect.isShared()
                           ? sharedAccess(op, effect.address, effect.writes)
                           : globalAccess(op, effect.address, effect.reads, effect.writes));
    accesses.back().remote = isa<tgpu::RemoteStoreOp>(op);
  }
  for (auto [part, access] : llvm::enumerate(accesses)) access.part = part;
  return accesses;
}

MemoryAccess memoryAccess(tile::LoadTileOp load) {
  return globalAccess(load, load.getView(), true, false);
}

MemoryAccesses tensorCopies(tgpu::RingFillOp fill) {
  MemoryAccesses accesses;
  if (fill.getRing().getType().getFill() == tgpu::RingFill::tensor)
    addRingAccesses(fill, fill.getRing(), /*writes=*/true, accesses);
  return accesses;
}

bool mayWriteTo(Operation* op, const MemoryAccess& place) {
  FailureOr<MemoryAccesses> accesses = memoryAccesses(op);
  return failed(accesses) || llvm::any_of(*accesses, [&](const MemoryAccess& access) {
           return access.writes && mayOverlap(access, place);
         });
}

bool isOfExchange(Value buffer) {
  return llvm::any_of(buffer.getUsers(), llvm::IsaPred<tgpu::ClusterSendOp>);
}

bool mayOverlap(const MemoryAccess& a, const MemoryAccess& b) {
  if (a.shared != b.shared) return false;
  if (a.shared) {
    bool alternate = a.phase && a.phase == b.phase && a.buffer == b.buffer &&
                     std::abs(a.iterations - b.iterations) == 1;
    return !alternate && a.begin < b.end && b.begin < a.end;
  }
  if (a.readOnly || b.readOnly) return false;  // nothing writes read-only memory
  if (!a.root || !b.root || a.root == b.root) return true;
  if (a.alone || b.alone) return false;
  return a.aliasClass == 0 || b.aliasClass == 0 || a.aliasClass == b.aliasClass;
}

bool needsProxyFence(const MemoryAccess& earlier, const MemoryAccess& later) {
  if (!later.shared || !later.async || !earlier.shared || earlier.async ||
      !mayOverlap(earlier, later))
    return false;
  return later.writes || (earlier.writes && isa<tgpu::TensorStoreOp>(later.op));
}

bool needsBarrier(const MemoryAccess& earlier, const MemoryAccess& later) {
  if (!earlier.writes && !later.writes) return false;
  if (earlier.atomic && later.atomic) return false;
  if (earlier.exchange && later.exchange) {
    // A send overwrites a stage only after the values of the other stage were received.
    auto send = dyn_cast<tgpu::ClusterSendOp>(later.op);
    return earlier.reads && send && mayOverlap(earlier, later) && !everyWarpSends(send);
  }
  return mayOverlap(earlier, later) && !assignThreadsAlike(earlier, later);
}

}  // namespace ligerdsl::compiler
