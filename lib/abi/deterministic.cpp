#include "lib/abi/deterministic.h"

#include "lib/abi/context.h"
#include "lib/abi/failure.h"

namespace ligerdsl::lib {
namespace {

void refuse_atomic_sums(const program::Program& program, const program::Region& region) {
  for (const program::Op& op : region.ops) {
    const bool adds =
        op.find(program::AttrKey::atomic) &&
        op.integer(program::AttrKey::atomic) == static_cast<int64_t>(program::AtomicKind::add);
    if (adds && is_float(program.values[op.operands[0]].dtype)) {
      fail(
          Status::not_supported,
          program.files[op.loc.file] + ":" + std::to_string(op.loc.line) +
              ": the kernel adds floats atomically, so its results may differ between runs, and "
              "this context is deterministic (LIGERDSL_DETERMINISTIC, LIGERDSL_CTX_DETERMINISTIC); "
              "store one partial sum per program and add them in a second kernel");
    }
    for (const program::Region& inner : op.regions) refuse_atomic_sums(program, inner);
  }
}

}  // namespace

void require_deterministic(const Context& context, const program::Program& program) {
  if (context.options().deterministic) refuse_atomic_sums(program, program.body);
}

}  // namespace ligerdsl::lib
