// Tile widths of matmuls with a middle number of rows.
#include "kernels/matmul/tile_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/matmul/matmul.h"

namespace ligerdsl::testing {
namespace {

using kernels::MatmulConfig;
using kernels::MatmulOptions;
using kernels::WideMatmul;

const kernels::Machine kGpu = kernels::gpu("sm_90a", 132, 86);

WideMatmul wide(int64_t cols, int64_t depth) {
  return {.cols = cols, .depth = depth, .programs = 132, .least_saved = 24};
}

MatmulOptions options_of(int64_t cols, int64_t depth) {
  return {.factors = kernels::Factors::nt, .cols = cols, .width = depth};
}

// Returns the configuration of a call, as plan_of_product chooses it.
MatmulConfig config_of(int64_t rows, MatmulOptions options) {
  for (const std::vector<int64_t>& bounds :
       {kernels::few_rows(kGpu, options), kernels::middle_rows(kGpu, options)}) {
    const auto bound = std::ranges::lower_bound(bounds, rows);
    if (bound == bounds.end()) continue;
    options.most_rows = *bound;
    break;
  }
  return kernels::matmul_kernel.heuristic(kGpu, options);
}

// Predicted times, without the launch of 3.75 us, compared with measured times in us (H200).
TEST(TileChoice, PredictsMeasuredTimes) {
  struct Measured {
    int64_t rows, cols, depth;
    int tile_n;
    double us;
  };
  constexpr double kLaunchUs = 3.75;
  for (const Measured& one : {Measured{1024, 4096, 4096, 256, 47.7},
                              {1025, 4096, 4096, 256, 69.7},
                              {1024, 4104, 4096, 256, 59.6},
                              {640, 4096, 11008, 256, 109.7},
                              {640, 4096, 11008, 160, 78},
                              {704, 4096, 11008, 256, 111.3},
                              {1000, 5120, 3456, 256, 60.6},
                              {1000, 5120, 3456, 160, 52},
                              {1060, 5120, 3456, 256, 68.7},
                              {2312, 7056, 1984, 256, 104},
                              {8192, 896, 4864, 256, 107.3},
                              {4096, 4160, 4096, 256, 202.2},
                              {4096, 4096, 4096, 256, 178.8},
                              // These times are not among those that the constants fit.
                              {1025, 4096, 4096, 160, 61.2},
                              {1025, 4096, 4096, 192, 67.6},
                              {1280, 4096, 4096, 160, 60.4},
                              {641, 4096, 11008, 192, 89.4},
                              {1060, 5120, 3456, 192, 58.4},
                              {8192, 896, 4864, 224, 95.9},
                              {4096, 4160, 4096, 224, 193.3},
                              {4096, 4160, 4096, 192, 197.9}}) {
    const double us =
        kernels::predicted_us(wide(one.cols, one.depth), one.rows, one.tile_n) + kLaunchUs;
    EXPECT_LT(std::abs(std::log(us / one.us)), 0.1)
        << one.rows << "x" << one.cols << "x" << one.depth << ", " << us << " us";
  }
}

TEST(TileChoice, FillsWaves) {
  EXPECT_EQ(config_of(1025, options_of(4096, 4096)).tile_n, 160);
  EXPECT_EQ(config_of(640, options_of(4096, 11008)).tile_n, 160);
  EXPECT_EQ(config_of(641, options_of(4096, 11008)).tile_n, 192);
  EXPECT_EQ(config_of(1000, options_of(5120, 3456)).tile_n, 160);
  EXPECT_EQ(config_of(1060, options_of(5120, 3456)).tile_n, 192);
  EXPECT_EQ(config_of(8192, options_of(896, 4864)).tile_n, 224);
  for (const int64_t size : {1024, 4096, 8192})  // whole waves of the widest tiles, or nearly so
    EXPECT_EQ(config_of(size, options_of(4096, 4096)).tile_n, 256) << size;
  EXPECT_EQ(config_of(8192, options_of(8192, 8192)).tile_n, 256);
  MatmulOptions nn = options_of(4096, 4096);
  nn.factors = kernels::Factors::nn;
  EXPECT_EQ(config_of(1025, nn).tile_n, 256) << "160 columns are no whole lines of b";
  nn.width = 11008;
  EXPECT_EQ(config_of(641, nn).tile_n, 192);
}

// The choice for a bound holds for all numbers of rows up to it, and is never predicted to be
// slower than the widest tiles.
TEST(TileChoice, IsNeverSlowerThanTheWidestTiles) {
  for (const int64_t cols : {520, 896, 1000, 1024, 3000, 4096, 4160, 5120, 11008, 32000, 128256})
    for (const int64_t depth : {64, 1024, 4096, 16384}) {
      const MatmulOptions options = options_of(cols, depth);
      const WideMatmul matmul = wide(cols, depth);
      const std::vector<int64_t> few = kernels::few_rows(kGpu, options),
                                 middle = kernels::middle_rows(kGpu, options);
      EXPECT_TRUE(std::ranges::is_sorted(middle, std::ranges::less_equal()));
      EXPECT_LE(middle.size(), 12u);
      if (middle.empty()) continue;
      if (!few.empty()) {
        EXPECT_GT(middle.front(), few.back());
      }
      for (int64_t rows = few.empty() ? 1 : few.back() + 1; rows <= middle.back() + 200;
           rows += 61) {
        const MatmulConfig config = config_of(rows, options);
        EXPECT_EQ(kernels::matmul_kernel.valid(kGpu, options, config), "");
        EXPECT_LE(kernels::predicted_us(matmul, rows, config.tile_n),
                  kernels::predicted_us(matmul, rows, kernels::kWidestTile))
            << rows << "x" << cols << "x" << depth;
      }
    }
}

TEST(TileChoice, OnlyOfTimedMatmuls) {
  const MatmulOptions plain = options_of(4096, 4096);
  EXPECT_FALSE(kernels::middle_rows(kGpu, plain).empty());
  const auto none = [](const kernels::Machine& machine, const MatmulOptions& options) {
    return kernels::middle_rows(machine, options).empty();
  };
  EXPECT_TRUE(none(kernels::gpu("sm_80", 108, 80), plain));
  MatmulOptions other = plain;
  other.factors = kernels::Factors::tn;
  EXPECT_TRUE(none(kGpu, other)) << "K is not known";
  other = plain, other.type = f32, other.c_type = f32;
  EXPECT_TRUE(none(kGpu, other));
  other = plain, other.adds = true;
  EXPECT_TRUE(none(kGpu, other));
  other = plain, other.batch = 4;
  EXPECT_TRUE(none(kGpu, other));
  EXPECT_TRUE(none(kGpu, options_of(4096, 4088))) << "a cluster";
}

}  // namespace
}  // namespace ligerdsl::testing
