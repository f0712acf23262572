// Tests options of cross_entropy: weights, smoothing, softcap, temperature, upstream gradients,
// outputs.
#include "tests/kernels/cross_entropy/cross_entropy_trial.h"

namespace ligerdsl::test::cross_entropy_options_test {
namespace {

using kernels::CrossEntropyOptions;
using Trial = CrossEntropyTrial;

TEST(CrossEntropy, Options) {
  for (int64_t v : affordable({37, 20000}, 11)) {
    const std::vector<Reduce> reductions{Reduce::none, Reduce::mean, Reduce::sum};
    for (const auto& [options, reduction, type] :
         combinations(option_cases(v), reductions, kFloats)) {
      CrossEntropyCase c = options;
      c.reduction = reduction;
      Trial(type, 11, v, c, type == f32 ? 2.0 : 1.0).check();
    }
  }
}

// Tests both sides of the quick softcap's limits on caps and classes, with logits of about 0.01 to
// 1 times the cap. Checks each row's loss, because a mean hides errors of opposite signs.
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

// The first row begins at each element of a 16-byte vector. For the largest width it begins only at
// element 3. The width and the gap determine where the next rows begin. Widths are less than a
// vector, one block, and several blocks. The gradient is in place, or in a tensor with the same or
// another alignment.
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
        for (int64_t offset : {int64_t{0}, vector / 2}) {
          if (!all_combinations() && offset != 0 && shift != vector / 2) continue;
          run.d_logits = Tensor::rows(type, n, v, gap, shift + offset);
          run.check();
        }
        run.run(run.logits);
        EXPECT_TRUE(run.logits.same_bits(run.d_logits)) << run.describe() << " shift " << shift;
        EXPECT_TRUE(run.logits.untouched_outside());
      }
    }
  }
}

// Class weights and biases must match the columns of unaligned rows.
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

// All logits of row 1 are -inf. Its prediction is class 0, not a negative column number.
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

// A row is one tile, is read in blocks, or is shared by a cluster. Some classes have zero
// probability.
TEST(CrossEntropy, TemperatureAndEntropy) {
  const int64_t n = 3;
  std::vector<CrossEntropyCase> cases(4, {.d_entropy = {0.5, -2, 1}});
  cases[0].d_entropy.clear();
  for (CrossEntropyCase& c : cases) c.temperature = 0.75;
  cases[1].temperature = 0;
  cases[2].softcap = 20;
  cases[2].smoothing = exact(0.1);
  cases[3].lse_square = exact(1e-3);
  cases[3].reduction = Reduce::none;
  const std::vector<DType> types{bf16, f32};
  for (const auto& [v, type, c] :
       combinations(affordable({1, 37, 20003, 51208}, n), types, cases)) {
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
  // One class has nearly all of a row's probability: the label in row 0, another class in row 1.
  // Row 2 is ignored.
  Trial sharp(f32, 4, 300, {.reduction = Reduce::none, .d_entropy = {1, 1, 1, 1}});
  sharp.labels = {5, 6, sharp.c.ignore_index, 8};
  sharp.logits.set(5, 40.0);
  sharp.logits.set(300 + 5, 40.0);
  sharp.check();
  EXPECT_EQ(sharp.entropy.get(2), 0.0);
}

// The rows are a part of a batch, so an error names the row's number in the batch. The bias is
// added to the logits first.
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
  EXPECT_TRUE(std::isnan(run.loss.get(0))) << "the kernel wrote a loss that was not requested";
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
        Trial separate(type, 6, v, c), over(type, 6, v, c);
        separate.run();
        over.run(over.logits);
        EXPECT_TRUE(over.logits.same_bits(separate.d_logits)) << separate.describe();
        EXPECT_TRUE(over.loss.same_bits(separate.loss));
      }
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::cross_entropy_options_test
