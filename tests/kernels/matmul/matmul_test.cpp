// Compares matmuls and their epilogues with float64.
#include "kernels/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "kernels/elementwise/activation_reference.h"
#include "kernels/matmul/matmul_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::matmul_test {
namespace {

using kernels::Epilogue;
using kernels::MatmulConfig;
using kernels::MatmulOptions;
using kernels::Transposes;

struct Trial {
  int64_t m, n, k;
  MatmulOptions options;  // sizes are set from m, n and k
  double alpha = 1, beta = 0;
  MetaValues config = {};
  int sms = 0;  // SMs of a smaller GPU, or 0 for all SMs of the machine

  void check(uint64_t seed, int64_t gap = 0) {
    options.cols = n;
    options.width = options.transposed_a() ? m : k;
    options.scaled = alpha != 1;
    options.adds = beta != 0;
    options.unit_beta = beta == 1;
    SCOPED_TRACE(kernels::meta_text(options) + " " + std::to_string(m) + "x" + std::to_string(n) +
                 "x" + std::to_string(k) + " seed " + std::to_string(seed));
    const bool ta = options.transposed_a(), tb = options.transposed_b();
    const Tensor a = random_rows(options.type, ta ? k : m, ta ? m : k, seed, gap);
    const Tensor b = random_rows(options.b_type(), tb ? n : k, tb ? k : n, seed + 1, gap);
    const Tensor a_scale = random_vector(f32, m, seed + 4),
                 b_scale = random_vector(f32, n, seed + 5);
    const Tensor c = random_rows(options.c_type, m, n, seed + 2, gap);
    const Tensor bias = random_vector(options.bias_type, n, seed + 3);
    reference::MatmulCase which{.m = m,
                                .n = n,
                                .k = k,
                                .transposed_a = ta,
                                .transposed_b = tb,
                                .alpha = alpha,
                                .beta = beta};
    if (options.epilogue != Epilogue::none)
      which.f = static_cast<reference::ActivationKind>(static_cast<int>(options.epilogue) - 1);
    const auto by_rows = [&](Values values, bool scaled, const Tensor& scale) {
      for (size_t i = 0; scaled && i < values.size(); ++i)
        values[i] *= scale.get(static_cast<int64_t>(i) / k);
      return values;
    };
    const Values wanted =
        reference::matmul_reference(which, by_rows(a.values(), options.scaled_rows, a_scale),
                                    by_rows(b.values(), options.scaled_cols, b_scale),
                                    options.has_bias ? bias.values() : Values{}, c.values());
    Arguments arguments;
    arguments.tensor("a", a).tensor("b", b).tensor("bias", bias).tensor("c", c);
    arguments.tensor("a_scale", a_scale).tensor("b_scale", b_scale);
    arguments.number("alpha", alpha).number("beta", beta);
    kernels::Machine on = machine();
    if (sms) on.sms = sms;
    backend().run(kernels::matmul_kernel.build(on, options,
                                               kernels::matmul_kernel.chosen(on, options, config)),
                  ta ? k : m, arguments);
    // fp8 accumulators of sm_90a have about 14 bits.
    const bool few_bits = is_fp8(options.type) && backend().name() == "cuda";
    const double gate = std::max(few_bits ? 1e-3 : 0.0, gate_r(options.c_type, k));
    EXPECT_TRUE(close_normwise(c.values(), wanted, gate * backend().summation_slack()));
    EXPECT_TRUE(c.untouched_outside());
  }
};

const std::vector<Transposes> kTransposes{Transposes::nn, Transposes::nt, Transposes::tn,
                                          Transposes::tt};

TEST(Matmul, EveryOrderAndType) {
  uint64_t seed = 11;
  for (const Transposes transposes : kTransposes)
    for (const DType type : kFloats) {
      Trial{.m = 33,
            .n = 40,
            .k = 72,
            .options = {.transposes = transposes, .type = type, .c_type = type}}
          .check(seed += 5);
      Trial{.m = 130,
            .n = 24,
            .k = 40,
            .options = {.transposes = transposes, .type = type, .c_type = f32}}
          .check(seed += 5, 8);
      Trial{.m = 7,
            .n = 13,
            .k = 9,
            .options = {.transposes = transposes, .type = type, .c_type = type}}
          .check(seed += 5, 3);
    }
}

TEST(Matmul, Epilogues) {
  uint64_t seed = 301;
  for (const Epilogue epilogue : {Epilogue::none, Epilogue::gelu_tanh, Epilogue::gelu_erf,
                                  Epilogue::silu, Epilogue::relu, Epilogue::relu_squared})
    for (const bool bias : {false, true})
      Trial{.m = 20,
            .n = 40,
            .k = 24,
            .options = {.transposes = Transposes::nt,
                        .type = bf16,
                        .c_type = f32,
                        .has_bias = bias,
                        .bias_type = bias ? bf16 : f32,
                        .epilogue = epilogue},
            .alpha = 0.25}
          .check(seed += 5);
}

// Batches of consecutive or row-interleaved matrices, with whole and partial tiles.
TEST(Matmul, Batches) {
  uint64_t seed = 351;
  const std::vector<std::array<int64_t, 3>> shapes{{70, 40, 72}, {16, 24, 136}, {7, 13, 9}};
  const std::vector<bool> flags{false, true};
  for (const auto& [transposes, type, side_by_side, shape] :
       combinations(kTransposes, kFloats, flags, shapes)) {
    const auto& [m, n, k] = shape;
    constexpr int64_t kBatch = 3;
    MatmulOptions options{
        .transposes = transposes, .type = type, .c_type = f32, .has_bias = true, .adds = true};
    options.batch = kBatch, options.cols = n, options.width = options.transposed_a() ? m : k;
    SCOPED_TRACE(kernels::meta_text(options) + (side_by_side ? " side by side" : ""));
    const bool ta = options.transposed_a(), tb = options.transposed_b();
    // Matrices [batch, rows, cols]; if `side_by_side`, in memory [rows, batch, cols].
    const auto matrices = [&](DType of, int64_t rows, int64_t cols, uint64_t salt) {
      Tensor made = side_by_side ? Tensor(of, {kBatch, rows, cols}, {cols, kBatch * cols, 1})
                                 : Tensor(of, {kBatch, rows, cols});
      return made.fill(Random(seed + salt).normals(kBatch * rows * cols));
    };
    const Tensor a = matrices(type, ta ? k : m, ta ? m : k, 1),
                 b = matrices(type, tb ? n : k, tb ? k : n, 2), c = matrices(f32, m, n, 3),
                 bias = random_vector(f32, n, seed + 4);
    const Values all_a = a.values(), all_b = b.values(), all_c = c.values();
    const auto one = [](const Values& all, int64_t i, int64_t size) {
      return Values(all.begin() + i * size, all.begin() + (i + 1) * size);
    };
    Values wanted;
    for (int64_t i = 0; i < kBatch; ++i)
      for (const double value : reference::matmul_reference(
               {.m = m,
              .n = n,
              .k = k,
              .transposed_a = ta,
              .transposed_b = tb,
              .alpha = 1,
              .beta = 0.5},
               one(all_a, i, m * k), one(all_b, i, k * n), bias.values(), one(all_c, i, m * n)))
        wanted.push_back(value);
    Arguments arguments;
    arguments.tensor("a", a).tensor("b", b).tensor("bias", bias).tensor("c", c).number("beta", 0.5);
    backend().run(kernels::matmul(machine(), options), ta ? k : m, arguments);
    EXPECT_TRUE(close_normwise(c.values(), wanted, gate_r(f32, k) * backend().summation_slack()));
    EXPECT_TRUE(c.untouched_outside());
    seed += 7;
  }
}

// Both fp8 formats in the orders nt, nn and tn, with and without `two_level_accumulation`. Only nt
// uses wgmma and scales.
TEST(Matmul, Fp8) {
  uint64_t seed = 401;
  const std::vector<Transposes> all_transposes{Transposes::nt, Transposes::nn, Transposes::tn};
  const std::vector<DType> types{f8e4m3, f8e5m2};
  const std::vector<bool> flags{false, true};
  for (const auto& [transposes, type, other] : combinations(all_transposes, types, flags)) {
    const bool scaled = transposes == Transposes::nt;
    const MatmulOptions options{.transposes = transposes,
                                .type = type,
                                .mixed = other,
                                .scaled_rows = scaled,
                                .scaled_cols = scaled && other,
                                .two_level_accumulation = other && machine().is_gpu(),
                                .c_type = other ? f32 : bf16,
                                .has_bias = other};
    Trial{.m = 130, .n = 144, .k = 272, .options = options}.check(seed += 7);
    Trial{.m = 7, .n = 13, .k = 9, .options = options}.check(seed += 7, 3);
  }
}

TEST(Matmul, AccumulatesIntoC) {
  uint64_t seed = 501;
  for (const Transposes transposes : kTransposes)
    for (const DType c_type : {f32, f16}) {
      MatmulOptions options{.transposes = transposes,
                            .type = f16,
                            .c_type = c_type,
                            .has_bias = transposes == Transposes::nt};
      Trial{.m = 40, .n = 48, .k = 40, .options = options, .beta = 1}.check(seed += 5);
      Trial{.m = 19, .n = 21, .k = 40, .options = options, .alpha = -2, .beta = 0.5}.check(
          seed += 5, 5);
    }
}

// Reductions in memory give the same bits as a load of c, an addition and a store. Cases: tiles
// that exceed c, rows with padding, one tile per program and persistent programs, stores by threads
// and by TMA copies.
TEST(Matmul, AddsInMemory) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no reductions in memory";
  uint64_t seed = 551;
  for (const Transposes transposes : kTransposes)
    for (const auto& [persistent, stores] :
         {std::pair("false", "false"), std::pair("true", "false"), std::pair("false", "true"),
          std::pair("true", "true")}) {
      const MatmulOptions options{.transposes = transposes,
                                  .type = bf16,
                                  .c_type = f32,
                                  .has_bias = transposes == Transposes::nt};
      const MetaValues config{{"adds_in_memory", "true"},
                              {"persistent", persistent},
                              {"tensor_stores", stores},
                              {"splits", "1"}};
      Trial{.m = 136, .n = 72, .k = 72, .options = options, .beta = 1, .config = config, .sms = 2}
          .check(seed += 5);
      Trial{.m = 19, .n = 21, .k = 40, .options = options, .alpha = -2, .beta = 1, .config = config}
          .check(seed += 5, 5);
    }
  const MatmulOptions rounded{.type = bf16, .c_type = bf16, .adds = true, .unit_beta = true};
  MatmulConfig config = kernels::matmul_kernel.heuristic(machine(), rounded);
  config.adds_in_memory = true;
  EXPECT_NE(kernels::matmul_kernel.valid(machine(), rounded, config).find("adds_in_memory=false"),
            std::string::npos);
}

