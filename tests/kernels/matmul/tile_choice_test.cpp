// Tests the choice of a matmul's tile by predicted time.
#include "kernels/matmul/tile_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/matmul/matmul.h"

namespace ligerdsl::testing {
namespace {

using kernels::ChosenRows;
using kernels::MatmulConfig;
using kernels::MatmulOptions;
using kernels::MatmulTile;
using kernels::WideMatmul;

const kernels::Machine kGpu = kernels::gpu("sm_90a", 132, 86);

constexpr MatmulTile kTall{256, 128}, kClusterOfTwo{256, 256, 2};

WideMatmul wide(int64_t cols, int64_t depth) {
  return {.cols = cols, .depth = depth, .sms = 132, .least_saved = 24, .clusters = true};
}

MatmulOptions options_of(int64_t cols, int64_t depth) {
  return {.transposes = kernels::Transposes::nt, .cols = cols, .width = depth};
}

// Returns the configuration of a call, as plan_of_product chooses it.
MatmulConfig config_of(int64_t rows, MatmulOptions options) {
  const std::vector<int64_t> few = kernels::few_rows(kGpu, options);
  if (const auto bound = std::ranges::lower_bound(few, rows); bound != few.end())
    options.most_rows = *bound;
  else
    for (const ChosenRows& chosen : kernels::middle_rows(kGpu, options))
      if (chosen.contains(rows)) options.most_rows = chosen.most();
  return kernels::matmul_kernel.heuristic(kGpu, options);
}

MatmulTile tile_of(const MatmulConfig& config) {
  return {config.tile_m, config.tile_n, config.num_ctas};
}

// Predictions plus a launch of 3.75 us are within 10 % of measured times (us, H200).
TEST(TileChoice, PredictsMeasuredTimes) {
  struct Measured {
    int64_t rows, cols, depth;
    MatmulTile tile;
    double us;
    bool a_crosses_lines = false, b_crosses_lines = false;
  };
  constexpr MatmulTile kUsual{}, k160{128, 160}, k192{128, 192}, k224{128, 224};
  constexpr double kLaunchUs = 3.75;
  for (const Measured& one : {// Fitted.
                              Measured{1024, 4096, 4096, kUsual, 47.7},
                              {1025, 4096, 4096, kUsual, 69.7},
                              {1024, 4104, 4096, kUsual, 59.6},
                              {640, 4096, 11008, kUsual, 109.7},
                              {640, 4096, 11008, k160, 78},
                              {704, 4096, 11008, kUsual, 111.3},
                              {1000, 5120, 3456, kUsual, 60.6},
                              {1000, 5120, 3456, k160, 52},
                              {1060, 5120, 3456, kUsual, 68.7},
                              {2312, 7056, 1984, kUsual, 104},
                              {8192, 896, 4864, kUsual, 107.3},
                              {4096, 4160, 4096, kUsual, 202.2},
                              {4096, 4096, 4096, kUsual, 178.8},
                              {4096, 4104, 4096, kTall, 191.9, false, true},
                              {4096, 4104, 4096, kClusterOfTwo, 232.6, false, true},
                              {3000, 3000, 3000, kClusterOfTwo, 101.5, true, true},
                              {4096, 4096, 4104, kClusterOfTwo, 206.8, true, true},
                              {4096, 4096, 4104, kTall, 292.7, true, true},
                              {1000, 3000, 3000, kTall, 49.7, true, true},
                              // These times were not used to fit the model.
                              {1025, 4096, 4096, k160, 61.2},
                              {1025, 4096, 4096, k192, 67.6},
                              {1280, 4096, 4096, k160, 60.4},
                              {641, 4096, 11008, k192, 89.4},
                              {1060, 5120, 3456, k192, 58.4},
                              {8192, 896, 4864, k224, 95.9},
                              {4096, 4160, 4096, k224, 193.3},
                              {4096, 4160, 4096, k192, 197.9},
                              {4096, 4104, 4096, kTall, 176.3},
                              {4096, 4160, 4096, kTall, 174.3},
                              {4096, 4224, 4096, kTall, 175.5},
                              {1664, 4096, 4096, kTall, 89},
                              {16384, 896, 4864, k224, 186.4},
                              {16384, 896, 4864, kTall, 211.7},
                              {65536, 320, 4096, k160, 250.1},
                              {8192, 2880, 2880, k192, 188.4},
                              {8192, 2880, 2880, k224, 193.8},
                              {8192, 2880, 2880, kTall, 189.4},
                              {16384, 1408, 2048, kUsual, 136.9},
                              {16384, 1408, 2048, k160, 137.1},
                              {16384, 1408, 2048, k192, 143.7}}) {
    WideMatmul matmul = wide(one.cols, one.depth);
    matmul.a_crosses_lines = one.a_crosses_lines, matmul.b_crosses_lines = one.b_crosses_lines;
    const double us = kernels::predicted_us(matmul, one.rows, one.tile) + kLaunchUs;
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
  EXPECT_EQ(config_of(16384, options_of(896, 4864)).tile_n, 224);
  for (const int64_t size : {1024, 4096, 8192})  // whole waves of the usual tiles, or nearly so
    EXPECT_EQ(tile_of(config_of(size, options_of(4096, 4096))), MatmulTile{}) << size;
  EXPECT_EQ(tile_of(config_of(8192, options_of(8192, 8192))), MatmulTile{});
  MatmulOptions nn = options_of(4096, 4096);
  nn.transposes = kernels::Transposes::nn;
  EXPECT_EQ(config_of(1025, nn).tile_n, 256) << "160 columns are no whole lines of b";
  nn.width = 11008;
  EXPECT_EQ(config_of(641, nn).tile_n, 192);
}

TEST(TileChoice, TallTilesFillFourWaves) {
  for (const int64_t cols : {4104, 4160, 4224})
    for (const auto transposes :
         {kernels::Transposes::nt, kernels::Transposes::nn, kernels::Transposes::tn}) {
      MatmulOptions options = options_of(cols, 4096);
      options.transposes = transposes;
      const MatmulConfig config = config_of(4096, options);
      EXPECT_EQ(tile_of(config), kTall) << cols;
      EXPECT_EQ(config.tile_m * config.group, 2048);
      EXPECT_EQ(config.least_saved, 0);
    }
}

TEST(TileChoice, IgnoresTheLastWaveOfAnyRows) {
  EXPECT_EQ(config_of(1 << 20, options_of(320, 4096)).tile_n, 160);
  EXPECT_EQ(config_of(1 << 20, options_of(192, 4096)).tile_n, 192);
  EXPECT_EQ(tile_of(config_of(1 << 20, options_of(4096, 4096))), MatmulTile{});
  EXPECT_EQ(tile_of(config_of(1 << 20, options_of(4096, 4088))), kClusterOfTwo);
}

// One tile is chosen for each ChosenRows::kBlock consecutive row counts. For no row count would
// the 128 x 256 tile save more than 5 % or 1 us, whichever is larger, of the predicted time.
TEST(TileChoice, LosesAtMostFivePercent) {
  for (const int64_t cols : {520, 896, 1000, 1024, 3000, 4096, 4160, 5120, 11008, 32000, 128256})
    for (const int64_t depth : {64, 1024, 4096, 16384}) {
      const MatmulOptions options = options_of(cols, depth);
      const WideMatmul matmul = wide(cols, depth);
      const std::vector<int64_t> few = kernels::few_rows(kGpu, options);
      const std::vector<ChosenRows> middle = kernels::middle_rows(kGpu, options);
      EXPECT_LE(middle.size(), 4U);
      for (const ChosenRows& chosen : middle) {
        EXPECT_TRUE(chosen.contains(chosen.most()));
        EXPECT_FALSE(chosen.contains(chosen.most() + 1));
        EXPECT_GT(chosen.most(), few.empty() ? 0 : few.back());
      }
      for (int64_t rows = few.empty() ? 1 : few.back() + 1; rows <= 9000; rows += 61) {
        const MatmulConfig config = config_of(rows, options);
        EXPECT_EQ(kernels::matmul_kernel.valid(kGpu, options, config), "");
        const double usual = kernels::predicted_us(matmul, rows, {});
        EXPECT_LE(kernels::predicted_us(matmul, rows, tile_of(config)),
                  std::max(usual / 0.95, usual + 1))
            << rows << "x" << cols << "x" << depth;
        EXPECT_LE(std::ranges::count_if(
                      middle, [rows](const ChosenRows& tile) { return tile.contains(rows); }),
                  1);
      }
    }
}

// A bucket's schedule has the tile chosen for its rows, even if there is no bucket for few rows. A
// cluster needs another schedule for unaligned rows.
TEST(TileChoice, IsThatOfTheSchedule) {
  for (const int sms : {1, 14, 78, 114, 132})
    for (const auto transposes : {kernels::Transposes::nt, kernels::Transposes::nn})
      for (const int64_t cols : {136, 1000, 4104, 4160, 16904, 20008, 32008})
        for (const int64_t depth : {1000, 2056, 4096}) {
          const kernels::Machine gpu = kernels::gpu("sm_90a", sms, 86);
          MatmulOptions options = options_of(cols, depth);
          options.transposes = transposes;
          for (const ChosenRows& chosen : kernels::middle_rows(gpu, options)) {
            options.most_rows = chosen.most();
            const MatmulConfig config = kernels::matmul_kernel.heuristic(gpu, options);
            options.most_rows = 0;
            EXPECT_EQ(tile_of(config), chosen.tile()) << sms << " SMs, " << cols << "x" << depth;
            EXPECT_EQ(kernels::matmul_kernel.valid(gpu, options, config), "");
            if (config.num_ctas > 1) {
              EXPECT_TRUE(kernels::has_unaligned_schedule(gpu, options));
            }
          }
        }
}

TEST(TileChoice, UnknownDepthKeepsTilesThatAreSplit) {
  MatmulOptions options = options_of(896, 4864);
  options.transposes = kernels::Transposes::tn;  // [4864, K] [K, 896]
  EXPECT_EQ(tile_of(config_of(4096, options)), MatmulTile{});
  WideMatmul matmul = wide(896, 16384);
  EXPECT_GT(kernels::predicted_us(matmul, 4864, {128, 192}),
            1.1 * kernels::predicted_us(matmul, 4864, {}));
}

TEST(TileChoice, NoRowsHaveNoTile) {
  ChosenRows rows({128, 160});
  rows.add(0);
  EXPECT_FALSE(rows.contains(0));
  EXPECT_TRUE(rows.contains(1));
  EXPECT_TRUE(rows.contains(128));
  EXPECT_FALSE(rows.contains(129));
}

TEST(TileChoice, RequiresTimedMatmuls) {
  const MatmulOptions plain = options_of(4096, 4096);
  EXPECT_FALSE(kernels::middle_rows(kGpu, plain).empty());
  const auto none = [](const kernels::Machine& machine, const MatmulOptions& options) {
    return kernels::middle_rows(machine, options).empty();
  };
  EXPECT_TRUE(none(kernels::gpu("sm_80", 108, 80), plain));
  MatmulOptions other = plain;
  other.transposes = kernels::Transposes::tn;
  EXPECT_TRUE(none(kGpu, other)) << "M is known, and K does not matter";
  other = plain, other.type = f32, other.c_type = f32;
  EXPECT_TRUE(none(kGpu, other));
  other = plain, other.adds = true;
  EXPECT_TRUE(none(kGpu, other));
  other = plain, other.batch = 4;
  EXPECT_TRUE(none(kGpu, other));
}

}  // namespace
}  // namespace ligerdsl::testing
