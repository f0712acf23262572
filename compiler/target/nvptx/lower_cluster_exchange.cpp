// Exchanges between the CTAs of a cluster: st.async into a stage of every CTA, which adds its bytes to the memory
// barrier of that stage there. PTX ISA: st.async, mapa, mbarrier; sm_90 and later.
//
// The thread counts the turns of each tgpu.cluster_send: stage and parity follow. What a wait acquires is restricted to
// shared memory: to acquire all memory would empty the first-level cache.
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/target/nvptx/buffer_access.h"
#include "compiler/target/nvptx/mbarrier.h"
#include "compiler/target/nvptx/shuffle.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

struct Turn {
  Value stage, parity;
};

// 0, 1, 2, 3, 0, ...: two stages, and every other time the other parity.
Turn countTurn(ThreadLowering& t) {
  Value counter = t.stackWord();
  Type i32 = t.b.getI32Type();
  Value count = LLVM::LoadOp::create(t.b, t.loc, i32, counter);
  Value next = arith::AddIOp::create(t.b, t.loc, count, t.constant(1));
  next = arith::AndIOp::create(t.b, t.loc, next, t.constant(3));
  LLVM::StoreOp::create(t.b, t.loc, next, counter);
  return {arith::AndIOp::create(t.b, t.loc, count, t.constant(1)),
          arith::ShRUIOp::create(t.b, t.loc, count, t.constant(1))};
}

// This address in another CTA of the cluster.
Value inCta(ThreadLowering& t, Value address, Value rank) {
  return inlinePtx(t, t.b.getI32Type(), {address, rank}, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r");
}

// Under a predicate (null: in every thread) instead of a branch: the loop's body stays one block, whose instructions
// ptxas may order.
void storeAsync(ThreadLowering& t, Value address, Value value, Value mbarrier, Value predicate) {
  const unsigned bits = value.getType().getIntOrFloatBitWidth();
  SmallVector<Value> operands{address, t.bitcast(value, t.b.getIntegerType(bits)), mbarrier};
  std::string text = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b" + std::to_string(bits);
  text += " [$0], $1, [$2];";
  std::string constraints = bits == 64 ? "r,l,r" : "r,r,r";
  if (predicate) {
    operands.push_back(predicate);
    text = "@$3 " + text;
    constraints += ",b";
  }
  inlinePtx(t, {}, operands, text, constraints + ",~{memory}");
}

// To which CTAs a thread sends the elements of a tile, if it sends any.
struct Route {
  Value sends;       // null: every thread
  uint64_t serving;  // lanes that hold copies of an element and serve different CTAs
  SmallVector<Value> ranks;
};

// As many of the lanes that hold an element serve different CTAs as there are; what is left of the CTAs, each serves.
Route routeOf(ThreadLowering& t, tgpu::ClusterSendOp op, RankedTensorType tile) {
  BitMasks redundant = t.layout(tile).map.redundant();
  if (op.getFromFirst()) redundant.cta = 0;  // every CTA sends its own copy
  const int64_t ctas = t.options.num_ctas;
  const int lowest = redundant.lane ? llvm::countr_zero(redundant.lane) : 0;
  const int bits = std::min<int>(llvm::Log2_64(ctas), llvm::countr_one(redundant.lane >> lowest));
  const int64_t served = int64_t{1} << bits;

  Route route{.serving = static_cast<uint64_t>(served - 1) << lowest};
  const int64_t others = (redundant.lane & ~route.serving) | redundant.warp << 5 | redundant.cta * 32 * t.numWarps();
  if (others) route.sends = t.threadMaskIsZero(others);
  Value first = bits ? t.threadField(lowest, bits) : t.constant(0);
  for (int64_t rank = 0; rank < ctas; rank += served)
    route.ranks.push_back(rank ? Value(arith::AddIOp::create(t.b, t.loc, first, t.constant(rank))) : first);
  return route;
}

LogicalResult lowerClusterSend(ThreadLowering& t, tgpu::ClusterSendOp op) {
  const Turn turn = countTurn(t);
  t.define(op.getTurn(), {turn.stage});
  t.define(op.getParity(), {turn.parity});
  const int64_t senders = op.getFromFirst() ? t.options.num_ctas : 1;
  int64_t bytes = 0;
  for (Value buffer : op.getStages()) bytes += bufferBytes(cast<tgpu::MemDescType>(buffer.getType())) / 2;
  Value mbarrier = mbarrierAddress(t, t.scalar(op.getBarriers()), turn.stage);
  Value first = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, t.threadInCta(), t.constant(0));
  arriveExpecting(t, mbarrier, t.constant(bytes), first);

  Value place = arith::MulIOp::create(t.b, t.loc, turn.stage, t.constant(senders));
  if (senders > 1) place = arith::AddIOp::create(t.b, t.loc, place, t.ctaRank());
  for (auto [value, buffer] : llvm::zip_equal(op.getValues(), op.getStages())) {
    auto tile = cast<RankedTensorType>(value.getType());
    auto all = cast<tgpu::MemDescType>(buffer.getType());
    auto one = tgpu::MemDescType::get(op.getContext(), all.getShape().drop_front(), all.getElementType(), 0);
    BufferAccess access(t, one, bufferPart(t, t.scalar(buffer), place, bufferBytes(one)), tile);
    const Route route = routeOf(t, op, tile);
    SmallVector<Value> signals;
    for (Value rank : route.ranks) signals.push_back(inCta(t, mbarrier, rank));
    const uint64_t copies = t.layout(tile).map.redundant().reg;
    for (auto [reg, element] : llvm::enumerate(t.elements(value))) {
      if (reg & copies) continue;
      // Behind an atomic only the first of the lanes has the element.
      Value sent = op.getFromFirst() && route.serving ? fromFirstOf(t, element, route.serving) : element;
      Value address = sharedAddress(t, access.pointer(reg));
      for (auto [rank, signal] : llvm::zip_equal(route.ranks, signals))
        storeAsync(t, inCta(t, address, rank), sent, signal, route.sends);
    }
  }
  return success();
}

LogicalResult lowerClusterReceive(ThreadLowering& t, tgpu::ClusterReceiveOp op) {
  Value mbarrier = mbarrierAddress(t, t.scalar(op.getBarriers()), t.scalar(op.getTurn()));
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
