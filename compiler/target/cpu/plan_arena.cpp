// Rule 3 (no allocation at run time): gives every buffer a static offset in the arena. Buffers that
// live at different times may share bytes.
#include "compiler/target/cpu/plan.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

void Plan::measureLifetimes() {
  auto touch = [&](Buffer* buffer, int64_t first, Operation* user) {
    if (!buffer) return;
    buffer->birth = std::min(buffer->birth, first);
    buffer->death = std::max(buffer->death, endOfUse(user, buffer->home));
  };
  for (const Group& group : groups) {
    for (const Sink& sink : group.sinks) {
      Operation* last = group.sinks.back().op;
      for (auto& read : readsOf(sink).buffers) touch(read.buffer, group.first, last);
      touch(sink.target, group.first, last);
      if (sink.source) touch(sink.source, group.first, last);
      if (sink.kind != SinkKind::materialise)
        for (Value result : sink.op->getResults()) touch(bufferOf(result), group.first, last);
    }
  }
  // A carried buffer is alive in the whole loop, even if the body does not read it.
  function.walk([&](Operation* op) {
    if (!isLoop(op) && !isa<scf::IfOp>(op)) return;
    for (Value result : op->getResults())
      if (Buffer* buffer = bufferOf(result)) {
        buffer->birth = std::min(buffer->birth, span[op].first);
        buffer->death = std::max(buffer->death, span[op].second);
      }
    if (auto loop = dyn_cast<scf::WhileOp>(op))
      for (Value argument : loop.getBeforeArguments())
        if (Buffer* buffer = bufferOf(argument)) {
          buffer->birth = std::min(buffer->birth, span[op].first);
          buffer->death = std::max(buffer->death, span[op].second);
        }
  });
}

// Places buffers first-fit, in the order of birth. Buffers whose lifetimes overlap share no byte.
void Plan::placeBuffers() {
  SmallVector<Buffer*> order, placed;
  for (Buffer& buffer : storage)
    if (buffer.death >= 0) order.push_back(&buffer);
  llvm::stable_sort(order, [](Buffer* a, Buffer* b) { return a->birth < b->birth; });
  for (Buffer* buffer : order) {
    SmallVector<Buffer*> rivals;
    for (Buffer* other : placed)
      if (other->birth <= buffer->death && buffer->birth <= other->death) rivals.push_back(other);
    llvm::sort(rivals, [](Buffer* a, Buffer* b) { return a->offset < b->offset; });
    int64_t offset = 0;
    for (Buffer* rival : rivals) {
      if (offset + buffer->bytes <= rival->offset) break;
      offset = std::max<int64_t>(offset, llvm::alignTo<64>(rival->offset + rival->bytes));
    }
    buffer->offset = offset;
    placed.push_back(buffer);
    arena = std::max<int64_t>(arena, llvm::alignTo<64>(offset + buffer->bytes));
  }
}

}  // namespace ligerdsl::compiler::cpu