// Includes programs without k-steps, and tiles that exceed c.
TEST(Matmul, SplitKSteps) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no splits";
  uint64_t seed = 701;
  for (const Transposes transposes : kTransposes)
    for (const char* splits : {"2", "8"}) {
      const MatmulOptions options{
          .transposes = transposes, .type = bf16, .c_type = bf16, .has_bias = true};
      Trial{.m = 50,
            .n = 40,
            .k = 104,
            .options = options,
            .alpha = 3,
            .beta = 1,
            .config = {{"splits", splits}, {"tile_k", "16"}, {"persistent", "false"}}}
          .check(seed += 5);
    }
}

// The last wave is split, empty, or computed whole because it has too many tiles. K-step ranges end
// inside a tile or at its end, and some programs get no range.
TEST(Matmul, SplitWaves) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no persistent programs";
  uint64_t seed = 751;
  struct Shape {
    int m, n, k, sms;
    const char *tile_n = "64", *tile_m = "64", *num_ctas = "1";
  };
  for (const Transposes transposes : kTransposes)
    for (const auto& [m, n, k, sms, tile_n, tile_m, num_ctas] :
         std::initializer_list<Shape>{{200, 100, 320, 3},
                                      {200, 100, 40, 3},
                                      {136, 72, 320, 5},
                                      {64, 64, 320, 8},
                                      {200, 100, 160, 4},
                                      {200, 100, 160, 5},
                                      {200, 200, 320, 3, "96"},
                                      {136, 328, 200, 4, "160"},
                                      {136, 328, 200, 4, "224"},
                                      {200, 72, 320, 6, "64", "128", "2"}}) {
      if (std::stoi(num_ctas) > machine().max_cluster) continue;
      const MatmulOptions options{
          .transposes = transposes, .type = bf16, .c_type = bf16, .has_bias = true};
      Trial{.m = m,
            .n = n,
            .k = k,
            .options = options,
            .alpha = 3,
            .beta = m == 200 ? 0.5 : 0.0,
            .config = {{"tile_m", tile_m},
                       {"tile_n", tile_n},
                       {"tile_k", "16"},
                       {"stages", "3"},
                       {"num_warps", "4"},
                       {"num_ctas", num_ctas},
                       {"tensor_stores", "false"},
                       {"splits", "1"},
                       {"persistent", "true"},
                       {"least_saved", "4"}},
            .sms = sms}
          .check(seed += 5);
    }
}

