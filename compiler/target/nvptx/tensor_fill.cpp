// TMA copies to swizzled slots (PTX ISA: cp.async.bulk.tensor, tiled mode; sm_90 and later). One
// thread starts them and announces their bytes at the slot's mbarrier. A copy loads all rows of one
// panel, whose rows are as wide as the swizzle. Elements outside the view become zeros, whose bytes
// the mbarrier counts too.
#include "compiler/target/nvptx/tensor_fill.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/target/nvptx/mbarrier.h"
#include "compiler/target/nvptx/tensor_coordinates.h"
#include "compiler/target/nvptx/tensor_maps.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

void copyPart(ThreadLowering& t, tgpu::RingFillOp op, unsigned part, ValueRange indices,
              Value target, Value barrier) {
  const tgpu::MemDescType slot = op.getRing().getType().part(part);
  const int64_t rows = slot.getShape()[0], columns = slot.getShape()[1];
  const program::TensorMap map = tensorMapOf(op, part);
  const CtaCopy own = ctaCopyOf(op, part);
  const SmallVector<Value> places = placesOfCta(
      t, own, tensorCoordinates(t, op.getViews()[part], indices, op.shapeOf(part)), columns);
  const size_t rank = places.size();
  if (own.toAll) target = afterCtas(t, target, own.rows * map.swizzle);
  std::string text = "cp.async.bulk.tensor." + std::to_string(rank) +
                     "d.shared::cluster.global.mbarrier::complete_tx::bytes" +
                     (own.toAll ? ".multicast::cluster" : "") + " [$0], [$1, {",
              constraints = "r,l,";
  for (size_t i = 0; i < rank; ++i)
    text += (i ? ", $" : "$") + std::to_string(i + 2), constraints += "r,";
  text += "}], [$" + std::to_string(rank + 2) + "]";
  if (own.toAll) text += ", $" + std::to_string(rank + 3);
  text += ";";
  for (int64_t panel = 0; panel * map.box.back() < columns; ++panel) {
    SmallVector<Value> operands{
        arith::AddIOp::create(t.b, t.loc, target, t.constant(panel * rows * map.swizzle)),
        t.tensorMap(map)};
    operands.push_back(
        arith::AddIOp::create(t.b, t.loc, places[0], t.constant(panel * map.box.back())));
    llvm::append_range(operands, ArrayRef(places).drop_front());
    operands.push_back(barrier);
    if (own.toAll) operands.push_back(t.constant((int64_t{1} << t.options.num_ctas) - 1, 16));
    inlinePtx(t, {}, operands, text, constraints + (own.toAll ? "r,h,~{memory}" : "r,~{memory}"));
  }
}

}  // namespace

LogicalResult fillByTensorCopies(ThreadLowering& t, tgpu::RingFillOp op) {
  const tgpu::RingType ring = op.getRing().getType();
  const Pieces places = t.pieces(op.getRing());  // addresses of the parts, then of the mbarriers
  LogicalResult done = success();
  inThreadsBelow(t, t.scalar(op.getCount()), [&] {
    Block& body = op.getPosition().front();
    t.define(body.getArgument(0), {t.scalar(op.getFirst())});
    if (failed(done = t.lowerBlock(body))) return;
    t.loc = op.getLoc();
    const SmallVector<Value> indices = llvm::map_to_vector(
        body.getTerminator()->getOperands(), [&](Value value) { return t.scalar(value); });
    Value slot = t.scalar(op.getSlot()), barrier = mbarrierAddress(t, places.back(), slot);
    int64_t bytes = 0;
    for (unsigned part = 0; part < op.getViews().size(); ++part)
      bytes += bufferBytes(ring.part(part));
    arriveExpecting(t, barrier, t.constant(bytes));
    for (unsigned part = 0; part < op.getViews().size(); ++part)
      copyPart(t, op, part, ValueRange(indices).slice(op.firstDim(part), op.shapeOf(part).size()),
               stageAddress(t, places[part], slot, bufferBytes(ring.part(part))), barrier);
  });
  return done;
}

}  // namespace ligerdsl::compiler::nvptx
