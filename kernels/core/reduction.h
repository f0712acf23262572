// Reduction of row losses to a call's loss.
#pragma once

namespace ligerdsl::kernels {

// `batchmean` divides by the number of rows; only divergences have it.
enum class Reduction { none, mean, sum, batchmean };

}  // namespace ligerdsl::kernels
