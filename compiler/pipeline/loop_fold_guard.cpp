#include "compiler/pipeline/loop_fold_guard.h"

#include "compiler/dialect/tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// Marks an assume_divisible by 1, which has no folder and states nothing. The attribute
// distinguishes it from the author's assumptions.
constexpr llvm::StringLiteral kBoundAttr = "tile.guarded_bound";

bool pipelinesMatmuls(scf::ForOp loop) {
  auto stages = loop->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr);
  return stages && stages.getInt() >= 2 && !loop.getBody()->getOps<tile::DotOp>().empty();
}

}  // namespace

LoopFoldGuard::LoopFoldGuard(ModuleOp module) : module(module) {
  module.walk([](scf::ForOp loop) {
    if (!pipelinesMatmuls(loop)) return;
    OpBuilder builder(loop);
    Value end = loop.getUpperBound();
    auto bound =
        tile::AssumeDivisibleOp::create(builder, loop.getLoc(), end.getType(), end, /*divisor=*/1);
    bound->setAttr(kBoundAttr, builder.getUnitAttr());
    loop.setUpperBound(bound);
  });
}

LoopFoldGuard::~LoopFoldGuard() {
  module.walk([](tile::AssumeDivisibleOp bound) {
    if (!bound->hasAttr(kBoundAttr)) return;
    bound.getResult().replaceAllUsesWith(bound.getSource());
    bound.erase();
  });
}

}  // namespace ligerdsl::compiler
