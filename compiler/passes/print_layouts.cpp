// tgpu-print-layouts: prints each layout of a function once, as text, to stderr. Changes nothing.
//
// For each layout, a line gives registers per thread, vector width and replication. Small tiles
// follow element by element with their owners, larger ones as basis vectors.
#include "compiler/dialect/layout_attr.h"
#include "compiler/passes/passes.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPUPRINTLAYOUTSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

constexpr int64_t kTableElements = 256;

void print(raw_ostream& stream, RankedTensorType type) {
  LinearLayout layout = layoutOf(type);
  BitMasks redundant = layout.redundant();
  stream << "tile ";
  llvm::interleave(type.getShape(), stream, "x");
  stream << ": " << layout.registers() << " registers, vectors of " << layout.contiguous();
  const int bits = llvm::popcount(redundant.lane) + llvm::popcount(redundant.warp) +
                   llvm::popcount(redundant.cta);
  if (bits > 0) stream << ", replicated " << (1 << bits) << " times";
  stream << "\n"
         << (type.getNumElements() <= kTableElements ? layout.table() : layout.str() + "\n");
}

class TgpuPrintLayoutsPass : public impl::TgpuPrintLayoutsPassBase<TgpuPrintLayoutsPass> {
 public:
  using TgpuPrintLayoutsPassBase::TgpuPrintLayoutsPassBase;

  void runOnOperation() override {
    // A layout does not depend on the element type.
    llvm::SetVector<Type> types;
    auto add = [&](Type type) {
      if (!hasLayout(type)) return;
      auto tile = cast<RankedTensorType>(type);
      types.insert(tile.clone(IntegerType::get(&getContext(), 8)));
    };
    getOperation().walk([&](Operation* op) { llvm::for_each(op->getResultTypes(), add); });
    for (Type type : types) print(llvm::errs(), cast<RankedTensorType>(type));
    markAllAnalysesPreserved();
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
