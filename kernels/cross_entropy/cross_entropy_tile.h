// Cross-entropy of several short rows per tile (CrossEntropyMeta::rows > 1).
#pragma once

#include "kernels/cross_entropy/cross_entropy_row.h"

namespace ligerdsl::kernels {

// Computes all results of the program's tile of rows.
void cross_entropy_tile(KernelBuilder& k, const CrossEntropyMeta& m,
                        const CrossEntropyArguments& args);

}  // namespace ligerdsl::kernels
