// tgpu-allocate-shared
//
//   1. A buffer lives from its allocation to its last use. A use in a loop lasts until the loop's
//      end, unless the loop contains the allocation. A ring's slots may have a shorter lifetime
//      (rule 4).
//   2. A buffer that shares no memory needs no barrier against other buffers. So buffers of up to
//      kUnsharedBytes share none. If all buffers together fit in kSeparateBytes, none of them
//      share.
//   3. mbarriers never share memory, because the memory of an mbarrier must have no other use.
//      Targets of cluster exchanges do not share, because other CTAs write them. Slots of bulk
//      copies do not, because these copies continue from one row to the next. Slots of TMA copies
//      may share with buffers that begin after the ring's last use, because all copies are complete
//      by then.
//   4. `shared-bytes` leaves room for the number of CTAs per SM that the kernel requests. If rules
//      1 to 3 need more, a ring's slots live only from their first fill to the op that empties them
//      (analysis/shared_lifetime.h). TMA copies then may fill memory that other buffers used
//      before. tgpu-insert-barriers adds the barriers and proxy fences that this needs before the
//      first fill.
//   5. First fit: each buffer, largest first, gets the lowest offset at which it does not overlap a
//      placed buffer that conflicts with it.
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

#define GEN_PASS_DEF_TGPUALLOCATESHAREDPASS
#include "compiler/passes/Passes.h.inc"

namespace {

constexpr int64_t kSeparateBytes = 8 * 1024;

struct Interval {  // positions in program order, inclusive
  int64_t begin, end;
  bool overlaps(const Interval& other) const { return begin <= other.end && other.begin <= end; }
};

struct Buffer {
  Operation* op;  // tgpu.local_alloc, or tgpu.ring, which has several buffers
  int64_t bytes, alignment;
  bool alone;      // never shares (rules 2 and 3)
  bool byTensor;   // TMA copies fill it
  Interval whole;  // lifetime by rule 1
  Interval used;   // lifetime by rule 4
  int64_t offset = -1;

  bool conflictsWith(const Buffer& other, bool shortest) const {
    if (alone || other.alone) return true;
    if (shortest) return used.overlaps(other.used);
    return keepsFrom(other) || other.keepsFrom(*this) || whole.overlaps(other.whole);
  }
  bool keepsFrom(const Buffer& other) const { return byTensor && other.whole.begin <= whole.end; }
};

class TgpuAllocateSharedPass : public impl::TgpuAllocateSharedPassBase<TgpuAllocateSharedPass> {
 public:
  using TgpuAllocateSharedPassBase::TgpuAllocateSharedPassBase;

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

  // Returns the position where a use ends: the end of the op that contains `user`, in the block of
  // `alloc`.
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
      const auto add = [&](int64_t bytes, int64_t alignment, bool alone, bool byTensor,
                           Interval used) {
        const int64_t all = llvm::alignTo(bytes, kLeastAlignment);
        buffers.push_back(
            {op, all, alignment, alone || all <= kUnsharedBytes, byTensor, wholeLife(op), used});
      };
      if (auto alloc = dyn_cast<tgpu::LocalAllocOp>(op))
        add(bufferBytes(alloc.getType()), bufferAlignment(alloc.getType()),
            llvm::any_of(op->getUsers(), llvm::IsaPred<tgpu::ClusterSendOp>), /*byTensor=*/false,
            wholeLife(op));
      auto ring = dyn_cast<tgpu::RingOp>(op);
      if (!ring) return;
      const bool byTensor = ring.getType().getFill() == tgpu::RingFill::tensor;
      for (auto [part, bytes] : llvm::enumerate(bufferBytes(ring.getType()))) {
        if (part < ring.getType().getParts().size())
          add(bytes, bufferAlignment(ring.getType().part(part)),
              ring.getType().hasBarriers() && !byTensor, byTensor, shortestLife(ring));
        else  // mbarriers of filled slots; in clusters, then mbarriers of free slots
          add(byTensor && getOperation()->hasAttr(kNumCtasAttr) ? 2 * bytes : bytes,
              kLeastAlignment, /*alone=*/true,
              /*byTensor=*/false, wholeLife(op));
      }
    });
    return buffers;
  }

  int64_t place(std::vector<Buffer>& buffers, bool shortest) {
    int64_t total = 0;
    for (const Buffer& buffer : buffers) total += buffer.bytes;
    bool separate = total <= kSeparateBytes;
    SmallVector<Buffer*> order =
        llvm::map_to_vector(buffers, [](Buffer& buffer) { return &buffer; });
    if (!separate)
      llvm::stable_sort(order, [](Buffer* a, Buffer* b) { return a->bytes > b->bytes; });
    SmallVector<Buffer*> placed;
    int64_t end = 0;
    for (Buffer* buffer : order) {
      SmallVector<Buffer*> rivals;
      for (Buffer* other : placed)
        if (separate || buffer->conflictsWith(*other, shortest)) rivals.push_back(other);
      llvm::sort(rivals, [](Buffer* a, Buffer* b) { return a->offset < b->offset; });
      int64_t offset = 0;
      for (Buffer* other : rivals) {
        if (offset + buffer->bytes <= other->offset) break;
        const int64_t after = llvm::alignTo(other->offset + other->bytes, buffer->alignment);
        offset = std::max(offset, after);
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

}  // namespace ligerdsl::compiler
