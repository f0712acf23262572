// tgpu-allocate-shared
//
//   1. A buffer lives from its allocation to its last use; a use inside a loop that does not contain the allocation
//      extends to the loop's end. What copies fill of a ring may live shorter (rule 4).
//   2. Memory that is not reused needs no barrier before its next use: buffers of up to kUnsharedBytes never share, and
//      none do if all fit side by side in kSeparateBytes.
//   3. Nobody shares memory barriers, which memory must not have been anything else, what cluster exchanges fill, which other CTAs
//      write, and what bulk copies fill, which go on from one row to the next.
//      What tensor copies fill may serve buffers that begin behind the ring's last use: by then all copies have been waited for.
//   4. If a CTA takes more than `shared-bytes` by that, what would leave room for as many CTAs on an SM as the kernel asks for, slots
//      of rings live from their first fill to where they are emptied (analysis/shared_lifetime.h), and tensor copies also bring tiles to
//      memory that others have used. That may take barriers, with a proxy fence behind plain accesses (tgpu-insert-barriers), in front of the
//      first fill; so it is done only then.
//   5. First fit: each buffer, largest first, takes the lowest offset at which it meets no buffer that it may not share
//      with.
//
// The function's `tgpu.shared_bytes` is the end of the highest buffer.
#include <limits>

#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/shared_lifetime.h"
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

struct Interval {  // of positions in program order, inclusive
  int64_t begin, end;
  bool meets(const Interval& other) const { return begin <= other.end && other.begin <= end; }
};

struct Buffer {
  Operation* op;  // tgpu.local_alloc, or tgpu.ring, which has several buffers
  int64_t bytes, alignment;
  bool alone;      // rules 2 and 3
  bool byTensor;   // tensor copies fill it
  Interval whole;  // rule 1
  Interval used;   // rule 4
  int64_t offset = -1;

  bool meets(const Buffer& other, bool shortest) const {
    if (alone || other.alone) return true;
    if (shortest) return used.meets(other.used);
    return keepsFrom(other) || other.keepsFrom(*this) || whole.meets(other.whole);
  }
  bool keepsFrom(const Buffer& other) const { return byTensor && other.whole.begin <= whole.end; }
};

class TgpuAllocateSharedPass : public PassWrapper<TgpuAllocateSharedPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TgpuAllocateSharedPass)
  TgpuAllocateSharedPass() = default;
  TgpuAllocateSharedPass(const TgpuAllocateSharedPass& other) : PassWrapper(other) {}
  explicit TgpuAllocateSharedPass(int64_t bytes) { sharedBytes = bytes; }

  StringRef getArgument() const override { return "tgpu-allocate-shared"; }
  StringRef getDescription() const override { return "Place shared-memory buffers"; }

  void runOnOperation() override {
    number();
    std::vector<Buffer> buffers = collect();
    int64_t total = place(buffers, /*shortest=*/false);
    if (total > sharedBytes) {
      std::vector<Buffer> closer = buffers;
      const int64_t less = place(closer, /*shortest=*/true);
      if (less < total) total = less, buffers = std::move(closer);
    }
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

  Interval wholeLife(Operation* op) {
    Interval life{first[op], first[op]};
    for (Operation* user : op->getUsers()) life.end = std::max(life.end, endOfUse(user, op));
    return life;
  }
  Interval shortestLife(tgpu::RingOp ring) {
    const Lifetime life = lifetimeOf(ring);
    return life.first ? Interval{first[life.first], last[life.last]} : wholeLife(ring);
  }

  std::vector<Buffer> collect() {
    std::vector<Buffer> buffers;
    getOperation().walk([&](Operation* op) {
      const auto add = [&](int64_t bytes, int64_t alignment, bool alone, bool byTensor, Interval used) {
        const int64_t all = llvm::alignTo(bytes, kLeastAlignment);
        buffers.push_back({op, all, alignment, alone || all <= kUnsharedBytes, byTensor, wholeLife(op), used});
      };
      if (auto alloc = dyn_cast<tgpu::LocalAllocOp>(op))
        add(bufferBytes(alloc.getType()), bufferAlignment(alloc.getType()),
            llvm::any_of(op->getUsers(), llvm::IsaPred<tgpu::ClusterSendOp>), /*byTensor=*/false, wholeLife(op));
      auto ring = dyn_cast<tgpu::RingOp>(op);
      if (!ring) return;
      const bool byTensor = ring.getType().getFill() == tgpu::RingFill::tensor;
      for (auto [part, bytes] : llvm::enumerate(bufferBytes(ring.getType()))) {
        if (part < ring.getType().getParts().size())
          add(bytes, bufferAlignment(ring.getType().part(part)), ring.getType().hasBarriers() && !byTensor, byTensor,
              shortestLife(ring));
        else  // in clusters, those that tell that slots are free behind those that tell that they are filled
          add(byTensor && getOperation()->hasAttr(kNumCtasAttr) ? 2 * bytes : bytes, kLeastAlignment, /*alone=*/true,
              /*byTensor=*/false, wholeLife(op));
      }
    });
    return buffers;
  }

  int64_t place(std::vector<Buffer>& buffers, bool shortest) {
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
        if (separate || buffer->meets(*other, shortest)) rivals.push_back(other);
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

  Option<int64_t> sharedBytes{*this, "shared-bytes", llvm::cl::desc("What a CTA may take before rings share"),
                              llvm::cl::init(std::numeric_limits<int64_t>::max())};
  llvm::DenseMap<Operation*, int64_t> first, last;
};

}  // namespace

std::unique_ptr<Pass> createTgpuAllocateSharedPass(int64_t sharedBytes) {
  return std::make_unique<TgpuAllocateSharedPass>(sharedBytes);
}

}  // namespace ligerdsl::compiler