TEST(Matmul, SplitWavesWithoutRowsLaunchNothing) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no persistent programs";
  const MatmulOptions options{.transposes = Transposes::nt, .type = bf16, .c_type = bf16};
  const MetaValues config{
      {"splits", "1"}, {"num_ctas", "1"}, {"persistent", "true"}, {"least_saved", "4"}};
  const kernels::Operation op = kernels::matmul_kernel.build(
      machine(), options, kernels::matmul_kernel.chosen(machine(), options, config));
  ASSERT_EQ(op.steps.size(), 2u);
  for (const kernels::Step& step : op.steps) EXPECT_EQ(step.launch.grid[0].at(0), 0);
  EXPECT_EQ(op.steps[0].launch.grid[0].at(1), std::max(machine().sms, 1));
}

// Persistent programs store tiles with unaligned rows in several segments.
TEST(Matmul, StoresUnalignedRowsInSegments) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no persistent programs";
  for (const int n : {261, 262})
    Trial{.m = 150,
          .n = n,
          .k = 72,
          .options = {.transposes = Transposes::nt, .type = bf16, .c_type = bf16},
          .config = {{"tile_m", "128"},
                     {"tile_n", "256"},
                     {"tile_k", "64"},
                     {"num_warps", "8"},
                     {"splits", "1"},
                     {"persistent", "true"}},
          .sms = 2}
        .check(871 + static_cast<uint64_t>(n));
}

