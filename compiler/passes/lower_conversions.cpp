// tgpu-lower-conversions
//
// A tgpu.convert_layout remains if values stay in their threads, which only renames registers, or
// if pairs of lanes exchange words (passesMemory). Every other conversion stores the tile to a
// buffer in shared memory and loads it from there. If values leave their CTA, every CTA of the
// cluster gets the whole tile. A small tile is sent by a cluster exchange (cluster_exchange.h),
// others by tgpu.remote_store. Otherwise each CTA's buffer holds only the part of that CTA.
// Adjacent conversions are lowered together, all stores before all loads, so that they share one
// barrier (from tgpu-insert-barriers) and one cluster exchange.
//
// If a loop's body has only one exchange, of at most kMostAlternatingBytes, it alternates between
// two stages: the loop carries their index 0, 1, 0, ... The next iteration does not overwrite
// values that this one still reads, so one barrier per iteration is enough.
//
// Buffers are row-major. If two layouts traverse the tile along different dimensions (a transpose),
// rows are padded by one vector or swizzled (exchangeBuffer), so that lanes that access a column
// use different banks.
#include "compiler/analysis/exchange_bytes.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/exchange/cluster_exchange.h"
#include "compiler/layout/conversion.h"
#include "compiler/passes/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPULOWERCONVERSIONSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

using Run = SmallVector<tgpu::ConvertLayoutOp>;

bool leavesCta(tgpu::ConvertLayoutOp op) {
  return travel(layoutOf(op.getSource()), layoutOf(op.getResult())) == Travel::cluster;
}

// Returns true if a cluster exchange does the conversion. Every CTA must send elements: receivers
// do not wait for a CTA that sends none, and could run ahead of it.
bool isExchanged(tgpu::ConvertLayoutOp op) {
  const bool allSend = layoutOf(op.getSource()).redundant().cta == 0;
  return allSend && leavesCta(op) && fitsExchange(cast<RankedTensorType>(op.getSource().getType()));
}

tgpu::MemDescType bufferType(tgpu::ConvertLayoutOp op) {
  return exchangeBuffer(cast<RankedTensorType>(op.getSource().getType()),
                        cast<RankedTensorType>(op.getResult().getType()));
}

// Allocates a buffer for one conversion. With a phase, allocates two stages before the loop and
// returns this iteration's stage.
Value allocate(OpBuilder& builder, tgpu::ConvertLayoutOp op, BlockArgument phase) {
  tgpu::MemDescType type = bufferType(op);
  if (!phase) return tgpu::LocalAllocOp::create(builder, op.getLoc(), type, IntegerAttr());
  SmallVector<int64_t> shape{2};
  llvm::append_range(shape, type.getShape());
  OpBuilder before(phase.getOwner()->getParentOp());
  auto both =
      tgpu::MemDescType::get(op.getContext(), shape, type.getElementType(), type.getRowPad());
  Value buffer = tgpu::LocalAllocOp::create(before, op.getLoc(), both, IntegerAttr());
  return tgpu::LocalStageOp::create(builder, op.getLoc(), type, buffer, phase);
}

void replace(tgpu::ConvertLayoutOp op, Value loaded) {
  op.getResult().replaceAllUsesWith(loaded);
  op.erase();
}

