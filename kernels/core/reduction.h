// Reduction of row losses to a call's loss.
#pragma once

namespace ligerdsl::kernels {

// `batchmean` divides the sum by the number of rows. Only divergences support it.
enum class Reduction { none, mean, sum, batchmean };

}  // namespace ligerdsl::kernels
