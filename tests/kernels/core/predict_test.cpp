// Compares predictions of simple work with formulas. tests/bench/predict_test.py compares
// predictions with measured times.
#include "kernels/core/predict.h"

#include <gtest/gtest.h>

namespace ligerdsl::test::predict_test {
namespace {

using analysis::Work;
using kernels::Bound;
using kernels::MachineRates;
using kernels::Prediction;

const kernels::Machine kGpu = kernels::gpu("sm_90a", 132, 90);
const MachineRates& kRates = kernels::kH200;

program::CompileOptions options_with(int num_warps) {
  program::CompileOptions options;
  options.num_warps = num_warps;
  return options;
}

// Returns the work of programs that each load and store `bytes`.
Work copy_work(int64_t programs, double bytes) {
  Work work;
  work.programs = programs;
  const double all = bytes * static_cast<double>(programs);
  work.traffic = {{.stored = all, .element_bytes = 2, .size = all},
                  {.loaded = all, .element_bytes = 2, .size = all}};
  work.largest = {.bytes = 2 * bytes, .lanes = bytes / 4, .waits = 1};
  work.total = {.bytes = 2 * all, .lanes = all / 4, .waits = static_cast<double>(programs)};
  work.live_bytes = bytes;
  return work;
}

program::CompileOptions aligned(program::CompileOptions options, int64_t align) {
  options.facts.assign(2, {.pointer_align = align, .dims = {}, .strides = {{.exact = 1}}});
  return options;
}

TEST(Predict, LargeCopyIsBoundByMemory) {
  constexpr double kBytes = 4096;
  const Prediction step =
      kernels::predict(copy_work(65536, kBytes), aligned(options_with(8), 16), kGpu, kRates);
  EXPECT_EQ(step.bound, Bound::memory);
  const double memory_us = 65536 * 2 * kBytes / kRates.memory_gbps / 1e3;
  EXPECT_NEAR(step.memory_us, memory_us, 1e-9);
  EXPECT_NEAR(step.us, memory_us + kRates.ramp_us, 0.01 * step.us);
}

TEST(Predict, TimeGrowsWithBytes) {
  double before = 0;
  for (int64_t programs = 1; programs <= 1 << 20; programs *= 4) {
    const double us =
        kernels::predict(copy_work(programs, 4096), aligned(options_with(8), 16), kGpu, kRates).us;
    EXPECT_GE(us, before);
    before = us;
  }
}

// Two-byte accesses need eight times the instructions of 16-byte ones.
TEST(Predict, NarrowAccessesTakeLonger) {
  const Work work = copy_work(65536, 4096);
  const auto of = [&](int64_t align) {
    return kernels::predict(work, aligned(options_with(8), align), kGpu, kRates);
  };
  EXPECT_GT(of(1).sm_us, 3 * of(16).sm_us);
  EXPECT_GE(of(1).us, of(16).us);
}

TEST(Predict, ManyShortProgramsAreBoundByTheirStarts) {
  const Prediction step =
      kernels::predict(copy_work(1 << 20, 64), aligned(options_with(1), 16), kGpu, kRates);
  EXPECT_EQ(step.bound, Bound::starts);
  EXPECT_NEAR(step.us, (1 << 20) * 1.35e-3, 1);
}

// Returns the work of a matmul with K = 4096, one tile of 128 x 256 per program. A matmul of 4096^3
// has 512 programs: four waves on 132 SMs.
Work matmul_work(int64_t programs) {
  constexpr double kK = 4096, kTile = 128 * 256;
  Work work;
  work.programs = programs;
  work.largest = {.dots = kTile * kK, .iterations = kK / 64, .waits = kK / 64 / 4};
  work.total = work.largest;
  work.total.dots *= static_cast<double>(programs);
  work.dots = {{.dtype = bf16,
                .m = 128,
                .n = 256,
                .k = 64,
                .in_loop = true,
                .loads_a = true,
                .multiply_adds = work.total.dots}};
  work.ring_bytes = 4 * (128 + 256) * 64 * 2;
  work.live_bytes = kTile * 4;
  work.stages = 4;
  return work;
}

TEST(Predict, MatmulIsBoundByTensorCores) {
  const Prediction step = kernels::predict(matmul_work(512), options_with(8), kGpu, kRates);
  EXPECT_EQ(step.bound, Bound::sm);
  EXPECT_EQ(step.ctas_per_sm, 1);
  const double tile_us =
      128.0 * 256 * 4096 / kRates.tensor * (1 + kRates.tensor_heat) / kRates.clock_ghz / 1e3;
  EXPECT_NEAR(step.us, 4 * tile_us, 0.02 * step.us);
}

// If a grid has one program more than fits in a wave, a second wave is needed.
TEST(Predict, PartlyFilledWaveCounts) {
  const auto us = [](int64_t programs) {
    return kernels::predict(matmul_work(programs), options_with(8), kGpu, kRates).us;
  };
  EXPECT_NEAR(us(133) / us(132), 2, 0.01);
  EXPECT_NEAR(us(264) / us(133), 1, 0.01);
}

TEST(Predict, GivenOccupancyReplacesTheEstimate) {
  EXPECT_EQ(kernels::predict(copy_work(1000, 4096), options_with(8), kGpu, kRates, 3).ctas_per_sm,
            3);
}

TEST(Predict, LoopsOfUnknownLengthAreReported) {
  Work work = copy_work(100, 4096);
  EXPECT_FALSE(kernels::predict(work, options_with(8), kGpu, kRates).is_assumed);
  work.unknown.loops = 100;
  EXPECT_TRUE(kernels::predict(work, options_with(8), kGpu, kRates).is_assumed);
}

TEST(Predict, LibraryMatmul) {
  const Prediction large = kernels::predict_matmul(4096, 128256, 4096, kGpu, kRates);
  const double flop = 2.0 * 4096 * 128256 * 4096;
  EXPECT_GT(flop / large.us / 1e6, 600);  // Tflop/s
  EXPECT_LT(flop / large.us / 1e6, 850);
}

TEST(Predict, AddsLaunchTimes) {
  const Prediction step{.us = 10};
  const std::vector<Prediction> steps = {step, step, step};
  EXPECT_DOUBLE_EQ(kernels::call_us(steps, kRates), 30 + kRates.launch_us + 2 * kRates.follow_us);
  EXPECT_EQ(kernels::call_us({}, kRates), 0);
}

TEST(Predict, RatesOfDevices) {
  EXPECT_EQ(kernels::find_machine_rates(kGpu, "NVIDIA H100 80GB HBM3"), &kernels::kH100);
  EXPECT_EQ(kernels::find_machine_rates(kGpu, "NVIDIA H200"), &kernels::kH200);
  EXPECT_EQ(kernels::find_machine_rates(kGpu, ""), &kernels::kH200);
  EXPECT_EQ(kernels::find_machine_rates(kernels::gpu("sm_80", 0, 90), ""), nullptr);
  EXPECT_EQ(kernels::find_machine_rates(kernels::Machine{}, ""), nullptr);
}

}  // namespace
}  // namespace ligerdsl::test::predict_test