// Cases: tiles for warp groups and for single warps, and more stages than k-steps.
TEST(Matmul, Schedules) {
  uint64_t seed = 901;
  const std::vector<MetaValues> configs =
      machine().is_gpu()
          ? std::vector<MetaValues>{{{"tile_m", "64"},
                                     {"tile_n", "64"},
                                     {"num_warps", "4"},
                                     {"stages", "3"}},
                                    {{"tile_m", "128"},
                                     {"tile_n", "32"},
                                     {"tile_k", "32"},
                                     {"stages", "5"}},
                                    {{"tile_m", "128"},
                                     {"tile_n", "64"},
                                     {"stages", "3"},
                                     {"tensor_copies", "false"}},
                                    {{"tile_m", "16"},
                                     {"tile_n", "64"},
                                     {"num_warps", "2"},
                                     {"stages", "1"},
                                     {"tensor_copies", "false"}},
                                    {{"tile_m", "32"},
                                     {"tile_n", "32"},
                                     {"num_warps", "4"},
                                     {"group", "1"}}}
          : std::vector<MetaValues>{{{"tile_m", "16"}, {"tile_n", "32"}, {"tile_k", "16"}},
                                    {{"tile_m", "64"}, {"tile_n", "128"}, {"tile_k", "64"}},
                                    {{"tile_m", "32"}, {"tile_n", "96"}, {"tile_k", "32"}}};
  for (const Transposes transposes : kTransposes)
    for (const MetaValues& config : configs)
      Trial{.m = 72,
            .n = 88,
            .k = 136,
            .options = {.transposes = transposes, .type = bf16, .c_type = bf16},
            .config = config}
          .check(seed += 5);
}

// Persistent programs on GPUs with fewer SMs than tiles. Cases: all epilogue terms, 16-bit and f32
// results, no k-steps.
TEST(Matmul, PersistentPrograms) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no persistent programs";
  uint64_t seed = 1101;
  const MetaValues wide{{"tile_m", "64"},  {"tile_n", "256"}, {"num_warps", "4"},
                        {"num_ctas", "1"}, {"stages", "3"},   {"persistent", "true"}};
  const MetaValues narrow{{"tile_m", "32"},      {"tile_n", "32"},  {"tile_k", "16"},
                          {"num_warps", "2"},    {"num_ctas", "1"}, {"stages", "4"},
                          {"persistent", "true"}};
  const std::vector<MetaValues> configs{wide, narrow};
  const std::vector<DType> c_types{bf16, f32};
  for (const auto& [transposes, config, c_type] : combinations(kTransposes, configs, c_types)) {
    MatmulOptions options{.transposes = transposes, .type = bf16, .c_type = c_type};
    Trial{.m = 136, .n = 264, .k = 72, .options = options, .config = config, .sms = 2}.check(seed +=
                                                                                             5);
    options.has_bias = true, options.epilogue = Epilogue::silu;
    Trial{.m = 100,
          .n = 72,
          .k = 40,
          .options = options,
          .alpha = 2,
          .beta = 3,
          .config = config,
          .sms = 1}
        .check(seed += 5);
    const int64_t none = options.transposed_a() ? 0 : 8;  // if a is [m, k], k is compiled in
    Trial{.m = 70, .n = 24, .k = none, .options = options, .beta = 2, .config = config, .sms = 1}
        .check(seed += 5);
  }
}

