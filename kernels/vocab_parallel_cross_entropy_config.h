// The schedules of cross-entropy of a vocabulary in shards: cross-entropy's, of rows that are read once.
#pragma once

#include "kernels/cross_entropy_config.h"
#include "kernels/vocab_parallel_cross_entropy.h"

namespace ligerdsl::kernels {

using VocabParallelPartials = ConfiguredKernel<VocabParallelPartialsOptions, CrossEntropyConfig>;
extern const VocabParallelPartials vocab_parallel_partials_kernel;

using VocabParallelCrossEntropy = ConfiguredKernel<VocabParallelCrossEntropyOptions, CrossEntropyConfig>;
extern const VocabParallelCrossEntropy vocab_parallel_cross_entropy_kernel;

}  // namespace ligerdsl::kernels
