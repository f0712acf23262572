#include "kernels/cross_entropy/cross_entropy.h"

#include "kernels/core/softcap.h"
#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "kernels/cross_entropy/cross_entropy_totals.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test {
namespace {

using kernels::CrossEntropyOptions;

struct Trial {
  CrossEntropyOptions o;
  CrossEntropyCase c;
  std::vector<int64_t> labels;
  int64_t first_row = 0;
  int64_t label_stride = 1;
  Tensor logits, label_tensor, bias, weight, d_loss, d_entropy, loss, z_loss, accuracy, predictions,
      lse, entropy, d_logits, error;

  // Asks for all results. `seed` determines logits and labels; every fifth row is ignored.
  Trial(DType type, int64_t n, int64_t classes, CrossEntropyCase with = {}, double spread = 1.0,
        int64_t gap = 0)
      : c(with) {
    c.n = n;
    c.classes = classes;
    o.classes = classes;
    o.type = type;
    o.reduction = static_cast<kernels::Reduction>(c.reduction);
    o.has_weight = !c.weight.empty();
    o.smoothing = c.smoothing > 0;
    o.lse_square = c.lse_square > 0;
    o.softcap = c.softcap > 0;
    o.quick_softcap = o.softcap && kernels::allows_quick_softcap(c.softcap, o.classes);
    o.tempered = c.temperature > 0;
    o.with_entropy = o.with_d_entropy = !c.d_entropy.empty();
    o.with_z_loss = o.with_accuracy = o.with_predictions = o.with_lse = o.with_gradient = true;
    logits = random_rows(type, n, classes, 11, gap, spread);
    Random random(12);
    for (int64_t i = 0; i < n; ++i)
      labels.push_back(i % 5 == 4 ? c.ignore_index : random.below(classes));
    make_outputs(gap);
  }
  void make_outputs(int64_t gap = 0) {
    const Sizes reduced{c.reduction == Reduce::none ? c.n : 1};
    loss = Tensor(o.loss_type, reduced);
    z_loss = Tensor(o.loss_type, reduced);
    accuracy = Tensor(f32, reduced);
    predictions = Tensor(i64, {c.n});
    lse = Tensor(f32, {c.n});
    entropy = Tensor(f32, {c.n});
    d_entropy = Tensor(f32, {c.n});
    if (o.with_d_entropy) d_entropy.fill(c.d_entropy);
    d_logits = Tensor::rows(o.type, c.n, c.classes, gap);
    error = Tensor(i64, {1}).fill(std::vector<int64_t>{0});
    bias = random_vector(o.bias_type, c.classes, 14);
    weight = Tensor(o.weight_type, {c.classes});
    if (o.has_weight) weight.fill(c.weight);
    c.upstream.resize(o.with_d_loss && c.reduction == Reduce::none ? c.n : 1,
                      c.upstream.empty() ? 1.0 : c.upstream[0]);
    d_loss = Tensor(o.d_loss_type, {static_cast<int64_t>(c.upstream.size())}).fill(c.upstream);
  }
  void run(const Tensor& gradient) {
    run(kernels::cross_entropy_kernel.heuristic(machine(), o), machine(), gradient);
  }
  void run(const kernels::CrossEntropyConfig& config, const kernels::Machine& of,
           const Tensor& gradient) {
    label_tensor = Tensor(o.label_type, {c.n}, {label_stride}).fill(labels);
    backend().run(kernels::cross_entropy_kernel.build(of, o, config), c.n,
                  Arguments()
                      .tensor("logits", logits)
                      .tensor("labels", label_tensor)
                      .tensor("bias", bias)
                      .tensor("weight", weight)
                      .tensor("loss", loss)
                      .tensor("z_loss", z_loss)
                      .tensor("accuracy", accuracy)
                      .tensor("predictions", predictions)
                      .tensor("lse", lse)
                      .tensor("entropy", entropy)
                      .tensor("d_entropy", d_entropy)
                      .tensor("d_logits", gradient)
                      .tensor("d_loss", d_loss)
                      .tensor("error", error)
                      .integer("ignore_index", c.ignore_index)
                      .integer("first_row", first_row)
                      .number("label_smoothing", c.smoothing)
                      .number("lse_square_scale", c.lse_square)
                      .number("softcap", c.softcap)
                      .number("temperature", c.temperature));
  }
  void run() { run(d_logits); }
  std::string describe() const {
    return std::string(name(o.type)) + " n=" + std::to_string(c.n) +
           " v=" + std::to_string(c.classes) + " reduction " +
           std::to_string(static_cast<int>(c.reduction)) + " smoothing " +
           std::to_string(c.smoothing) + " z " + std::to_string(c.lse_square) + " cap " +
           std::to_string(c.softcap) + (o.has_weight ? " weighted" : "");
  }
  void check() {
    SCOPED_TRACE(describe());
    run();
    const auto expected = cross_entropy_reference(logits.values(), labels, c);
    EXPECT_TRUE(close_loss(loss.values(), expected.loss)) << "loss";
    EXPECT_TRUE(close_loss(z_loss.values(), expected.z_loss)) << "z_loss";
    EXPECT_TRUE(close_loss(accuracy.values(), expected.accuracy)) << "accuracy";
    EXPECT_TRUE(close_loss(lse.values(), expected.lse)) << "lse";
    if (o.with_entropy) {
      EXPECT_TRUE(close_loss(entropy.values(), expected.entropy)) << "entropy";
    }
    EXPECT_EQ(predictions.values(), expected.predictions);
    EXPECT_TRUE(close(d_logits.values(), expected.d_logits, gate_e(o.type))) << "d_logits";
    EXPECT_EQ(error.get_integer(0), 0);
    for (const Tensor& t :
         {loss, z_loss, accuracy, predictions, lse, entropy, d_logits, logits, error}) {
      EXPECT_TRUE(t.untouched_outside());
    }
  }
};

// Rounds to float, so that reference and kernel see the same value.
double exact(double value) {
  return static_cast<float>(value);
}

Values class_weights(int64_t classes) {
  Values w = Random(13).normals(classes);
  for (double& value : w) value = exact(0.1 + std::fabs(value));
  return w;
}

TEST(CrossEntropy, WidthsAndTypes) {
  int64_t number = 0;
  for (int64_t v : affordable({1, 3, 41, 256, 1023, 4097, 32000, 128256}, 3)) {
    for (DType type : kFloats) Trial(type, 3, v, {}, 1.0, gap_of(number++)).check();
  }
}

// Labels with a stride, as in a column of a table, give the same bits.
TEST(CrossEntropy, LabelsOfAnyStride) {
  for (DType label_type : {i64, i32}) {
    for (Reduce reduction : {Reduce::none, Reduce::mean}) {
      for (int64_t v : affordable({41, 33000}, 7)) {
        const CrossEntropyCase c{.weight = class_weights(v), .reduction = reduction};
        Trial near(bf16, 7, v, c), apart(bf16, 7, v, c);
        for (Trial* run : {&near, &apart}) run->o.label_type = label_type;
        apart.label_stride = 3;
        near.run();
        apart.check();
        EXPECT_TRUE(apart.d_logits.same_bits(near.d_logits));
        EXPECT_TRUE(apart.loss.same_bits(near.loss));
      }
    }
  }
  Trial counted_at_the_end(f32, 2050, 5);
  counted_at_the_end.o.with_gradient = false;
  counted_at_the_end.label_stride = 2;
  counted_at_the_end.run();
  const auto expected = cross_entropy_reference(counted_at_the_end.logits.values(),
                                                counted_at_the_end.labels, counted_at_the_end.c);
  EXPECT_TRUE(close_loss(counted_at_the_end.loss.values(), expected.loss));
}

// Rows that fit in a GPU's shared memory, and rows that fit in part, in place and out of place.
TEST(CrossEntropy, ResidentRows) {
  for (int64_t v : affordable({40960, 128256}, 1)) {
    for (DType type : {f32, bf16}) Trial(type, 1, v, {}, 1.0, 8).check();
  }
}

// Rows that fit in part, with ignored rows between them, in place and out of place.
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

// Rows that the CTAs of a cluster share: all options that depend on the lanes of a block, an
// ignored row, in place.
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

// Rows that a CTA reads twice, with fewer warps than in the widest schedule.
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
    run.o.with_gradient = false;  // the last launch counts and divides
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
  const int64_t n = 75;  // some of 32 programs take three rows, some two
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

// Runs a trial with tiles of several rows, as a GPU has them, on any back end.
void run_tiles_of_rows(Trial& run, const Tensor& gradient) {
  kernels::CrossEntropyConfig config =
      kernels::cross_entropy_kernel.heuristic(kernels::gpu("sm_90a", 132, 80), run.o);
  if (config.rows == 1) config = {kernels::RowConfig{.rows = 4, .num_warps = 4}};  // wide f32 rows
  ASSERT_EQ(kernels::cross_entropy_kernel.valid(machine(), run.o, config), "");
  run.run(config, machine(), gradient);
}

// Checks tiles of several rows: all results and guards. A second run and a run in place have equal
// bits.
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

// Odd widths and pitches, with the first row at each element of a 16-byte vector.
TEST(CrossEntropy, TilesOfUnalignedRows) {
  for (DType type : kFloats) {
    const int64_t vector = 16 / size_of(type);
    for (int64_t v : affordable({1, 3, 41, 127, 257, 1000, 1003}, 40)) {
      for (int64_t shift : {int64_t{0}, int64_t{1}, vector - 1}) {
        const int64_t gap = shift == 1 ? 3 : 0, n = v < 10 ? 300 : 37;
        Trial run(type, n, v, {.reduction = shift == 0 ? Reduce::none : Reduce::mean}, 1.0, gap);
        const Values values = run.logits.values();
        run.logits = Tensor::rows(type, n, v, gap, shift).fill(values);
        run.d_logits = Tensor::rows(type, n, v, gap, shift == 1 ? shift + vector / 2 : shift);
        check_tiles_of_rows(run);
      }
    }
  }
}

// Starting the programs takes at most 0.75 of the time that an H200 takes to move the bytes.
TEST(CrossEntropy, ShortRowsStartFewPrograms) {
  const kernels::Machine h200 = kernels::gpu("sm_90a", 132, 80);
  for (auto [n, v] :
       {std::pair<int64_t, int64_t>{1'000'000, 257}, {262'144, 1000}, {10'000'000, 32}}) {
    const CrossEntropyOptions o{.classes = v, .type = bf16, .with_gradient = true};
    int64_t programs = 0;
    for (const kernels::Step& step : kernels::cross_entropy(h200, o).steps)
      programs += step.launch.grid_at(n)[0];
    const double bytes = 2.0 * 2 * static_cast<double>(n * v);
    // The fastest programs of 262144 x 256 reach 0.7. They take 96 us; with twice the rows, 128 us.
    EXPECT_LT(static_cast<double>(programs) * 1.35e-9, bytes / 4.2e12 * 0.75) << n << " x " << v;
  }
}

std::vector<CrossEntropyCase> option_cases(int64_t classes) {
  return {{.smoothing = exact(0.1)},
          {.softcap = 30},
          {.softcap = 1e5},  // effectively no cap
          {.lse_square = exact(1e-4)},
          {.weight = class_weights(classes)},
          {.smoothing = exact(0.1), .weight = class_weights(classes)},
          {.ignore_index = 2},
          {.ignore_index = 0,
           .smoothing = exact(0.2),
           .lse_square = exact(1e-3),
           .softcap = 4,
           .weight = class_weights(classes)}};
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

TEST(CrossEntropy, Options) {
  for (int64_t v : affordable({37, 20000}, 11)) {
    for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
      for (CrossEntropyCase c : option_cases(v)) {
        c.reduction = reduction;
        Trial(f32, 11, v, c, 2.0).check();
      }
    }
    for (DType type : {f16, bf16}) {
      for (const CrossEntropyCase& c : option_cases(v)) Trial(type, 11, v, c).check();
    }
  }
}

// Caps and numbers of classes around the limits of the quick softcap, with logits that it bends
// little and much. It checks the loss of each row, because a mean hides errors of opposite signs.
TEST(CrossEntropy, SmallAndLargeCaps) {
  for (DType type : {f16, bf16, f32}) {
    for (double cap : {0.5, 30.0, 64.0, 65.0}) {
      for (double spread : {0.01, 0.3, 1.0}) {
        for (int64_t classes : affordable({611, 4096}, 11))
          Trial(type, 11, classes, {.softcap = cap, .reduction = Reduce::none}, spread * cap)
              .check();
      }
    }
    // The quick softcap's error is relative to the cap, so a cap far above the logits would show
    // it.
    for (int64_t classes : affordable({611, 4096}, 11))
      Trial(type, 11, classes, {.softcap = 3e4, .reduction = Reduce::none}, 3.0).check();
  }
}

// Unaligned rows. The first row begins at each element of a 16-byte vector; the width or a gap
// places the next ones. Widths are less than a vector, one block, and several blocks. The gradient
// is in place, or in a tensor with the same or another alignment.
TEST(CrossEntropy, UnalignedRows) {
  const int64_t n = 3;
  for (DType type : kFloats) {
    const int64_t vector = 16 / size_of(type);
    for (int64_t v : affordable({1, 5, 13, 1019, 20003}, n)) {
      for (int64_t shift = 0; shift < vector; ++shift) {
        if (v > 5000 && shift != 3) continue;  // slow
        const int64_t gap = shift % 2 ? 3 : 0;
        const CrossEntropyCase c = gap ? CrossEntropyCase{.smoothing = exact(0.1), .softcap = 20}
                                       : CrossEntropyCase{.lse_square = exact(1e-3)};
        Trial run(type, n, v, c, 1.0, gap);
        const Values values = run.logits.values();
        run.labels = {0, v - 1, v / 2};
        run.logits = Tensor::rows(type, n, v, gap, shift).fill(values);
        for (int64_t apart : {int64_t{0}, vector / 2}) {
          run.d_logits = Tensor::rows(type, n, v, gap, shift + apart);
          run.check();
        }
        run.run(run.logits);
        EXPECT_TRUE(run.logits.same_bits(run.d_logits)) << run.describe() << " shift " << shift;
        EXPECT_TRUE(run.logits.untouched_outside());
      }
    }
  }
}

// Class weights and biases of unaligned rows shift with the row.
TEST(CrossEntropy, WeightsOfUnalignedRows) {
  for (int64_t v : affordable({37, 20003}, 3)) {
    Trial run(bf16, 3, v, {.smoothing = exact(0.1), .weight = class_weights(v)}, 1.0, 2);
    run.check();
    Trial biased(bf16, 3, v, {}, 1.0, 2);
    biased.o.has_bias = true;
    biased.make_outputs(2);
    biased.run();
    Values shifted = biased.logits.values();
    for (size_t i = 0; i < shifted.size(); ++i) shifted[i] += biased.bias.get(i % v);
    EXPECT_TRUE(close(biased.d_logits.values(),
                      cross_entropy_reference(shifted, biased.labels, biased.c).d_logits,
                      gate_e(bf16)));
    EXPECT_TRUE(biased.d_logits.untouched_outside());
  }
}

// All logits are -inf: the prediction is class 0, not a column before the row.
TEST(CrossEntropy, RowsOfInfinityPredictTheirFirstClass) {
  for (int64_t v : affordable({37, 20003}, 2)) {
    Trial run(bf16, 2, v, {.reduction = Reduce::none});
    for (int64_t j = 0; j < v; ++j) run.logits.set(v + j, -INFINITY);
    run.run();
    EXPECT_EQ(run.predictions.get_integer(1), 0);
  }
}

TEST(CrossEntropy, LargeLogits) {
  for (double spread : {10.0, 1e4}) {
    Trial(f32, 7, 500, {}, spread).check();
    Trial(f32, 7, 500, {.smoothing = exact(0.1)}, spread).check();
  }
  // An offset common to all logits must not reduce accuracy.
  Trial shifted(f32, 4, 300, {.smoothing = exact(0.1), .reduction = Reduce::none});
  for (int64_t i = 0; i < 4 * 300; ++i) shifted.logits.set(i, shifted.logits.get(i) + 1e4);
  shifted.run();
  const auto expected = cross_entropy_reference(shifted.logits.values(), shifted.labels, shifted.c);
  EXPECT_TRUE(close_loss(shifted.loss.values(), expected.loss));
  EXPECT_TRUE(close(shifted.d_logits.values(), expected.d_logits, gate_e(f32)));
}

TEST(CrossEntropy, UpstreamGradient) {
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    for (DType type : kFloats) {
      Trial run(type, 9, 50,
                {.smoothing = exact(0.1),
                 .lse_square = exact(1e-3),
                 .reduction = reduction,
                 .upstream = {3.0}});
      run.o.with_d_loss = true;
      run.make_outputs();
      run.check();
    }
  }
}

// Rows of one tile, in blocks, and shared by a cluster; some classes have no probability.
TEST(CrossEntropy, TemperatureAndEntropy) {
  const int64_t n = 3;
  for (int64_t v : affordable({1, 37, 20003, 51208}, n)) {
    for (DType type : {bf16, f32}) {
      std::vector<CrossEntropyCase> cases(4, {.d_entropy = {0.5, -2, 1}});
      cases[0].d_entropy.clear();
      for (CrossEntropyCase& c : cases) c.temperature = 0.75;
      cases[1].temperature = 0;
      cases[2].softcap = 20;
      cases[2].smoothing = exact(0.1);
      cases[3].lse_square = exact(1e-3);
      cases[3].reduction = Reduce::none;
      for (const CrossEntropyCase& c : cases) {
        if (v > 40000 && type == bf16) continue;
        Trial run(type, n, v, c, 3.0, type == f32 ? 8 : 3);
        run.labels = {0, v - 1, v / 2};
        if (v > 30) run.logits.set(7, -INFINITY);
        if (v > 30) run.logits.set(11, -1e4);
        if (c.smoothing > 0) run.logits.set(7, 0.0);
        run.check();
        if (v > 30000) continue;
        Trial over(type, n, v, c, 3.0, type == f32 ? 8 : 3);
        over.labels = run.labels;
        over.logits.fill(run.logits.values());
        over.run(over.logits);
        EXPECT_TRUE(over.logits.same_bits(run.d_logits)) << run.describe();
      }
    }
  }
  // Nearly all of a row's probability is in one class, the label's or another's; one row is
  // ignored.
  Trial sharp(f32, 4, 300, {.reduction = Reduce::none, .d_entropy = {1, 1, 1, 1}});
  sharp.labels = {5, 6, sharp.c.ignore_index, 8};
  sharp.logits.set(5, 40.0);
  sharp.logits.set(300 + 5, 40.0);
  sharp.check();
  EXPECT_EQ(sharp.entropy.get(2), 0.0);
}

// Rows of a part of a batch: the bias is added first, and row numbers count from the batch's first
// row.
TEST(CrossEntropy, BiasAndPartOfABatch) {
  for (int64_t v : affordable({37, 20000}, 9)) {
    for (DType type : kFloats) {
      Trial run(type, 9, v, {.smoothing = exact(0.1), .softcap = 5});
      run.o.has_bias = run.o.part = true;
      run.o.bias_type = type;
      run.make_outputs();
      run.first_row = int64_t{1} << 40;
      run.labels[6] = v;
      run.run();
      Values shifted = run.logits.values();
      for (size_t i = 0; i < shifted.size(); ++i) shifted[i] += run.bias.get(i % v);
      const auto expected = cross_entropy_reference(shifted, run.labels, run.c);
      EXPECT_TRUE(close(run.d_logits.values(), expected.d_logits, gate_e(type))) << run.describe();
      EXPECT_TRUE(close_loss(run.lse.values(), expected.lse));
      EXPECT_EQ(kernels::kErrorBase - run.error.get_integer(0), run.first_row + 6);
    }
  }
}

TEST(CrossEntropy, TokenScaling) {
  for (Reduce reduction : {Reduce::none, Reduce::mean}) {
    Trial run(f32, 9, 50,
              {.smoothing = exact(0.1), .lse_square = exact(1e-2), .reduction = reduction});
    run.o.token_scaling = true;
    run.run();
    auto expected = cross_entropy_reference(run.logits.values(), run.labels, run.c);
    double total = 0, rows = 0;
    CrossEntropyCase each = run.c;
    each.reduction = Reduce::none;
    const Values losses = cross_entropy_reference(run.logits.values(), run.labels, each).loss;
    for (int64_t i = 0; i < 9; ++i) {
      if (run.labels[i] == run.c.ignore_index) continue;
      const double p = std::exp(run.logits.get(i * 50 + run.labels[i]) - expected.lse[i]);
      for (int64_t j = 0; j < 50; ++j) expected.d_logits[i * 50 + j] *= p;
      if (reduction == Reduce::none) expected.loss[i] *= p;
      total += p * losses[i];
      rows += 1;
    }
    if (reduction == Reduce::mean) expected.loss = {total / rows};
    EXPECT_TRUE(close_loss(run.loss.values(), expected.loss));
    EXPECT_TRUE(close(run.d_logits.values(), expected.d_logits, gate_e(f32)));
  }
}

TEST(CrossEntropy, GradientAlone) {
  Trial run(bf16, 9, 50, {.upstream = {0.25}});
  run.o.with_d_loss = true;
  run.o.with_loss = run.o.with_z_loss = run.o.with_accuracy = run.o.with_predictions =
      run.o.with_lse = false;
  run.run();
  EXPECT_TRUE(close(run.d_logits.values(),
                    cross_entropy_reference(run.logits.values(), run.labels, run.c).d_logits,
                    gate_e(bf16)));
  EXPECT_TRUE(std::isnan(run.loss.get(0))) << "wrote a loss that is not wanted";
}

TEST(CrossEntropy, LossAloneLeavesLogits) {
  for (int64_t v : affordable({50, 20000}, 6)) {
    Trial run(bf16, 6, v);
    run.o.with_gradient = false;
    const Tensor before = run.logits.clone();
    run.run();
    EXPECT_TRUE(run.logits.same_bits(before));
    EXPECT_TRUE(close_loss(run.loss.values(),
                           cross_entropy_reference(run.logits.values(), run.labels, run.c).loss));
  }
}

TEST(CrossEntropy, InPlaceIsBitEqual) {
  for (int64_t v : affordable({300, 20000}, 6)) {
    for (DType type : kFloats) {
      const CrossEntropyCase all{.smoothing = exact(0.1),
                                 .lse_square = exact(1e-3),
                                 .softcap = 20,
                                 .weight = class_weights(v)};
      for (const CrossEntropyCase& c :
           {CrossEntropyCase{}, CrossEntropyCase{.smoothing = exact(0.1)}, all}) {
        Trial apart(type, 6, v, c), over(type, 6, v, c);
        apart.run();
        over.run(over.logits);
        EXPECT_TRUE(over.logits.same_bits(apart.d_logits)) << apart.describe();
        EXPECT_TRUE(over.loss.same_bits(apart.loss));
      }
    }
  }
}

TEST(CrossEntropy, LabelsOfBothWidths) {
  Trial wide(f32, 8, 30), narrow(f32, 8, 30);
  narrow.o.label_type = i32;
  wide.run();
  narrow.run();
  EXPECT_TRUE(narrow.d_logits.same_bits(wide.d_logits) && narrow.loss.same_bits(wide.loss));
}

TEST(CrossEntropy, LabelsOutOfRange) {
  for (int64_t v : affordable({30, 20000}, 8)) {
    for (int64_t bad : {v, int64_t{-1}, int64_t{1} << 40, INT64_MIN, INT64_MAX}) {
      Trial run(f32, 8, v, {.reduction = Reduce::none});
      run.labels[2] = run.labels[5] = bad;
      run.run();
      EXPECT_EQ(kernels::kErrorBase - run.error.get_integer(0), 2) << "the first bad row";
      const auto expected = cross_entropy_reference(run.logits.values(), run.labels, run.c);
      EXPECT_TRUE(close_loss(run.loss.values(), expected.loss));
      EXPECT_TRUE(close(run.d_logits.values(), expected.d_logits, gate_e(f32)));
      EXPECT_TRUE(run.d_logits.untouched_outside());
    }
  }
  Trial mean(f32, 8, 30, {.weight = class_weights(30)});
  mean.labels[3] = 30;
  mean.run();
  EXPECT_TRUE(std::isnan(mean.loss.get(0)));
  EXPECT_EQ(kernels::kErrorBase - mean.error.get_integer(0), 3);
}

TEST(CrossEntropy, IgnoredRows) {
  for (int64_t index : {int64_t{0}, int64_t{2}, int64_t{-100}, int64_t{-123}}) {
    Trial(f32, 10, 5, {.ignore_index = index}).check();
  }
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    Trial all(f32, 6, 40, {.lse_square = exact(1e-3), .reduction = reduction});
    for (int64_t& label : all.labels) label = -100;
    all.logits.set(3, NAN);  // ignored rows are not read
    all.run();
    for (double value : all.loss.values()) EXPECT_EQ(value, 0.0);
    for (double value : all.accuracy.values()) EXPECT_EQ(value, 0.0);
    for (double value : all.d_logits.values()) EXPECT_EQ(value, 0.0);
  }
  Trial one(f32, 6, 40);
  for (int64_t i = 0; i < 5; ++i) one.labels[i] = -100;
  one.labels[5] = 39;
  one.check();
}

TEST(CrossEntropy, InfiniteLogits) {
  for (int64_t v : affordable({20, 20000}, 4)) {
    Trial run(f32, 4, v, {.reduction = Reduce::none});
    run.labels = {1, 1, 2, 3};
    for (int64_t j = 0; j < v; ++j) {
      if (j % 3 == 0) run.logits.set(j, -INFINITY);
      if (j != 1) run.logits.set(v + j, -INFINITY);
    }
    run.logits.set(2 * v + 2, -INFINITY);  // logit of the label: infinite loss
    run.check();
    EXPECT_NEAR(run.loss.get(1), 0.0, kGateLoss);
    EXPECT_EQ(run.loss.get(2), INFINITY);
    EXPECT_EQ(run.d_logits.get(0), 0.0);
  }
}

// Labels at the borders of blocks; the last block is full, one column short, or one column.
TEST(CrossEntropy, LabelsAtTheBordersOfBlocks) {
  for (int64_t v : affordable({16383, 16384, 16385, 24576}, 7)) {
    Trial run(f32, 7, v, {.smoothing = 0.1, .softcap = 20, .reduction = Reduce::none});
    run.labels = {0, 4095, 4096, 8191, 8192, 16382, v - 1};
    run.check();
  }
}

// A row with NaN has a NaN loss; its prediction is some class.
TEST(CrossEntropy, RowsOfNaNPredictAClass) {
  for (int64_t v : affordable({20, 20000}, 2)) {
    Trial run(f32, 2, v, {.reduction = Reduce::none});
    run.labels = {3, 5};
    for (int64_t j = 0; j < v; ++j) run.logits.set(j, NAN);
    run.logits.set(v + 17, NAN);
    run.run();
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(std::isnan(run.loss.get(i))) << i;
      EXPECT_TRUE(std::isnan(run.d_logits.get(i * v + 7))) << i;
      EXPECT_GE(run.predictions.get_integer(i), 0);
      EXPECT_LT(run.predictions.get_integer(i), v);
    }
  }
}