const MetaValues kTensorCopies{{"tile_m", "64"},  {"tile_n", "128"}, {"num_warps", "4"},
                               {"num_ctas", "1"}, {"stages", "3"},   {"tensor_copies", "true"}};

// Returns a configuration in which each CTA computes a part of a tile's rows, and loads a part of B
// for all CTAs of the cluster.
MetaValues cluster_config(int ctas, bool persistent) {
  MetaValues config = kTensorCopies;
  config["num_ctas"] = std::to_string(ctas);
  config["tile_m"] = std::to_string(64 * ctas);
  config["persistent"] = persistent ? "true" : "false";
  config["least_saved"] = "4";
  return config;
}

bool shares_tiles() {
  return machine().max_cluster >= 4 && kernels::has_fast_products(machine(), bf16);
}

TEST(Matmul, Clusters) {
  if (!shares_tiles()) GTEST_SKIP() << "no clusters, or no wgmma";
  uint64_t seed = 1801;
  const std::vector<int> sizes{2, 4};
  const std::vector<bool> flags{false, true};
  for (const auto& [transposes, ctas, persistent] : combinations(kTransposes, sizes, flags)) {
    const MetaValues config = cluster_config(ctas, persistent);
    MatmulOptions options{.transposes = transposes, .type = persistent ? f16 : bf16, .c_type = f32};
    Trial{.m = 72 * ctas, .n = 200, .k = 264, .options = options, .config = config, .sms = 4}.check(
        seed += 5, 8);
    options.has_bias = true, options.c_type = options.type, options.epilogue = Epilogue::silu;
    Trial{.m = 136, .n = 264, .k = 328, .options = options, .config = config, .sms = 4}.check(
        seed += 5);
    Trial{.m = 72,
          .n = 72,
          .k = 40,
          .options = options,
          .alpha = 2,
          .beta = 3,
          .config = config,
          .sms = 1}
        .check(seed += 5);
    if (!persistent) continue;
    MetaValues stores = config;
    stores["tensor_stores"] = "true", stores["splits"] = "1";
    MatmulOptions adds{.transposes = transposes, .type = bf16, .c_type = f32, .unit_beta = true};
    for (const MetaValues& each : {config, stores})
      Trial{.m = 136, .n = 200, .k = 264, .options = adds, .beta = 1, .config = each, .sms = 4}
          .check(seed += 5);
    // Rows of c that are whole vectors, and ragged rows.
    for (const int n : {200, 75})
      Trial{.m = 72 * ctas,
            .n = n,
            .k = 72,
            .options = options,
            .alpha = 2,
            .config = stores,
            .sms = 4}
          .check(seed += 5, n == 200 ? 8 : 0);
  }
}

// An old driver on a Hopper GPU may lack PTX support for clusters.
TEST(Matmul, RefusesClustersWithoutSupport) {
  const MatmulOptions odd{.transposes = Transposes::nt, .cols = 4024, .width = 4088};
  const kernels::Machine with = kernels::gpu("sm_90a", 132, 86),
                         without = kernels::gpu("sm_90a", 132, 80);
  MatmulConfig config = kernels::matmul_kernel.heuristic(with, odd);
  EXPECT_EQ(config.num_ctas, 2);
  EXPECT_EQ(kernels::matmul_kernel.valid(with, odd, config), "");
  EXPECT_NE(kernels::matmul_kernel.valid(without, odd, config).find("use num_ctas=1"),
            std::string::npos);
  config = kernels::matmul_kernel.heuristic(without, odd);
  EXPECT_EQ(config.num_ctas, 1);
  EXPECT_EQ(kernels::matmul_kernel.valid(without, odd, config), "");
}

