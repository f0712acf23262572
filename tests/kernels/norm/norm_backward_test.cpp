// Tests the schedule that the backward passes of norms share. No kernel runs.
#include "kernels/norm/norm_backward.h"

#include <gtest/gtest.h>

namespace ligerdsl::test::norm_backward_test {
namespace {

// In a CTA of at most 512 threads, each thread can have 128 registers. A thread holds at most two
// vectors, because their elements are converted to f32.
TEST(NormBackward, RowsSideBySideFitRegisters) {
  const kernels::Machine gpu = kernels::gpu("sm_90a", 132, 90);
  for (const DType type : {f32, f16, bf16})
    for (const int sums : {0, 1, 2})
      for (const int inputs : {2, 3})
        for (int64_t cols = 1; cols <= 512; ++cols) {
          const kernels::NormBackwardShape shape{
              .type = type, .cols = cols, .sums = sums, .inputs = inputs};
          const kernels::NormBackwardConfig config = kernels::norm_backward_heuristic(gpu, shape);
          EXPECT_LE(config.vectors, 2) << name(type) << " " << cols << " " << sums;
          EXPECT_GE(config.columns(type), cols);
          EXPECT_LE(config.num_warps, 16);
        }
}

}  // namespace
}  // namespace ligerdsl::test::norm_backward_test
