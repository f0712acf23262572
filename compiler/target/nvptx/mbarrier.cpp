#include "compiler/target/nvptx/mbarrier.h"

#include "compiler/target/nvptx/buffer_access.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

constexpr int64_t kMbarrierBytes = 8;

LogicalResult lowerInitMbarriers(ThreadLowering& t, tgpu::InitMbarriersOp op) {
  if (!t.hasBulkCopies()) return op.emitOpError("needs sm_90 or later, got ") << t.options.arch;
  initMbarriers(t, t.scalar(op.getBarriers()), op.getBarriers().getType().getShape()[0]);
  return success();
}

}  // namespace

void fenceAsyncProxy(ThreadLowering& t) {
  inlinePtx(t, {}, {}, "fence.proxy.async.shared::cta;", "~{memory}");
}

void initMbarriers(ThreadLowering& t, Value barriers, int64_t count, int64_t first,
                   int64_t arrivals) {
  inThreadsBelow(t, t.constant(count), [&] {
    Value number = t.threadInCta();
    if (first) number = arith::AddIOp::create(t.b, t.loc, number, t.constant(first));
    Value mbarrier = mbarrierAddress(t, barriers, number);
    inlinePtx(t, {}, mbarrier,
              "mbarrier.init.shared::cta.b64 [$0], " + std::to_string(arrivals) + ";",
              "r,~{memory}");
    // Copies signal the mbarrier through the async proxy, and other CTAs may signal it too.
    fenceAsyncProxy(t);
    if (t.options.num_ctas > 1)
      inlinePtx(t, {}, {}, "fence.mbarrier_init.release.cluster;", "~{memory}");
  });
}

void arriveInOthers(ThreadLowering& t, Value mbarrier) {
  for (int64_t step = 1; step < t.options.num_ctas; ++step) {
    Value rank = arith::XOrIOp::create(t.b, t.loc, t.ctaRank(), t.constant(step));
    Value there = inlinePtx(t, t.b.getI32Type(), {mbarrier, rank},
                            "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r");
    inlinePtx(t, {}, there, "mbarrier.arrive.shared::cluster.b64 _, [$0];", "r,~{memory}");
  }
}

void syncCluster(ThreadLowering& t) {
  inlinePtx(t, {}, {},
            "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;",
            "~{memory}");
}

Value stageAddress(ThreadLowering& t, Value base, Value stage, int64_t bytes) {
  Value offset = arith::MulIOp::create(t.b, t.loc, stage, t.constant(bytes));
  return arith::AddIOp::create(t.b, t.loc, sharedAddress(t, base), offset);
}

Value mbarrierAddress(ThreadLowering& t, Value barriers, Value stage) {
  return stageAddress(t, barriers, stage, kMbarrierBytes);
}

void arriveExpecting(ThreadLowering& t, Value mbarrier, Value bytes, Value predicate) {
  const std::string text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;";
  if (predicate)
    inlinePtx(t, {}, {mbarrier, bytes, predicate}, "@$2 " + text, "r,r,b,~{memory}");
  else
    inlinePtx(t, {}, {mbarrier, bytes}, text, "r,r,~{memory}");
}

void waitForPhase(ThreadLowering& t, Value mbarrier, Value parity, StringRef order) {
  auto loop = scf::WhileOp::create(t.b, t.loc, TypeRange(), ValueRange());
  OpBuilder::InsertionGuard guard(t.b);
  t.b.createBlock(&loop.getBefore());
  std::string text = "mbarrier.try_wait.parity" + order.str() + ".shared::cta.b64 $0, [$1], $2;";
  Value arrived = inlinePtx(t, t.b.getI1Type(), {mbarrier, parity}, text, "=b,r,r,~{memory}");
  Value waiting = arith::XOrIOp::create(t.b, t.loc, arrived, t.constant(1, 1));
  scf::ConditionOp::create(t.b, t.loc, waiting, ValueRange());
  t.b.createBlock(&loop.getAfter());
  scf::YieldOp::create(t.b, t.loc, ValueRange());
}

void inThreadsBelow(ThreadLowering& t, Value count, llvm::function_ref<void()> emit) {
  under(t, arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, t.threadInCta(), count),
        emit);
}

void addMbarrierLowerings(LoweringTable& table) {
  table.add<tgpu::InitMbarriersOp, lowerInitMbarriers>();
}

}  // namespace ligerdsl::compiler::nvptx