// For few rows, tiles are so small that most SMs get one. The last of these schedules has tiles as
// tall as the schedule for many rows; fused lm_heads rely on this.
TEST(Matmul, SchedulesOfFewRows) {
  for (const int sms : {14, 26, 66, 78, 114, 132, 133, 142})
    for (const int64_t cols :
         {8, 128, 136, 512, 1280, 1600, 4096, 4160, 4992, 5120, 7232, 10880, 128256}) {
      const kernels::Machine gpu = kernels::gpu("sm_90a", sms, 86);
      MatmulOptions options{.transposes = Transposes::nn, .cols = cols, .width = 4096};
      const std::vector<int64_t> few = kernels::few_rows(gpu, options);
      EXPECT_TRUE(std::ranges::is_sorted(few, std::ranges::less_equal()))
          << sms << " SMs, " << cols;
      for (const int64_t most : few) {
        options.most_rows = most;
        const MatmulConfig config = kernels::matmul_kernel.heuristic(gpu, options);
        EXPECT_EQ(config.tile_m, most == few.back() && most > 64 ? 128 : 64)
            << sms << " SMs, " << cols << ", " << most;
        if (most != few.back() || most == 64) {
          EXPECT_LE(kernels::matmul_tiles(config, most, cols) * config.splits, sms);
        }
      }
    }
  const kernels::Machine gpu = kernels::gpu("sm_90a", 132, 86);
  MatmulOptions options{.transposes = Transposes::nt, .cols = 4096, .width = 4096};
  EXPECT_EQ(kernels::few_rows(gpu, options), (std::vector<int64_t>{64, 128, 256, 512}));
  options.cols = 3000;
  EXPECT_EQ(kernels::few_rows(gpu, options), (std::vector<int64_t>{64, 128, 320, 640}));
  options.most_rows = 128;
  EXPECT_EQ(kernels::matmul_kernel.heuristic(gpu, options).splits, 2);
  EXPECT_EQ(kernels::matmul_kernel.heuristic(gpu, options).tile_k, 128);
  options.width = 4093;
  EXPECT_EQ(kernels::matmul_kernel.heuristic(gpu, options).tile_k, 64)
      << "rows that are no vectors";
}

// Tests the schedule for unaligned rows.
TEST(Matmul, UnalignedRows) {
  uint64_t seed = 1901;
  for (const Transposes transposes : kTransposes)
    for (const DType type : {bf16, f16}) {
      MatmulOptions options{
          .transposes = transposes, .type = type, .c_type = f32, .unaligned = true};
      Trial{.m = 137, .n = 201, .k = 77, .options = options}.check(seed += 5, 3);
      options.has_bias = true, options.c_type = type, options.epilogue = Epilogue::relu;
      Trial{.m = 130, .n = 35, .k = 65, .options = options, .alpha = 2, .beta = 3}.check(seed += 5);
    }
}

// Cases: partial tiles in rows of 128 and 64 bytes, more stages than k-steps, persistent programs.
TEST(Matmul, TmaCopies) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no TMA copies";
  uint64_t seed = 1301;
  const MetaValues narrow{{"tile_m", "128"}, {"tile_n", "64"}, {"tile_k", "32"},
                          {"num_ctas", "1"}, {"stages", "5"},  {"tensor_copies", "true"}};
  for (const Transposes transposes : kTransposes)
    for (MetaValues config : {kTensorCopies, narrow})
      for (const char* persistent : {"false", "true"}) {
        config["persistent"] = persistent;
        MatmulOptions options{
            .transposes = transposes, .type = persistent[0] == 't' ? f16 : bf16, .c_type = f32};
        Trial{.m = 136, .n = 200, .k = 264, .options = options, .config = config, .sms = 2}.check(
            seed += 5, 8);
        options.has_bias = true, options.c_type = options.type, options.epilogue = Epilogue::silu;
        Trial{.m = 72,
              .n = 72,
              .k = 40,
              .options = options,
              .alpha = 2,
              .beta = 3,
              .config = config,
              .sms = 1}
            .check(seed += 5);
      }
}

