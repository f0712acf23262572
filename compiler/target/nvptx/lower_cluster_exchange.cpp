// Exchanges between the CTAs of a cluster. st.async stores to a stage in every CTA and reports its
// bytes to that stage's mbarrier. PTX ISA: st.async, mapa, mbarrier; sm_90 and later.
//
// Each thread counts the executions of each tgpu.cluster_send. The count gives the stage and the
// parity. A wait acquires shared memory only, because an acquire of all memory would invalidate L1.
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/mbarrier.h"
#include "compiler/target/nvptx/shuffle.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

struct Phase {
  Value stage, parity;
};

// Returns the stage and parity of this execution of a send. The thread's counter runs 0, 1, 2, 3,
// 0, ...: bit 0 is the stage, bit 1 the parity.
Phase nextPhase(ThreadLowering& t) {
  Value counter = t.stackWord();
  Type i32 = t.b.getI32Type();
  Value count = LLVM::LoadOp::create(t.b, t.loc, i32, counter);
  Value next = arith::AddIOp::create(t.b, t.loc, count, t.constant(1));
  next = arith::AndIOp::create(t.b, t.loc, next, t.constant(3));
  LLVM::StoreOp::create(t.b, t.loc, next, counter);
  return {arith::AndIOp::create(t.b, t.loc, count, t.constant(1)),
          arith::ShRUIOp::create(t.b, t.loc, count, t.constant(1))};
}

// Returns the address in CTA `rank` of the cluster that corresponds to `address` in this CTA.
Value inCta(ThreadLowering& t, Value address, Value rank) {
  return inlinePtx(t, t.b.getI32Type(), {address, rank}, "mapa.shared::cluster.u32 $0, $1, $2;",
                   "=r,r,r");
}

// Emits st.async with a predicate instead of a branch; a null predicate is true. A loop's body then
// stays one block, which ptxas can schedule.
void storeAsync(ThreadLowering& t, Value address, Value value, Value mbarrier, Value predicate) {
  const unsigned bits = value.getType().getIntOrFloatBitWidth();
  SmallVector<Value> operands{address, t.bitcast(value, t.b.getIntegerType(bits)), mbarrier};
  std::string text =
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b" + std::to_string(bits);
  text += " [$0], $1, [$2];";
  std::string constraints = bits == 64 ? "r,l,r" : "r,r,r";
  if (predicate) {
    operands.push_back(predicate);
    text = "@$3 " + text;
    constraints += ",b";
  }
  inlinePtx(t, {}, operands, text, constraints + ",~{memory}");
}

// The CTAs to which a thread sends its elements of a tile.
struct Route {
  Value sends;  // predicate of threads that send; null if all do
  // Bits of the lane number that select the CTA among lanes with the same elements.
  uint64_t serving;
  SmallVector<Value> ranks;
};

// Assigns lanes that hold copies of an element to different CTAs, until each CTA has a lane. With
// fewer lanes than CTAs, each lane serves several CTAs.
Route routeOf(ThreadLowering& t, tgpu::ClusterSendOp op, RankedTensorType tile) {
  BitMasks redundant = t.layout(tile).map.redundant();
  if (op.getFromFirst()) redundant.cta = 0;  // every CTA sends its own copy
  const int64_t ctas = t.options.num_ctas;
  const int lowest = redundant.lane ? llvm::countr_zero(redundant.lane) : 0;
  const int bits = std::min<int>(llvm::Log2_64(ctas), llvm::countr_one(redundant.lane >> lowest));
  const int64_t served = int64_t{1} << bits;

  Route route{.serving = static_cast<uint64_t>(served - 1) << lowest};
  const int64_t others =
      (redundant.lane & ~route.serving) | redundant.warp << 5 | redundant.cta * 32 * t.numWarps();
  if (others) route.sends = t.threadMaskIsZero(others);
  Value first = bits ? t.threadField(lowest, bits) : t.constant(0);
  for (int64_t rank = 0; rank < ctas; rank += served)
    route.ranks.push_back(rank ? Value(arith::AddIOp::create(t.b, t.loc, first, t.constant(rank)))
                               : first);
  return route;
}

LogicalResult lowerClusterSend(ThreadLowering& t, tgpu::ClusterSendOp op) {
  const Phase phase = nextPhase(t);
  t.define(op.getStage(), {phase.stage});
  t.define(op.getParity(), {phase.parity});
  const int64_t senders = op.getFromFirst() ? t.options.num_ctas : 1;
  int64_t bytes = 0;
  for (Value buffer : op.getStages())
    bytes += bufferBytes(cast<tgpu::MemDescType>(buffer.getType())) / 2;
  Value mbarrier = mbarrierAddress(t, t.scalar(op.getBarriers()), phase.stage);
  Value first =
      arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, t.threadInCta(), t.constant(0));
  arriveExpecting(t, mbarrier, t.constant(bytes), first);

  Value place = arith::MulIOp::create(t.b, t.loc, phase.stage, t.constant(senders));
  if (senders > 1) place = arith::AddIOp::create(t.b, t.loc, place, t.ctaRank());
  for (auto [value, buffer] : llvm::zip_equal(op.getValues(), op.getStages())) {
    auto tile = cast<RankedTensorType>(value.getType());
    auto all = cast<tgpu::MemDescType>(buffer.getType());
    auto one = tgpu::MemDescType::get(op.getContext(), all.getShape().drop_front(),
                                      all.getElementType(), 0);
    BufferAccess access(t, one, bufferPart(t, t.scalar(buffer), place, bufferBytes(one)), tile);
    const Route route = routeOf(t, op, tile);
    SmallVector<Value> signals;
    for (Value rank : route.ranks) signals.push_back(inCta(t, mbarrier, rank));
    const uint64_t copies = t.layout(tile).map.redundant().reg;
    for (auto [reg, element] : llvm::enumerate(t.elements(value))) {
      if (reg & copies) continue;
      // After an atomic, only the first of the lanes that differ in `serving` has the element.
      Value sent =
          op.getFromFirst() && route.serving ? fromFirstOf(t, element, route.serving) : element;
      Value address = sharedAddress(t, access.pointer(reg));
      for (auto [rank, signal] : llvm::zip_equal(route.ranks, signals))
        storeAsync(t, inCta(t, address, rank), sent, signal, route.sends);
    }
  }
  return success();
}

LogicalResult lowerClusterReceive(ThreadLowering& t, tgpu::ClusterReceiveOp op) {
  Value mbarrier = mbarrierAddress(t, t.scalar(op.getBarriers()), t.scalar(op.getStage()));
  waitForPhase(t, mbarrier, t.scalar(op.getParity()), ".relaxed.cluster");
  inlinePtx(t, {}, {}, "fence.acquire.sync_restrict::shared::cluster.cluster;", "~{memory}");
  return success();
}

}  // namespace

void addClusterExchangeLowerings(LoweringTable& table) {
  table.add<tgpu::ClusterSendOp, lowerClusterSend>();
  table.add<tgpu::ClusterReceiveOp, lowerClusterReceive>();
}

}  // namespace ligerdsl::compiler::nvptx
