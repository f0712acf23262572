// What the description of a loss says, in the oracles' terms.
#pragma once

#include "kernels/oracle/cross_entropy.h"
#include "kernels/oracle/divergence.h"
#include "kernels/oracle/vocab_parallel_cross_entropy.h"
#include "lib/cli/oracle/formulas.h"

namespace ligerdsl::cli {

oracle::CrossEntropyCase cross_entropy_case(const Call& c);
oracle::VocabParallelCase vocab_parallel_case(const Call& c);
oracle::DivergenceCase divergence_case(const Call& c, oracle::DivergenceKind kind);

}  // namespace ligerdsl::cli
