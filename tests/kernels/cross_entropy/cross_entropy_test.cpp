// Tests widths, numbers of rows, and the schedules that run them.
#include "tests/kernels/cross_entropy/cross_entropy_trial.h"

namespace ligerdsl::test::cross_entropy_test {
namespace {

using kernels::CrossEntropyOptions;
using Trial = CrossEntropyTrial;

TEST(CrossEntropy, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [v, type] :
       values_and_types(affordable({1, 3, 41, 256, 1023, 4097, 32000, 128256}, 3), kFloats))
    Trial(type, 3, v, {}, 1.0, gap_of(number++)).check();
}

// Rows fit in a GPU's shared memory entirely or in part, in place and out of place.
TEST(CrossEntropy, ResidentRows) {
  for (int64_t v : affordable({40960, 128256}, 1)) {
    for (DType type : {f32, bf16}) Trial(type, 1, v, {}, 1.0, 8).check();
  }
}

// Only a part of each row fits in a GPU's shared memory. Ignores no row, then one row after the
// other. Runs out of place and in place.
TEST(CrossEntropy, LongRowsAndIgnoredRows) {
  const int64_t ignored = CrossEntropyCase{}.ignore_index;
  for (auto [n, v] : {std::pair<int64_t, int64_t>{4, 26624}, {3, 38912}, {4, 32004}}) {
    if (n * v > backend().budget()) continue;
    for (int skipped = -1; skipped < n; ++skipped) {
      Trial run(f32, n, v, {.smoothing = skipped == 1 ? exact(0.1) : 0.0});
      for (int64_t row = 0; row < n; ++row)
        run.labels[row] = row == skipped ? ignored : (row * 9973 + v - 1) % v;
      run.check();
      Trial over(f32, n, v, run.c);
      over.labels = run.labels;
      over.run(over.logits);
      EXPECT_TRUE(over.logits.same_bits(run.d_logits)) << run.describe();
    }
  }
}

// CTAs of a cluster share rows. Cases: all options that depend on a block's lanes, an ignored row,
// in place.
TEST(CrossEntropy, RowsSharedByCtas) {
  const int64_t v = 51208, n = 3;
  std::vector<CrossEntropyCase> cases(5);
  cases[1].smoothing = exact(0.1);
  cases[1].weight = class_weights(v);
  cases[2].softcap = 5.0;
  cases[2].lse_square = exact(0.01);
  cases[3].reduction = Reduce::none;
  cases[4].temperature = 0.75;
  cases[4].d_entropy = {0.5, -2, 1};
  for (const CrossEntropyCase& c : cases) {
    Trial run(f32, n, v, c, 1.0, 8);
    run.labels[1] = c.ignore_index;
    run.check();
    Trial over(f32, n, v, c, 1.0, 8);
    over.labels = run.labels;
    over.run(over.logits);
    EXPECT_TRUE(over.logits.same_bits(run.d_logits)) << run.describe();
  }
  Trial(bf16, n, 2 * v + 8, {}, 1.0, 8).check();
  Trial(bf16, n, 2 * v + 8, {.softcap = 30}, 10.0, 8).check();
}

// CTAs of a cluster share rows that begin at any element.
TEST(CrossEntropy, UnalignedRowsSharedByCtas) {
  const int64_t n = 3;
  // The last rows are too long for the shared memory of a cluster.
  for (auto [type, v] : {std::pair<DType, int64_t>{f32, 58369}, {bf16, 116739}, {bf16, 330003}}) {
    std::vector<CrossEntropyCase> cases(3);
    cases[1].smoothing = exact(0.1);
    cases[2].softcap = 5.0;
    cases[2].reduction = Reduce::none;
    for (const CrossEntropyCase& c : cases) {
      if (type == bf16 && c.smoothing > 0) continue;
      if (v > 300000 && c.softcap > 0) continue;
      Trial run(type, n, v, c, 1.0, 3);
      if (machine().is_gpu() && machine().max_cluster >= 8) {
        EXPECT_EQ(kernels::cross_entropy_kernel.heuristic(machine(), run.o).keep,
                  kernels::Keep::cluster);
      }
      run.labels = {0, c.ignore_index, v - 1};
      run.check();
      Trial over(type, n, v, c, 1.0, 3);
      over.labels = run.labels;
      over.run(over.logits);
      EXPECT_TRUE(over.logits.same_bits(run.d_logits)) << run.describe();
      EXPECT_TRUE(over.logits.untouched_outside());
    }
  }
}

// For rows that a CTA reads twice, predicted times choose 4, 8 or 16 warps, depending on the width.
TEST(CrossEntropy, PredictedSchedules) {
  const kernels::Machine h200 = kernels::gpu("sm_90a", 132, 80);
  const auto warps = [&](int64_t v) {
    const CrossEntropyOptions o{.classes = v, .type = bf16, .with_gradient = true};
    const kernels::CrossEntropyConfig config = kernels::cross_entropy_kernel.heuristic(h200, o);
    EXPECT_EQ(kernels::cross_entropy_kernel.valid(h200, o, config), "") << v;
    return config.num_warps;
  };
  EXPECT_EQ(warps(14177), 4);
  EXPECT_EQ(warps(32000), 8);
  EXPECT_EQ(warps(65536), 16);
}

TEST(CrossEntropy, AnyNumberOfRows) {
  for_any_number_of_rows([](DType type, int64_t n, int64_t v) {
    Trial(type, n, v, {.reduction = Reduce::none}).check();
  });
}

TEST(CrossEntropy, ManyRows) {
  Trial(f32, std::min<int64_t>(2500, backend().budget() / 64), 41).check();
}

// With more rows than kRowsOfOneProgram, several programs store partial sums.
TEST(CrossEntropy, SumsOfManyRows) {
  const int64_t n = kernels::kRowsOfOneProgram + 1;
  if (n * 3 > backend().budget()) GTEST_SKIP() << "too many rows for this back end";
  for (Reduce reduction : {Reduce::mean, Reduce::sum}) {
    Trial run(f32, n, 3, {.reduction = reduction});
    run.check();
    run.o.with_gradient = false;  // the last launch counts rows and divides
    run.make_outputs();
    run.run();
    const auto expected = cross_entropy_reference(run.logits.values(), run.labels, run.c);
    EXPECT_TRUE(close_loss(run.loss.values(), expected.loss));
    EXPECT_TRUE(close_loss(run.accuracy.values(), expected.accuracy));
  }
}

// Programs of several rows give the same bits as one program per row.
TEST(CrossEntropy, SeveralRowsPerProgram) {
  if (!machine().is_gpu()) GTEST_SKIP() << "programs take several rows on GPUs";
  kernels::Machine few = machine();
  few.sms = 1;
  const int64_t n = 75;  // some of 32 programs have three rows, some two
  for (DType type : {bf16, f32}) {
    for (int64_t v : affordable({1, 33, 257, 1000, 1001}, n)) {
      Trial each(type, n, v, {.smoothing = v == 33 ? exact(0.1) : 0.0, .reduction = Reduce::none},
                 1.0, gap_of(v));
      each.labels[40] = v;  // not a class
      Trial several = each;
      several.make_outputs(gap_of(v));
      kernels::CrossEntropyConfig config = kernels::one_row_per_tile(few, each.o);
      config.programs_per_sm = 0;
      each.run(config, few, each.d_logits);
      config.programs_per_sm = 32;
      several.run(config, few, several.d_logits);
      EXPECT_TRUE(several.d_logits.same_bits(each.d_logits)) << each.describe();
      EXPECT_TRUE(several.loss.same_bits(each.loss)) << each.describe();
      EXPECT_TRUE(several.predictions.same_bits(each.predictions)) << each.describe();
      EXPECT_EQ(kernels::kErrorBase - several.error.get_integer(0), 40);
    }
  }
}

// Runs a trial with a GPU's tiles of several rows on any back end.
void run_tiles_of_rows(Trial& run, const Tensor& gradient) {
  kernels::CrossEntropyConfig config =
      kernels::cross_entropy_kernel.heuristic(kernels::gpu("sm_90a", 132, 80), run.o);
  if (config.rows == 1) config = {kernels::RowConfig{.rows = 4, .num_warps = 4}};  // wide f32 rows
  ASSERT_EQ(kernels::cross_entropy_kernel.valid(machine(), run.o, config), "");
  run.run(config, machine(), gradient);
}

// Checks all results and guards with tiles of several rows. A second run and a run in place give
// the same bits.
void check_tiles_of_rows(Trial run) {
  SCOPED_TRACE(run.describe());
  run_tiles_of_rows(run, run.d_logits);
  const auto expected = cross_entropy_reference(run.logits.values(), run.labels, run.c);
  EXPECT_TRUE(close_loss(run.loss.values(), expected.loss)) << "loss";
  EXPECT_TRUE(close_loss(run.z_loss.values(), expected.z_loss)) << "z_loss";
  EXPECT_TRUE(close_loss(run.accuracy.values(), expected.accuracy)) << "accuracy";
  EXPECT_TRUE(close_loss(run.lse.values(), expected.lse)) << "lse";
  if (run.o.with_entropy) {
    EXPECT_TRUE(close_loss(run.entropy.values(), expected.entropy)) << "entropy";
  }
  EXPECT_EQ(run.predictions.values(), expected.predictions);
  EXPECT_TRUE(close(run.d_logits.values(), expected.d_logits, gate_e(run.o.type))) << "d_logits";
  EXPECT_EQ(run.error.get_integer(0), 0);
  for (const Tensor& t : {run.loss, run.z_loss, run.accuracy, run.predictions, run.lse, run.entropy,
                          run.d_logits, run.logits, run.error}) {
    EXPECT_TRUE(t.untouched_outside());
  }
  const Tensor gradient = run.d_logits.clone(), loss = run.loss.clone();
  run_tiles_of_rows(run, run.d_logits);
  EXPECT_TRUE(run.d_logits.same_bits(gradient) && run.loss.same_bits(loss)) << "second run";
  run_tiles_of_rows(run, run.logits);
  EXPECT_TRUE(run.logits.same_bits(gradient) && run.loss.same_bits(loss)) << "in place";
  EXPECT_TRUE(run.logits.untouched_outside());
}

// Odd widths and pitches. The first row begins at the first, second or last element of a vector.
TEST(CrossEntropy, TilesOfUnalignedRows) {
  const std::vector<int64_t> places{0, 1, -1};  // -1: a vector's last element
  for (const auto& [type, v, place] :
       combinations(kFloats, affordable({1, 3, 41, 127, 257, 1000, 1003}, 40), places)) {
    const int64_t vector = 16 / size_of(type), shift = place < 0 ? vector - 1 : place;
    const int64_t gap = shift == 1 ? 3 : 0, n = v < 10 ? 300 : 37;
    Trial run(type, n, v, {.reduction = shift == 0 ? Reduce::none : Reduce::mean}, 1.0, gap);
    const Values values = run.logits.values();
    run.logits = Tensor::rows(type, n, v, gap, shift).fill(values);
    run.d_logits = Tensor::rows(type, n, v, gap, shift == 1 ? shift + vector / 2 : shift);
    check_tiles_of_rows(run);
  }
}

// The time to start the programs, 1.35 ns each, is at most 0.75 of the time in which an H200 moves
// the bytes.
TEST(CrossEntropy, ShortRowsStartFewPrograms) {
  const kernels::Machine h200 = kernels::gpu("sm_90a", 132, 80);
  for (auto [n, v] :
       {std::pair<int64_t, int64_t>{1'000'000, 257}, {262'144, 1000}, {10'000'000, 32}}) {
    const CrossEntropyOptions o{.classes = v, .type = bf16, .with_gradient = true};
    int64_t programs = 0;
    for (const kernels::Step& step : kernels::cross_entropy(h200, o).steps)
      programs += step.launch.grid_at(n)[0];
    const double bytes = 2.0 * 2 * static_cast<double>(n * v);
    // The limit is above 0.7, the ratio of the fastest schedule for 262144 x 256.
    EXPECT_LT(static_cast<double>(programs) * 1.35e-9, bytes / 4.2e12 * 0.75) << n << " x " << v;
  }
}

TEST(CrossEntropy, OptionsOfTilesOfRows) {
  const int64_t n = 19;
  for (int64_t v : affordable({3, 257, 1000}, n)) {
    for (DType type : {f32, bf16}) {
      std::vector<CrossEntropyCase> cases = option_cases(v);
      cases.push_back({.temperature = 0.75});
      cases.push_back({.lse_square = exact(1e-3), .temperature = 0.75});
      for (size_t i = 0; i < cases.size(); ++i) {
        CrossEntropyCase c = cases[i];
        c.reduction = i % 3 == 0 ? Reduce::none : i % 3 == 1 ? Reduce::mean : Reduce::sum;
        if (i + 2 >= cases.size()) c.d_entropy = Values(n, 0.5);
        Trial run(type, n, v, c, 1.0, gap_of(static_cast<int64_t>(i)));
        if (i % 2 == 1) {
          run.c.upstream = {3.0};
          run.o.with_d_loss = true;
          run.make_outputs(gap_of(static_cast<int64_t>(i)));
        }
        check_tiles_of_rows(run);
      }
    }
    // Bias, a part of a batch, a wrong label, an ignored row of NaN.
    Trial part(bf16, n, v, {.reduction = Reduce::none}, 1.0, 1);
    part.o.has_bias = part.o.part = true;
    part.make_outputs(1);
    part.first_row = int64_t{1} << 40;
    part.labels[6] = v;
    for (int64_t j = 0; j < v; ++j) part.logits.set(4 * v + j, NAN);  // row 4 is ignored
    run_tiles_of_rows(part, part.d_logits);
    Values shifted = part.logits.values();
    for (size_t i = 0; i < shifted.size(); ++i) shifted[i] += part.bias.get(i % v);
    const auto expected = cross_entropy_reference(shifted, part.labels, part.c);
    EXPECT_TRUE(close(part.d_logits.values(), expected.d_logits, gate_e(bf16))) << part.describe();
    EXPECT_TRUE(close_loss(part.lse.values(), expected.lse));
    EXPECT_EQ(kernels::kErrorBase - part.error.get_integer(0), part.first_row + 6);
  }
}

// A call without a gradient does not change the logits.
TEST(CrossEntropy, LossesOfTilesOfRows) {
  for (int64_t v : affordable({3, 257, 1000}, 19)) {
    Trial run(bf16, 19, v, {.reduction = Reduce::none}, 1.0, 1);
    run.o.with_gradient = false;
    const Tensor before = run.logits.clone();
    run_tiles_of_rows(run, run.d_logits);
    EXPECT_TRUE(run.logits.same_bits(before));
    EXPECT_TRUE(close_loss(run.loss.values(),
                           cross_entropy_reference(run.logits.values(), run.labels, run.c).loss));
  }
}

}  // namespace
}  // namespace ligerdsl::test::cross_entropy_test
