// TMA copies from swizzled shared memory to a view (PTX ISA: cp.async.bulk.tensor,
// cp.reduce.async.bulk.tensor, bulk async-groups; sm_90 and later). One thread of each CTA starts
// them. A copy moves all rows of one panel, whose rows are as wide as the swizzle. Elements outside
// the view are dropped.
#include "compiler/analysis/shared_buffer.h"
#include "compiler/target/nvptx/mbarrier.h"
#include "compiler/target/nvptx/memory_access.h"
#include "compiler/target/nvptx/tensor_coordinates.h"
#include "compiler/target/nvptx/tensor_maps.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

LogicalResult lowerTensorStore(ThreadLowering& t, tgpu::TensorStoreOp op) {
  const tgpu::MemDescType buffer = op.getBuffer().getType();
  const int64_t rows = buffer.getShape()[0], columns = buffer.getShape()[1];
  const program::TensorMap map = tensorMapOf(op);
  const SmallVector<Value> indices =
      llvm::map_to_vector(op.getIndices(), [&](Value value) { return t.scalar(value); });
  inThreadsBelow(t, t.constant(1), [&] {
    const SmallVector<Value> places = placesOfCta(
        t, ctaCopyOf(op), tensorCoordinates(t, op.getView(), indices, op.getTileShape()), columns);
    Value source = sharedAddress(t, t.scalar(op.getBuffer())),
          policy = cachePolicy(t, op.getView(), op.getEvict());
    const size_t rank = places.size();
    std::string text = std::string("cp.") + (op.getAdds() ? "reduce." : "") + "async.bulk.tensor." +
                       std::to_string(rank) + "d.global.shared::cta" +
                       (op.getAdds() ? ".add" : "") + ".tile.bulk_group" +
                       (policy ? ".L2::cache_hint" : "") + " [$0, {",
                constraints = "l,";
    for (size_t i = 0; i < rank; ++i)
      text += (i ? ", $" : "$") + std::to_string(i + 1), constraints += "r,";
    text += "}], [$" + std::to_string(rank + 1) + "]" +
            (policy ? ", $" + std::to_string(rank + 2) : "") + ";";
    constraints += policy ? "r,l,~{memory}" : "r,~{memory}";
    for (int64_t panel = 0; panel * map.box.back() < columns; ++panel) {
      SmallVector<Value> operands{t.tensorMap(map)};
      operands.push_back(
          arith::AddIOp::create(t.b, t.loc, places[0], t.constant(panel * map.box.back())));
      llvm::append_range(operands, ArrayRef(places).drop_front());
      operands.push_back(
          arith::AddIOp::create(t.b, t.loc, source, t.constant(panel * rows * map.swizzle)));
      if (policy) operands.push_back(policy);
      inlinePtx(t, {}, operands, text, constraints);
    }
    inlinePtx(t, {}, {}, "cp.async.bulk.commit_group;", "~{memory}");
  });
  return success();
}

LogicalResult lowerTensorWait(ThreadLowering& t, tgpu::TensorWaitOp op) {
  inlinePtx(t, {}, {},
            op.getWritten() ? "cp.async.bulk.wait_group 0;" : "cp.async.bulk.wait_group.read 0;",
            "~{memory}");
  return success();
}

}  // namespace

void addTensorStoreLowerings(LoweringTable& table) {
  table.add<tgpu::TensorStoreOp, lowerTensorStore>();
  table.add<tgpu::TensorWaitOp, lowerTensorWait>();
}

}  // namespace ligerdsl::compiler::nvptx
