// tgpu-allocate-shared
//
//   1. A buffer lives from its allocation to its last use; a use inside a loop that does not contain the allocation
//      extends to the loop's end.
//   2. Memory that is not reused needs no barrier before its next use: buffers of up to kUnsharedBytes never share, and
//      none do if all fit side by side in kSeparateBytes.
//   3. What bulk copies and cluster exchanges fill, and their barriers, share with no buffer: no barrier of the CTA
//      orders them after other accesses, and memory that holds a barrier may not be used for anything else. What tensor
//      copies fill may serve buffers that begin behind the ring's last use: by then all copies have been waited for.
//   4. First fit: each buffer, largest first, takes the lowest offset at which it meets no buffer that it may not share
//      with.
//
// The function's `tgpu.shared_bytes` is the end of the highest buffer.
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int64_t kSeparateBytes = 8 * 1024;

struct Buffer {
  Operation* op;  // tgpu.local_alloc, or tgpu.ring, which has several buffers
  int64_t bytes, alignment;
  bool filled;         // rule 3
  bool byTensor;       // the same, of tensor copies
  int64_t begin, end;  // positions in program order, inclusive
  int64_t offset = -1;

  bool meets(const Buffer& other) const {
    bool alone = bytes <= kUnsharedBytes || other.bytes <= kUnsharedBytes || filled || other.filled;
    return alone || keepsFrom(other) || other.keepsFrom(*this) || (begin <= other.end && other.begin <= end);
  }
  bool keepsFrom(const Buffer& other) const { return byTensor && other.begin <= end; }
};

class TgpuAllocateSharedPass : public PassWrapper<TgpuAllocateSharedPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TgpuAllocateSharedPass)
  StringRef getArgument() const override { return "tgpu-allocate-shared"; }
  StringRef getDescription() const override { return "Place shared-memory buffers"; }

  void runOnOperation() override {
    number();
    std::vector<Buffer> buffers = collect();
    int64_t total = place(buffers);
    OpBuilder builder(&getContext());
    llvm::MapVector<Operation*, SmallVector<int64_t>> offsets;
    for (const Buffer& buffer : buffers) offsets[buffer.op].push_back(buffer.offset);
    for (auto& [op, ofOp] : offsets) {
      if (auto ring = dyn_cast<tgpu::RingOp>(op))
        ring.setOffsets(ofOp);
      else
        cast<tgpu::LocalAllocOp>(op).setOffset(ofOp.front());
    }
    getOperation()->setAttr(kSharedBytesAttr, builder.getI64IntegerAttr(total));
  }

 private:
  void number() {
    first.clear();
    last.clear();
    int64_t position = 0;
    getOperation().walk([&](Operation* op, const WalkStage& stage) {
      if (stage.isBeforeAllRegions()) first[op] = position++;
      if (stage.isAfterAllRegions()) last[op] = position++;
    });
  }

  // Where a use ends, seen from the region of the allocation: at the end of the outermost op that encloses it there.
  int64_t endOfUse(Operation* user, Operation* alloc) {
    Operation* outer = alloc->getBlock()->findAncestorOpInBlock(*user);
    return last[outer];
  }

  std::vector<Buffer> collect() {
    std::vector<Buffer> buffers;
    auto add = [&](Operation* op, int64_t bytes, int64_t alignment, bool filled, bool byTensor) {
      const int64_t whole = llvm::alignTo(bytes, kLeastAlignment);
      Buffer buffer{op, whole, alignment, filled, byTensor, first[op], first[op]};
      for (Operation* user : op->getUsers()) buffer.end = std::max(buffer.end, endOfUse(user, op));
      buffers.push_back(buffer);
    };
    getOperation().walk([&](Operation* op) {
      if (auto alloc = dyn_cast<tgpu::LocalAllocOp>(op))
        add(op, bufferBytes(alloc.getType()), bufferAlignment(alloc.getType()),
            llvm::any_of(op->getUsers(), llvm::IsaPred<tgpu::ClusterSendOp>), /*byTensor=*/false);
      if (auto ring = dyn_cast<tgpu::RingOp>(op))
        for (auto [part, bytes] : llvm::enumerate(bufferBytes(ring.getType()))) {
          const bool isPart = part < ring.getType().getParts().size();
          const bool byTensor = isPart && ring.getType().getFill() == tgpu::RingFill::tensor;
          add(op, bytes, isPart ? bufferAlignment(ring.getType().part(part)) : kLeastAlignment,
              ring.getType().hasBarriers() && !byTensor, byTensor);
        }
    });
    return buffers;
  }

  int64_t place(std::vector<Buffer>& buffers) {
    int64_t total = 0;
    for (const Buffer& buffer : buffers) total += buffer.bytes;
    bool separate = total <= kSeparateBytes;
    SmallVector<Buffer*> order = llvm::map_to_vector(buffers, [](Buffer& buffer) { return &buffer; });
    if (!separate) llvm::stable_sort(order, [](Buffer* a, Buffer* b) { return a->bytes > b->bytes; });
    SmallVector<Buffer*> placed;
    int64_t end = 0;
    for (Buffer* buffer : order) {
      SmallVector<Buffer*> rivals;
      for (Buffer* other : placed)
        if (separate || buffer->meets(*other)) rivals.push_back(other);
      llvm::sort(rivals, [](Buffer* a, Buffer* b) { return a->offset < b->offset; });
      int64_t offset = 0;
      for (Buffer* other : rivals) {
        if (offset + buffer->bytes <= other->offset) break;
        const int64_t behind = llvm::alignTo(other->offset + other->bytes, buffer->alignment);
        offset = std::max(offset, behind);
      }
      buffer->offset = offset;
      end = std::max(end, offset + buffer->bytes);
      placed.push_back(buffer);
    }
    return end;
  }

  llvm::DenseMap<Operation*, int64_t> first, last;
};

}  // namespace

std::unique_ptr<Pass> createTgpuAllocateSharedPass() {
  return std::make_unique<TgpuAllocateSharedPass>();
}

}  // namespace ligerdsl::compiler
