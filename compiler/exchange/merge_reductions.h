// Independent reductions of a block share one exchange.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ligerdsl::compiler {

/// Merges tile.reduce ops of one block, shape, layout and axis that do not depend on each other
/// into one variadic reduction. Together they then cost one trip through shared memory and one
/// barrier.
void mergeReductions(mlir::func::FuncOp func);

}  // namespace ligerdsl::compiler