void lowerTogether(ArrayRef<tgpu::ConvertLayoutOp> conversions, BlockArgument phase) {
  OpBuilder builder(conversions.back());
  builder.setInsertionPointAfter(conversions.back());  // it is erased, possibly before the others
  Run sent, stored;
  for (tgpu::ConvertLayoutOp op : conversions) (isExchanged(op) ? sent : stored).push_back(op);
  std::optional<ClusterExchange> exchange;
  if (!sent.empty()) {
    auto sources = llvm::map_to_vector(sent, [](auto op) -> Value { return op.getSource(); });
    exchange.emplace(builder, sent[0].getLoc(), sources, /*fromFirst=*/false);
  }
  SmallVector<Value> buffers;
  for (tgpu::ConvertLayoutOp op : stored) {
    buffers.push_back(allocate(builder, op, phase));
    if (leavesCta(op))
      tgpu::RemoteStoreOp::create(builder, op.getLoc(), op.getSource(), buffers.back(),
                                  /*owners_only=*/false);
    else
      tgpu::LocalStoreOp::create(builder, op.getLoc(), op.getSource(), buffers.back());
  }
  for (auto [op, buffer] : llvm::zip_equal(stored, buffers))
    replace(op, tgpu::LocalLoadOp::create(builder, op.getLoc(), op.getResult().getType(), buffer));
  if (!exchange) return;
  auto types = llvm::map_to_vector(sent, [](auto op) -> Type { return op.getResult().getType(); });
  for (auto [op, tile] : llvm::zip_equal(sent, exchange->receive(builder, types)))
    replace(op, tile);
}

class TgpuLowerConversionsPass
    : public impl::TgpuLowerConversionsPassBase<TgpuLowerConversionsPass> {
 public:
  using TgpuLowerConversionsPassBase::TgpuLowerConversionsPassBase;

  void runOnOperation() override {
    getOperation().walk([&](tgpu::ConvertLayoutOp op) {
      if (op.getSource().getType() != op.getResult().getType()) return;
      op.getResult().replaceAllUsesWith(op.getSource());
      op.erase();
    });
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    llvm::DenseMap<Block*, BlockArgument> phases;
    for (scf::ForOp loop : loops)
      if (alternates(runsOf(*loop.getBody()))) {
        BlockArgument phase = addPhase(loop);
        phases[phase.getOwner()] = phase;
      }
    SmallVector<Block*> blocks;
    getOperation().walk([&](Block* block) { blocks.push_back(block); });
    for (Block* block : blocks)
      for (const Run& run : runsOf(*block)) lowerTogether(run, phases.lookup(block));
  }

 private:
  // Returns groups of adjacent conversions that use shared memory. No conversion of a group needs
  // the result of another one in the group.
  SmallVector<Run> runsOf(Block& block) {
    SmallVector<Run> runs;
    bool open = false;
    for (Operation& op : block) {
      auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(op);
      if (!conversion) {
        open = false;
      } else if (passesMemory(conversion)) {
        open = open && llvm::none_of(runs.back(), [&](auto other) {
                 return conversion.getSource() == other.getResult();
               });
        if (!open) runs.emplace_back();
        runs.back().push_back(conversion);
        open = true;
      }
    }
    return runs;
  }

  // Returns true if the exchange of a loop's body alternates between two stages. Several exchanges
  // in one body need no stages, because the barrier of each one separates the uses of the others.
  bool alternates(ArrayRef<Run> runs) {
    if (runs.size() != 1) return false;
    int64_t bytes = 0;
    for (tgpu::ConvertLayoutOp op : runs[0])
      if (!isExchanged(op)) bytes += bufferBytes(bufferType(op));
    return 0 < bytes && bytes <= kMostAlternatingBytes;
  }

  // Adds a carried value 0, 1, 0, ... to the loop.
  BlockArgument addPhase(scf::ForOp loop) {
    IRRewriter rewriter(loop);
    auto number = [&](int64_t value) {
      return arith::ConstantOp::create(rewriter, loop.getLoc(), rewriter.getI32IntegerAttr(value))
          .getResult();
    };
    Value zero = number(0), one = number(1);
    SmallVector<NamedAttribute> attributes(loop->getDiscardableAttrs());
    BlockArgument phase;
    auto flip = [&](OpBuilder& builder, Location loc, ArrayRef<BlockArgument> arguments) {
      phase = arguments[0];
      return SmallVector<Value>{arith::XOrIOp::create(builder, loc, phase, one)};
    };
    auto replaced = loop.replaceWithAdditionalYields(rewriter, zero,
                                                     /*replaceInitOperandUsesInLoop=*/false, flip);
    (*replaced)->setDiscardableAttrs(attributes);
    return phase;
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