TEST(CrossEntropy, TiesGoToTheLowestIndex) {
  for (int64_t v : affordable({50, 20000}, 2)) {
    Trial run(f32, 2, v, {.reduction = Reduce::none});
    run.labels = {3, v - 1};
    for (int64_t j = 0; j < v; ++j)
      run.logits.set(j, 1.0), run.logits.set(v + j, j == v - 1 || j == 20 ? 5.0 : 0.0);
    run.check();
    EXPECT_EQ(run.predictions.get_integer(0), 0);
    EXPECT_EQ(run.predictions.get_integer(1), 20);
  }
}

// d_y = p_y - 1 is at best as exact as the last digits of p_y, which are 2^-24 near p_y = 1.
TEST(CrossEntropy, ConfidentRowsKeepTheTargetsDigits) {
  for (int64_t v : affordable({64, 20000}, 3)) {
    Trial run(f32, 3, v, {.reduction = Reduce::none});
    run.labels = {5, 9, 7};
    run.logits.set(5, 20.0);
    run.logits.set(v + 9, 17.3);
    run.logits.set(2 * v + 7, 1000.7);
    run.run();
    const Values expected =
        cross_entropy_reference(run.logits.values(), run.labels, run.c).d_logits;
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t at = i * v + run.labels[i];
      EXPECT_NEAR(run.d_logits.get(at), expected[at], 4 * 0x1p-24 * backend().summation_slack())
          << "row " << i;
    }
  }
}

TEST(CrossEntropy, LossTypeAndRepeat) {
  Trial run(bf16, 6, 100), again(bf16, 6, 100);
  for (Trial* r : {&run, &again}) {
    r->o.loss_type = bf16;
    r->make_outputs();
    r->run();
  }
  EXPECT_TRUE(run.loss.same_bits(again.loss) && run.d_logits.same_bits(again.d_logits));
  const auto expected = cross_entropy_reference(run.logits.values(), run.labels, run.c);
  EXPECT_TRUE(close(run.loss.values(), expected.loss, gate_e(bf16)));
}

TEST(CrossEntropy, NoRows) {
  Trial run(f32, 0, 10);
  run.run();
  EXPECT_EQ(run.loss.get(0), 0.0);
  EXPECT_EQ(run.accuracy.get(0), 0.0);
}

}  // namespace
}  // namespace ligerdsl::test
