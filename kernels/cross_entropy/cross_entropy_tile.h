// Cross-entropy of tiles of several short rows (CrossEntropyMeta::rows > 1).
#pragma once

#include "kernels/cross_entropy/cross_entropy_row.h"

namespace ligerdsl::kernels {

// Computes all results of one tile of rows, the program's tile.
void cross_entropy_tile(KernelBuilder& k, const CrossEntropyMeta& m,
                        const CrossEntropyArguments& args);

}  // namespace ligerdsl::kernels
