// Tests rows of fused_linear_cross_entropy: ignored rows, rows with large or non-finite values, and
// labels.
#include <algorithm>
#include <cmath>

#include "tests/kernels/fused_linear/library/fused_linear_cross_entropy.h"

namespace ligerdsl::test::fused_linear_cross_entropy_rows_test {
namespace {

using Head = LinearHead;

// A row whose upstream gradient or class weight is 0 has no gradient.
TEST_P(FusedLinearCrossEntropy, RowsWithoutGradient) {
  for (DType type : {f32, bf16}) {
    Head upstream(13, 12, 40, type, {.reduction = Reduce::none});
    Values g(13, 1.0);
    g[3] = g[5] = 0;
    upstream.upstream(g);
    upstream.check();
    Values weights = class_weights(40);
    Head weighted(13, 12, 40, type, {.weight = weights});
    weights[weighted.labels[2]] = 0;
    Head without(13, 12, 40, type, {.weight = weights});
    without.check();
  }
}

// A row's gradient factor stays in f32's range, although the upstream gradient is 1e-20 and other
// classes are e^55 times as likely as the label.
TEST_P(FusedLinearCrossEntropy, SmallUpstreamGradientsOfUnlikelyLabels) {
  const int64_t n = 13, h = 12, v = 40, row = 3;
  for (const DType type : {f32, bf16}) {
    Head head(n, h, v, type, {.reduction = Reduce::none});
    head.upstream(Values(n, exact(1e-20)));
    head.bias.set(head.labels[row], -55.0);
    head.run();
    const Values d = cross_entropy_reference(head.logits(), head.labels, head.c).d_logits;
    const Values to_x = product_gradients(d, head.x, head.weight, n, h, v).x,
                 all = head.d_x.values();
    const auto of_row = [&](const Values& of) {
      return Values(of.begin() + row * h, of.begin() + (row + 1) * h);
    };
    EXPECT_TRUE(close_normwise(of_row(all), of_row(to_x), type == f32 ? 1e-5 : 1e-2));
  }
}

// Other logits exceed the label's by a little, by far, or so far that their exponentials overflow.
TEST_P(FusedLinearCrossEntropy, LargeLogits) {
  LIGERDSL_SKIP_LONG_EMULATION();
  for (DType type : {f32, bf16}) {
    // Logits rounded to 16 bits on a GPU are too inexact at a scale of 100.
    if (type == bf16 && on_gpu() && GetParam() == Products::library) continue;
    for (double scale : {30.0, 100.0, 1e4}) {
      for (const bool some : {true, false}) {
        for (int64_t chunk : {0, 150}) {
          Head head(170, 24, 300, type, {.lse_square = exact(1e-6)});
          Values x = head.x.values();
          for (int64_t i = 0; i < head.n; ++i)
            for (int64_t j = 0; j < head.h && (!some || i == 137); ++j) x[i * head.h + j] *= scale;
          head.x.fill(x);
          head.desc.chunk_rows = chunk;
          head.check();
        }
      }
    }
  }
}

// If logits are not rounded, rows with one dominant logit are accurate, however large it is. This
// holds in one pass, and with a second matmul for a vocabulary-blocked d_weight. Covers all options
// that store no logits.
TEST_P(FusedLinearCrossEntropy, ConfidentRows) {
  const int64_t n = 90, v = 405;
  const std::vector<CrossEntropyCase> cases = {
      {},
      {.smoothing = exact(0.1)},
      {.smoothing = exact(0.2), .weight = class_weights(v), .temperature = 0.5},
      {.softcap = 40}};
  for (CrossEntropyCase c : cases) {
    c.reduction = Reduce::sum;
    for (const double scale : on_gpu() ? std::vector{1e4} : std::vector{1e2, 1e4}) {
      for (const bool by_vocabulary : {false, true}) {
        Head head(n, 24, v, bf16, c);
        if (head.rounds_logits()) GTEST_SKIP() << "matmuls store rounded logits";
        head.desc.with_entropy = 1;
        head.least_entropy_gate = 1e-4;
        if (c.softcap > 0)
          head.desc.with_accuracy = head.desc.with_predictions = 0;  // capped logits tie
        Values x = head.x.values();
        for (double& value : x) value *= scale;
        head.x.fill(x);
        const Values z = head.logits();
        for (int64_t i = 0; i < n; i += 2)  // the label has the largest logit
          head.labels[i] =
              std::max_element(z.begin() + i * v, z.begin() + (i + 1) * v) - (z.begin() + i * v);
        if (by_vocabulary) {
          head.desc.chunk_rows = 1;
          head.desc.max_workspace_bytes = static_cast<int64_t>(head.workspace_bytes(n)) + 6000;
          head.desc.chunk_rows = 0;
        }
        head.check();
      }
    }
  }
}

// If several classes have the largest logit, the prediction is the lowest of them. The
// classes are in one tile of the matmul or in several.
TEST_P(FusedLinearCrossEntropy, PredictionsOfTies) {
  Head head(6, 16, 1200, f32);
  head.labels = {3, 77, 500, 500, 900, 1199};
  Values bias(1200, -50.0);
  for (const int64_t top : {500, 501, 900, 1100}) bias[top] = 50;
  head.bias.fill(bias);
  head.weight.fill(Values(1200 * 16));
  head.run();
  EXPECT_EQ(head.predictions.values(), Values(6, 500.0));
  EXPECT_NEAR(head.accuracy.get(0), 2.0 / 6, 1e-6);
}

// NaN in an ignored row affects no result.
TEST_P(FusedLinearCrossEntropy, IgnoredRowsMayHoldAnything) {
  for (DType type : {f32, bf16}) {
    Head head(21, 24, 300, type), clean(21, 24, 300, type);
    for (const double value : {std::nan(""), static_cast<double>(INFINITY)}) {
      Values x = clean.x.values();
      for (int64_t i = 0; i < head.n; ++i)
        if (head.labels[i] == head.c.ignore_index) x[i * head.h] = value;
      head.x.fill(x);
      head.run();
      clean.run();
      EXPECT_TRUE(head.loss.same_bits(clean.loss));
      EXPECT_TRUE(head.d_bias.same_bits(clean.d_bias));
      for (int64_t i = 0; i < head.n * head.h; ++i) EXPECT_EQ(head.d_x.get(i), clean.d_x.get(i));
    }
  }
}

// Tiles of ignored rows are skipped at the beginning, in the middle, and at the end, where a tile
// is partial. In one case, all tiles but one are skipped. Values in ignored rows affect no result.
TEST_P(FusedLinearCrossEntropy, SegmentsOfIgnoredRows) {
  const int64_t n = 453, v = 300;
  const std::vector<std::vector<std::pair<int64_t, int64_t>>> all_segments = {
      {{0, 128}}, {{100, 270}},           {{200, n}}, {{384, n}},
      {{0, 384}}, {{0, 130}, {255, 452}}, {{0, n}}};
  const std::vector<CrossEntropyCase> cases = {{},
                                               {.smoothing = exact(0.1),
                                                .lse_square = exact(1e-3),
                                                .weight = class_weights(v),
                                                .reduction = Reduce::sum},
                                               {.softcap = 3, .reduction = Reduce::none}};
  for (const auto& segments : all_segments) {
    for (const CrossEntropyCase& c : cases) {
      for (const DType type : {f32, bf16}) {
        for (const int64_t chunk : {0, 300}) {
          if (on_gpu() && type == f32 && chunk == 0) continue;
          Head clean(n, 16, v, type, c), other(n, 16, v, type, c);
          for (Head* head : {&clean, &other}) {
            head->desc.chunk_rows = chunk;
            head->ignore(segments);
          }
          clean.check();
          other.fill_ignored_rows(chunk == 0 ? std::nan("") : static_cast<double>(INFINITY));
          if (GetParam() == Products::library) other.fill_ignored_rows(1);
          other.run();
          EXPECT_TRUE(other.loss.same_bits(clean.loss));
          EXPECT_TRUE(other.d_weight.same_bits(clean.d_weight));
          EXPECT_TRUE(other.d_bias.same_bits(clean.d_bias));
          EXPECT_EQ(other.d_x.values(), clean.d_x.values());
        }
      }
    }
  }
}

// A row with an invalid label counts: its gradients are NaN, even if all other rows of its tile are
// ignored.
TEST_P(FusedLinearCrossEntropy, LabelsOutOfRangeAmongIgnoredRows) {
  LIGERDSL_SKIP_TRAPS_OF_EMULATOR();
  Head head(300, 12, 40, f32, {.reduction = Reduce::none}, {.bias = false});
  head.ignore({{128, 256}});
  head.labels[200] = 40;
  head.run();
  for (int64_t i = 128; i < 256; ++i) {
    EXPECT_EQ(std::isnan(head.loss.get(i)), i == 200) << i;
    EXPECT_EQ(std::isnan(head.d_x.get(i * head.h)), i == 200) << i;
  }
  EXPECT_EQ(ligerdsl_context_check(context(), nullptr), LIGERDSL_INVALID_LABEL);
}

TEST_P(FusedLinearCrossEntropy, LossesOfSegmentsOfIgnoredRows) {
  for (const DType type : {f32, bf16}) {
    for (const int64_t first : {0, 100, 300}) {
      Head head(453, 16, 300, type, {.smoothing = exact(0.1)}, {false, false, false});
      head.desc.with_lse = head.desc.with_entropy = 1;
      head.ignore({{first, first + 153}});
      head.check();
    }
  }
}

TEST_P(FusedLinearCrossEntropy, AllIgnored) {
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    Head head(7, 12, 20, f32, {.lse_square = exact(1e-3), .reduction = reduction});
    head.desc.chunk_rows = 3;
    for (int64_t& label : head.labels) label = -100;
    head.run();
    if (!head.desc.with_accuracy) head.accuracy.fill(Values(head.accuracy.size()));
    for (const Tensor& t :
         {head.loss, head.z_loss, head.accuracy, head.d_x, head.d_weight, head.d_bias}) {
      for (double value : t.values()) EXPECT_EQ(value, 0.0);
    }
  }
}

TEST_P(FusedLinearCrossEntropy, NoRows) {
  for (bool accumulate : {false, true}) {
    Head head(0, 12, 20);
    head.desc.accumulate = accumulate;
    head.d_weight.fill(Values(20 * 12, 5.0));
    head.d_bias.fill(Values(20, 5.0));
    head.run();
    EXPECT_EQ(head.loss.get(0), 0.0);
    for (double value : head.d_weight.values()) EXPECT_EQ(value, accumulate ? 5.0 : 0.0);
    for (double value : head.d_bias.values()) EXPECT_EQ(value, accumulate ? 5.0 : 0.0);
  }
}

// A NaN logit makes only its own row's results NaN.
TEST_P(FusedLinearCrossEntropy, NonFiniteLogits) {
  for (DType type : {f32, bf16}) {
    Head head(7, 24, 300, type, {.reduction = Reduce::none});
    Values x = head.x.values();
    x[2 * head.h + 5] = std::nan("");
    head.x.fill(x);
    head.run();
    for (int64_t i = 0; i < head.n; ++i) {
      EXPECT_EQ(std::isnan(head.loss.get(i)), i == 2) << i;
      EXPECT_EQ(std::isnan(head.d_x.get(i * head.h)), i == 2) << i;
    }
  }
}

// A bias of -inf gives a class zero probability, also if the class is a label.
TEST_P(FusedLinearCrossEntropy, ClassesWithoutProbability) {
  Head head(9, 24, 300, f32, {.reduction = Reduce::none});
  Values bias = head.bias.values();
  for (int64_t j = 0; j < head.v; j += 3) bias[j] = -INFINITY;
  for (int64_t i = 0; i < head.n; ++i) head.labels[i] = 3 * i + (i == 4 ? 0 : 1);
  head.bias.fill(bias);
  head.run();
  const CrossEntropyResult expected = cross_entropy_reference(head.logits(), head.labels, head.c);
  for (int64_t i = 0; i < head.n; ++i) {
    if (i == 4)
      EXPECT_EQ(head.loss.get(i), INFINITY);
    else
      EXPECT_NEAR(head.loss.get(i), expected.loss[i], 1e-5);
  }
}

// An offset common to all logits does not change gradients. This also holds if the label's logit is
// -inf and cannot be the base of the exponentials.
TEST_P(FusedLinearCrossEntropy, LabelsWithoutProbabilityAmongSmallLogits) {
  Head near(9, 24, 300, f32, {.reduction = Reduce::none}),
      far(9, 24, 300, f32, {.reduction = Reduce::none});
  Values bias = near.bias.values();
  bias[7] = -INFINITY;
  near.bias.fill(bias);
  for (double& each : bias) each -= 200;
  far.bias.fill(bias);
  for (Head* head : {&near, &far}) {
    head->labels[4] = 7;
    head->run();
  }
  EXPECT_EQ(far.loss.get(4), INFINITY);
  for (int64_t i = 0; i < far.n; ++i)
    for (int64_t j = 0; j < far.h; ++j)
      EXPECT_NEAR(far.d_x.get(i * far.h + j), near.d_x.get(i * far.h + j), 1e-4);
  for (int64_t j = 0; j < far.v * far.h; ++j)
    ASSERT_NEAR(far.d_weight.get(j), near.d_weight.get(j), 1e-4);
}

TEST_P(FusedLinearCrossEntropy, LabelsOfAnyStride) {
  Head near(23, 12, 40, bf16), strided(23, 12, 40, bf16);
  strided.label_stride = 3;
  for (Head* head : {&near, &strided}) {
    head->desc.chunk_rows = 5;
    head->run();
  }
  EXPECT_TRUE(strided.loss.same_bits(near.loss));
  EXPECT_TRUE(strided.d_x.same_bits(near.d_x));
  EXPECT_TRUE(strided.d_weight.same_bits(near.d_weight));
}

TEST_P(FusedLinearCrossEntropy, LabelsOutOfRangeAreReportedByRowOfTheBatch) {
  LIGERDSL_SKIP_TRAPS_OF_EMULATOR();
  Head head(9, 12, 20, f32, {.reduction = Reduce::none});
  head.desc.chunk_rows = 2;
  head.labels[7] = 20;
  head.run();
  EXPECT_TRUE(std::isnan(head.loss.get(7)));
  EXPECT_FALSE(std::isnan(head.loss.get(6)));
  EXPECT_EQ(ligerdsl_context_check(context(), nullptr), LIGERDSL_INVALID_LABEL);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("row 7"), std::string::npos)
      << ligerdsl_last_error();
}

}  // namespace
}  // namespace ligerdsl::test::fused_linear_cross_entropy_rows_test