// Tiles from tile_choice.h. Each warp group executes two wgmmas of 64 rows.
TEST(Matmul, TallTiles) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no TMA copies";
  const MetaValues tall{{"tile_m", "256"},        {"tile_n", "128"}, {"tile_k", "64"},
                        {"num_warps", "8"},       {"num_ctas", "1"}, {"stages", "4"},
                        {"persistent", "true"},   {"group", "8"},    {"least_saved", "0"},
                        {"tensor_copies", "true"}};
  uint64_t seed = 2301;
  for (const Transposes transposes : kTransposes) {
    MatmulOptions options{.transposes = transposes, .type = bf16, .c_type = bf16};
    Trial{.m = 300, .n = 204, .k = 136, .options = options, .config = tall, .sms = 2}.check(
        seed += 5, 8);
    options.has_bias = true, options.c_type = f32, options.epilogue = Epilogue::gelu_tanh;
    Trial{.m = 264, .n = 136, .k = 72, .options = options, .config = tall, .sms = 1}.check(
        seed += 5, 8);
  }
}

// Cases: whole and partial tiles, one or several column segments, rows that are whole vectors, and
// ragged rows.
TEST(Matmul, TmaStores) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no TMA copies";
  uint64_t seed = 1501;
  MetaValues narrow = kTensorCopies, wide = kTensorCopies;
  narrow["persistent"] = narrow["tensor_stores"] = "true";
  wide = narrow, wide["tile_m"] = "128", wide["tile_n"] = "256", wide["num_warps"] = "8";
  MetaValues without = narrow, once = wide;
  without["tensor_copies"] = "false";
  once["persistent"] = "false";
  for (const MetaValues& config : {narrow, wide, without, once})
    for (const DType c_type : {bf16, f32}) {
      MatmulOptions options{.transposes = Transposes::nt, .type = bf16, .c_type = c_type};
      Trial{.m = 256, .n = 512, .k = 72, .options = options, .config = config, .sms = 2}.check(
          seed += 5);
      Trial{.m = 200, .n = 328, .k = 136, .options = options, .config = config, .sms = 2}.check(
          seed += 5, 8);
      options.has_bias = true, options.epilogue = Epilogue::silu,
      options.transposes = Transposes::tn;
      Trial{.m = 72, .n = 75, .k = 40, .options = options, .alpha = 2, .config = config, .sms = 1}
          .check(seed += 5);
    }
  MatmulConfig config;
  config.tensor_stores = true;
  const MatmulOptions added{.type = bf16, .c_type = f32, .adds = true};
  EXPECT_NE(kernels::matmul_kernel.valid(machine(), added, config).find("tensor_stores=false"),
            std::string::npos);
}

// Cases: views that TMA descriptors can describe, views at unaligned addresses, and views without
// elements.
TEST(Matmul, TmaDescriptorsOfViews) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no TMA copies";
  uint64_t seed = 1701;
  for (const Transposes transposes : {Transposes::nt, Transposes::tn}) {
    const MatmulOptions options{.transposes = transposes, .type = bf16, .c_type = f32};
    Trial{.m = 72, .n = 136, .k = 136, .options = options, .config = kTensorCopies}.check(seed += 5,
                                                                                          8);
    Trial{.m = 72, .n = 75, .k = 43, .options = options, .config = kTensorCopies}.check(seed += 5,
                                                                                        3);
    const int64_t none = options.transposed_a() ? 0 : 8;  // if a is [m, k], k is compiled in
    Trial{.m = 72, .n = 24, .k = none, .options = options, .beta = 2, .config = kTensorCopies}
        .check(seed += 5);
    if (!shares_tiles()) continue;
    MetaValues cluster = cluster_config(2, true);
    cluster["splits"] = "1";
    Trial{.m = 200, .n = 75, .k = 43, .options = options, .config = cluster}.check(seed += 5, 3);
    Trial{.m = 72, .n = 24, .k = none, .options = options, .beta = 2, .config = cluster}.check(
        seed += 5);
  }
}

// With K = 0, the epilogue is applied to an accumulator of 0.
TEST(Matmul, EmptyK) {
  Trial trial{.m = 9,
              .n = 17,
              .k = 0,
              .options = {.transposes = Transposes::tn,
                          .type = bf16,
                          .c_type = f32,
                          .has_bias = true,
                          .epilogue = Epilogue::silu},
              .beta = 2};
  trial.check(1001);
  if (!machine().is_gpu()) return;
  trial.config = {{"splits", "1"}, {"persistent", "true"}, {"least_saved", "4"}};
  trial.sms = 4;
  trial.check(1006);
}

}  // namespace
}  // namespace ligerdsl::test::matmul_test
