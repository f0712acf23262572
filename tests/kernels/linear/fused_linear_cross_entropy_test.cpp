// fused_linear_cross_entropy through the C ABI: it is kernels and matrix products, so the backend decides only which
// context it runs on.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/linear/linear_head.h"

namespace ligerdsl::test {
namespace {

using Desc = LinearHead::Desc;
using Args = LinearHead::Args;
using Head = LinearHead;

class FusedLinearCrossEntropy : public WithProducts {};
INSTANTIATE_TEST_SUITE_P(Products, FusedLinearCrossEntropy, makers_of_products(), products_name);

TEST_P(FusedLinearCrossEntropy, ShapesAndTypes) {
  const int64_t shapes[][3] = {{4, 8, 8}, {63, 41, 41}, {188, 31, 123}, {1, 1, 1}, {12, 64, 1000}, {3, 24, 20000}};
  for (const auto& [n, h, v] : shapes) {
    for (DType type : kFloats) Head(n, h, v, type, {}, {}, n % 2 * 3).check();
  }
}

TEST_P(FusedLinearCrossEntropy, EveryChunkSizeGivesTheSame) {
  for (DType type : {f32, bf16}) {
    for (int64_t chunk : {1, 2, 5, 16, 36, 37, 100}) {
      Head head(37, 19, 75, type, {.smoothing = exact(0.1), .lse_square = exact(1e-3), .weight = class_weights(75)});
      head.desc.chunk_rows = chunk;
      head.check();
    }
    Head published(37, 19, 75, type);
    published.desc.chunking = LIGERDSL_CHUNKING_PUBLISHED;
    published.check();
  }
}

TEST_P(FusedLinearCrossEntropy, Options) {
  const int64_t v = 67;
  const std::vector<CrossEntropyCase> cases = {{},
                                               {.smoothing = exact(0.1)},
                                               {.softcap = 3},
                                               {.lse_square = exact(1e-3)},
                                               {.weight = class_weights(v)},
                                               {.ignore_index = 2},
                                               {.ignore_index = 0,
                                                .smoothing = exact(0.2),
                                                .lse_square = exact(1e-3),
                                                .softcap = 4,
                                                .weight = class_weights(v)}};
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    for (CrossEntropyCase c : cases) {
      c.reduction = reduction;
      for (int64_t chunk : {0, 4}) {
        Head head(11, 23, v, f32, c);
        head.desc.chunk_rows = chunk;
        head.check();
      }
    }
  }
}

TEST_P(FusedLinearCrossEntropy, WithoutBias) {
  for (DType type : kFloats) {
    Head head(9, 17, 33, type, {}, {.bias = false});
    head.desc.bias_dtype = 0;
    head.desc.chunk_rows = 2;
    head.check();
  }
}

TEST_P(FusedLinearCrossEntropy, GradientsAreIndependent) {
  for (const Gradients wanted : {Gradients{true, false, false}, Gradients{false, true, false},
                                 Gradients{false, false, true}, Gradients{false, false, false}}) {
    for (DType type : {f32, bf16}) {
      Head head(10, 15, 31, type, {}, wanted);
      head.desc.chunk_rows = 4;
      head.check();
      if (!wanted.x) {
        EXPECT_TRUE(std::isnan(head.d_x.get(0)));
      }
      if (!wanted.weight) {
        EXPECT_TRUE(std::isnan(head.d_weight.get(0)));
      }
    }
  }
}

TEST_P(FusedLinearCrossEntropy, UpstreamGradient) {
  for (Reduce reduction : {Reduce::mean, Reduce::sum, Reduce::none}) {
    Head head(13, 12, 40, f32, {.smoothing = exact(0.1), .reduction = reduction});
    Values g{3.0};
    if (reduction == Reduce::none) {
      g = Random(31).normals(13);
      for (double& value : g) value = exact(value);
    }
    head.upstream(g);
    head.desc.chunk_rows = 5;
    head.check();
  }
}

TEST_P(FusedLinearCrossEntropy, SmallTensorsInTheTypeOfX) {
  for (DType type : {f16, bf16}) {
    for (Reduce reduction : {Reduce::mean, Reduce::none}) {
      Head head(
          13, 12, 40, type,
          {.smoothing = exact(0.1), .lse_square = exact(1e-3), .weight = class_weights(40), .reduction = reduction});
      head.upstream(reduction == Reduce::none ? Random(31).normals(13) : Values{0.7});
      head.keep_small_tensors_in_type();
      head.desc.chunk_rows = 5;
      head.check();
    }
  }
}

// A CPU multiplies by the f32 weight as it is.
TEST_P(FusedLinearCrossEntropy, WeightInF32) {
  for (DType type : kFloats) {
    for (DType d_weight : {f32, type}) {
      for (int64_t chunk : {0, 5}) {
        Head head(13, 24, 75, type, {.smoothing = exact(0.1)});
        head.keep_weight_in_f32();
        head.set_d_weight_type(d_weight);
        head.desc.chunk_rows = chunk;
        head.check();
      }
    }
  }
  Head given(100, 64, 300, bf16), master(100, 64, 300, bf16);
  master.keep_weight_in_f32();
  const size_t copy = 300 * 64 * 4;
  if (!on_gpu()) {
    EXPECT_EQ(given.workspace_bytes(100) - master.workspace_bytes(100), copy);
  } else {
    EXPECT_EQ(master.workspace_bytes(100) - given.workspace_bytes(100), copy / 2);
  }
}

// Limits that leave no room for a copy of the weight: it is made in blocks, by rows and by vocabulary. On a CPU it is a
// 16-bit weight that is copied, on a GPU one in f32.
TEST_P(FusedLinearCrossEntropy, CopiesOfTheWeightInBlocks) {
  const int64_t n = 90, h = 64, v = 1405;
  const auto copy = static_cast<size_t>(v * h) * (on_gpu() ? 2 : 4);
  for (DType type : on_gpu() ? std::vector{bf16} : std::vector{f16, bf16}) {
    for (DType d_weight : {f32, type}) {
      for (bool with_d_x : {true, false}) {
        Head head(n, h, v, type, {.smoothing = exact(0.1)}, {.x = with_d_x});
        if (on_gpu()) head.keep_weight_in_f32();
        head.set_d_weight_type(d_weight);
        head.desc.chunk_rows = 1;
        const size_t least = head.workspace_bytes(n) - copy;
        for (int64_t chunk : {0, 7}) {
          head.desc.chunk_rows = chunk;
          for (size_t more : {size_t{100'000}, size_t{200'000}}) {
            const size_t sums = chunk > 0 && d_weight != f32 ? static_cast<size_t>(v * h) * 4 : 0;
            head.desc.max_workspace_bytes = static_cast<int64_t>(least + more);
            if (sums > 0 && head.workspace_bytes(n) == SIZE_MAX) continue;
            EXPECT_LE(head.workspace_bytes(n), least + more);
            head.check();
          }
        }
      }
    }
  }
  Head first(n, h, v, bf16), second(n, h, v, bf16);
  for (Head* head : {&first, &second}) {
    if (on_gpu()) head->keep_weight_in_f32();
    head->desc.max_workspace_bytes = static_cast<int64_t>(head->workspace_bytes(n) - copy);
    head->run();
  }
  EXPECT_TRUE(first.d_x.same_bits(second.d_x));
  EXPECT_TRUE(first.d_weight.same_bits(second.d_weight));
}

// An upstream gradient or a class weight of 0 leaves nothing of a row's gradient.
TEST_P(FusedLinearCrossEntropy, RowsThatCountForNothing) {
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

// Factors of rows stay numbers that f32 holds: an upstream gradient of 1e-20 where others are e^55 times as likely as the label.
TEST_P(FusedLinearCrossEntropy, SmallUpstreamGradientsOfUnlikelyLabels) {
  const int64_t n = 13, h = 12, v = 40, row = 3;
  for (const DType type : {f32, bf16}) {
    Head head(n, h, v, type, {.reduction = Reduce::none});
    head.upstream(Values(n, exact(1e-20)));
    head.bias.set(head.labels[row], -55.0);
    head.run();
    const Values d = cross_entropy_oracle(head.logits(), head.labels, head.c).d_logits;
    const Values to_x = product_gradients(d, head.x, head.weight, n, h, v).x, all = head.d_x.values();
    const auto of_row = [&](const Values& of) { return Values(of.begin() + row * h, of.begin() + (row + 1) * h); };
    EXPECT_TRUE(close_normwise(of_row(all), of_row(to_x), type == f32 ? 1e-5 : 1e-2));
  }
}

// Logits that stand a little and far above the label's, and so far that their exponentials would not be numbers.
TEST_P(FusedLinearCrossEntropy, LargeLogits) {
  for (DType type : {f32, bf16}) {
    // A GPU's stored logits are rounded to 16 bits: their exponentials are worth nothing at 100.
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

// What is no number in an ignored row stays there.
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

// Tiles of rows that do not count are not multiplied: at the beginning, in the middle, at the end, where fewer rows are left, and all
// but one. What is in their rows reaches nothing.
TEST_P(FusedLinearCrossEntropy, StretchesOfIgnoredRows) {
  const int64_t n = 453, v = 300;
  const std::vector<std::vector<std::pair<int64_t, int64_t>>> all_stretches = {
      {{0, 128}}, {{100, 270}}, {{200, n}}, {{384, n}}, {{0, 384}}, {{0, 130}, {255, 452}}, {{0, n}}};
  const std::vector<CrossEntropyCase> cases = {
      {},
      {.smoothing = exact(0.1), .lse_square = exact(1e-3), .weight = class_weights(v), .reduction = Reduce::sum},
      {.softcap = 3, .reduction = Reduce::none}};
  for (const auto& stretches : all_stretches) {
    for (const CrossEntropyCase& c : cases) {
      for (const DType type : {f32, bf16}) {
        for (const int64_t chunk : {0, 300}) {
          if (on_gpu() && type == f32 && chunk == 0) continue;
          Head clean(n, 16, v, type, c), other(n, 16, v, type, c);
          for (Head* head : {&clean, &other}) {
            head->desc.chunk_rows = chunk;
            head->ignore(stretches);
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

// A label that is no class counts: its row's gradients are no numbers, though all others of its tile are ignored.
TEST_P(FusedLinearCrossEntropy, LabelsOutOfRangeAmongIgnoredRows) {
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

TEST_P(FusedLinearCrossEntropy, LossesAloneOfStretchesOfIgnoredRows) {
  for (const DType type : {f32, bf16}) {
    for (const int64_t first : {0, 100, 300}) {
      Head head(453, 16, 300, type, {.smoothing = exact(0.1)}, {false, false, false});
      head.desc.with_lse = head.desc.with_entropy = 1;
      head.ignore({{first, first + 153}});
      head.check();
    }
  }
}

// A logit that is no number makes its row's results none, and no other row's.
TEST_P(FusedLinearCrossEntropy, LogitsThatAreNoNumbers) {
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

// Classes that a bias of -inf takes out, the label's among them.
TEST_P(FusedLinearCrossEntropy, ClassesWithoutProbability) {
  Head head(9, 24, 300, f32, {.reduction = Reduce::none});
  Values bias = head.bias.values();
  for (int64_t j = 0; j < head.v; j += 3) bias[j] = -INFINITY;
  for (int64_t i = 0; i < head.n; ++i) head.labels[i] = 3 * i + (i == 4 ? 0 : 1);
  head.bias.fill(bias);
  head.run();
  const CrossEntropyResult expected = cross_entropy_oracle(head.logits(), head.labels, head.c);
  for (int64_t i = 0; i < head.n; ++i) {
    if (i == 4)
      EXPECT_EQ(head.loss.get(i), INFINITY);
    else
      EXPECT_NEAR(head.loss.get(i), expected.loss[i], 1e-5);
  }
}

// Whatever all logits have in common, gradients have nothing of it: also where the label has no probability, and nothing tells the
// others' size before they are made.
TEST_P(FusedLinearCrossEntropy, LabelsWithoutProbabilityAmongSmallLogits) {
  Head near(9, 24, 300, f32, {.reduction = Reduce::none}), far(9, 24, 300, f32, {.reduction = Reduce::none});
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
    for (int64_t j = 0; j < far.h; ++j) EXPECT_NEAR(far.d_x.get(i * far.h + j), near.d_x.get(i * far.h + j), 1e-4);
  for (int64_t j = 0; j < far.v * far.h; ++j) ASSERT_NEAR(far.d_weight.get(j), near.d_weight.get(j), 1e-4);
}

TEST_P(FusedLinearCrossEntropy, LabelsOfAnyStride) {
  Head near(23, 12, 40, bf16), apart(23, 12, 40, bf16);
  apart.label_stride = 3;
  for (Head* head : {&near, &apart}) {
    head->desc.chunk_rows = 5;
    head->run();
  }
  EXPECT_TRUE(apart.loss.same_bits(near.loss));
  EXPECT_TRUE(apart.d_x.same_bits(near.d_x));
  EXPECT_TRUE(apart.d_weight.same_bits(near.d_weight));
}

TEST_P(FusedLinearCrossEntropy, TokenScaling) {
  for (Reduce reduction : {Reduce::mean, Reduce::sum, Reduce::none}) {
    Head head(13, 12, 9, f32,
              {.smoothing = exact(0.1), .lse_square = exact(1e-2), .softcap = 5, .reduction = reduction});
    head.desc.use_token_scaling = 1;
    head.desc.chunk_rows = 4;
    head.run();
    const Values z = head.logits();
    const CrossEntropyResult mean = cross_entropy_oracle(z, head.labels, head.c);
    CrossEntropyCase each = head.c;
    each.reduction = Reduce::none;
    CrossEntropyResult rows = cross_entropy_oracle(z, head.labels, each);
    double valid = 0;
    for (int64_t label : head.labels) valid += label != head.c.ignore_index;
    CrossEntropyResult expected = mean;
    Values loss, z_loss;
    for (int64_t i = 0; i < head.n; ++i) {
      double p = 0;
      if (head.labels[i] != head.c.ignore_index)
        p = std::exp(5 * std::tanh(z[i * head.v + head.labels[i]] / 5) - rows.lse[i]);
      const double factor = reduction == Reduce::mean ? p / valid : p;
      loss.push_back(factor * rows.loss[i]);
      z_loss.push_back(factor * rows.z_loss[i]);
      for (int64_t j = 0; j < head.v; ++j) expected.d_logits[i * head.v + j] *= p;
    }
    if (reduction != Reduce::none) {
      loss = {std::accumulate(loss.begin(), loss.end(), 0.0)};
      z_loss = {std::accumulate(z_loss.begin(), z_loss.end(), 0.0)};
    }
    expected.loss = loss;
    expected.z_loss = z_loss;
    head.check_against(expected);
  }
}

TEST_P(FusedLinearCrossEntropy, Lse) {
  for (DType type : kFloats) {
    for (const Gradients wanted : {Gradients{}, Gradients{false, false, false}}) {
      for (int64_t chunk : {0, 4}) {
        Head head(13, 12, 37, type, {.smoothing = exact(0.1), .softcap = 5, .temperature = 0.5}, wanted);
        head.desc.with_lse = 1;
        head.desc.chunk_rows = chunk;
        head.check();
      }
    }
  }
  Head blocks(90, 24, 405);  // of the vocabulary, which read it
  const size_t kept = blocks.workspace_bytes(90);
  blocks.desc.with_lse = 1;
  EXPECT_EQ(kept - blocks.workspace_bytes(90), 512) << "90 numbers of the workspace";
  blocks.desc.chunk_rows = 1;
  blocks.desc.max_workspace_bytes = static_cast<int64_t>(blocks.workspace_bytes(90)) + 6000;
  blocks.desc.chunk_rows = 0;
  blocks.check();
}

TEST_P(FusedLinearCrossEntropy, Accumulate) {
  for (DType type : {f32, bf16}) {
    for (int64_t chunk : {0, 3}) {
      Head head(10, 14, 30, type, {.reduction = Reduce::sum});
      head.desc.accumulate = 1;
      head.desc.chunk_rows = chunk;
      head.d_weight_before = Random(41).normals(30 * 14);
      head.d_bias_before = Random(42).normals(30);
      head.d_weight.fill(head.d_weight_before);
      head.d_bias.fill(head.d_bias_before);
      head.check();
    }
  }
}

TEST_P(FusedLinearCrossEntropy, GradientsInTheParametersType) {
  for (DType type : {f16, bf16}) {
    for (int64_t chunk : {0, 3}) {
      Head head(10, 14, 30, type, {.reduction = Reduce::sum});
      head.set_d_weight_type(type);
      head.bias = random_vector(type, 30, 23);
      head.desc.bias_dtype = head.desc.d_bias_dtype = code_of(type);
      head.d_bias = Tensor(type, {30});
      head.desc.chunk_rows = chunk;
      head.check();
    }
  }
}

TEST_P(FusedLinearCrossEntropy, InPlace) {
  for (DType type : {f32, bf16}) {
    Head apart(11, 14, 30, type), over(11, 14, 30, type);
    for (Head* head : {&apart, &over}) head->desc.chunk_rows = 4;
    apart.run();
    over.desc.in_place = 1;
    over.d_x = over.x;
    over.run();
    EXPECT_TRUE(over.x.same_bits(apart.d_x));
    EXPECT_TRUE(over.d_weight.same_bits(apart.d_weight));
  }
}

TEST_P(FusedLinearCrossEntropy, TwoRunsAreBitIdentical) {
  for (DType type : kFloats) {
    Head once(29, 40, 500, type), again(29, 40, 500, type);
    for (Head* head : {&once, &again}) {
      head->desc.chunk_rows = 8;
      head->run();
    }
    EXPECT_TRUE(once.loss.same_bits(again.loss) && once.d_x.same_bits(again.d_x));
    EXPECT_TRUE(once.d_weight.same_bits(again.d_weight) && once.d_bias.same_bits(again.d_bias));
  }
}

TEST_P(FusedLinearCrossEntropy, AllIgnored) {
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    Head head(7, 12, 20, f32, {.lse_square = exact(1e-3), .reduction = reduction});
    head.desc.chunk_rows = 3;
    for (int64_t& label : head.labels) label = -100;
    head.run();
    if (!head.desc.with_accuracy) head.accuracy.fill(Values(head.accuracy.size()));
    for (const Tensor& t : {head.loss, head.z_loss, head.accuracy, head.d_x, head.d_weight, head.d_bias}) {
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

TEST_P(FusedLinearCrossEntropy, LabelsOutOfRangeAreReportedByRowOfTheBatch) {
  Head head(9, 12, 20, f32, {.reduction = Reduce::none});
  head.desc.chunk_rows = 2;
  head.labels[7] = 20;
  head.run();
  EXPECT_TRUE(std::isnan(head.loss.get(7)));
  EXPECT_FALSE(std::isnan(head.loss.get(6)));
  EXPECT_EQ(ligerdsl_context_check(context(), nullptr), LIGERDSL_INVALID_LABEL);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("row 7"), std::string::npos) << ligerdsl_last_error();
}

TEST_P(FusedLinearCrossEntropy, WorkspaceStaysBelowItsLimit) {
  Head head(300, 16, 400);
  const size_t whole = head.workspace_bytes(300);
  head.desc.chunk_rows = 1;
  const size_t least = head.workspace_bytes(300);
  head.desc.chunk_rows = 0;
  const size_t lse = 300 * 4;  // where chunks may be chosen
  for (size_t limit : {least + lse + 1024, least + lse + 100000, (least + whole) / 2}) {
    head.desc.max_workspace_bytes = static_cast<int64_t>(limit);
    EXPECT_LE(head.workspace_bytes(300), limit);
    EXPECT_GT(head.workspace_bytes(300), limit - limit / 3) << "room is left unused";
    head.check();
  }
  head.desc.max_workspace_bytes = 1000;
  EXPECT_EQ(head.workspace_bytes(300), SIZE_MAX);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`max_workspace_bytes`: expected at least"), std::string::npos)
      << ligerdsl_last_error();
  EXPECT_EQ(head.execute(), LIGERDSL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("max_workspace_bytes"), std::string::npos) << ligerdsl_last_error();
}

// Limits that leave room for few rows: d_weight is then made by blocks of the vocabulary, which are also cut by rows.
// Two numbers of a row and tile of the product, and a few, are all that a loss takes where logits are not stored.
TEST_P(FusedLinearCrossEntropy, LossesAloneKeepNoLogits) {
  const int64_t n = 300, v = 2000;
  for (const CrossEntropyCase& c : std::vector<CrossEntropyCase>{
           {}, {.smoothing = exact(0.1)}, {.smoothing = exact(0.1), .softcap = 3, .weight = class_weights(v)}}) {
    for (const DType type : {f32, bf16}) {
      for (const bool with_entropy : {false, true}) {
        Head head(n, 16, v, type, c, {false, false, false});
        head.desc.with_lse = 1;
        head.desc.with_entropy = with_entropy;
        const size_t logits = static_cast<size_t>(n) * v * 2, bytes = head.workspace_bytes(n);
        if (GetParam() == Products::kernels)
          EXPECT_LT(bytes, logits / 4);
        else
          EXPECT_GE(bytes, logits);
        head.check();
      }
    }
  }
}

// Where no logit is rounded, rows whose largest logits decide everything are right however large these are: in one pass, and
// where a second product makes the gradient of the weight by vocabulary. Every option that is said to store no logits.
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
        if (head.rounds_logits()) GTEST_SKIP() << "products store rounded logits";
        head.desc.with_entropy = 1;
        head.least_entropy_gate = 1e-4;
        if (c.softcap > 0) head.desc.with_accuracy = head.desc.with_predictions = 0;  // capped logits tie
        Values x = head.x.values();
        for (double& value : x) value *= scale;
        head.x.fill(x);
        const Values z = head.logits();
        for (int64_t i = 0; i < n; i += 2)  // the label on top
          head.labels[i] = std::max_element(z.begin() + i * v, z.begin() + (i + 1) * v) - (z.begin() + i * v);
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

// The lowest of several largest logits is the prediction, in the same tile of the product and in others.
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

TEST_P(FusedLinearCrossEntropy, SmallWorkspacesGoByVocabulary) {
  const int64_t v = 405;
  const std::vector<CrossEntropyCase> cases = {{},
                                               {.smoothing = exact(0.1)},
                                               {.softcap = 3},
                                               {.lse_square = exact(1e-3)},
                                               {.weight = class_weights(v)},
                                               {.temperature = 1.5, .d_entropy = Values(90, 0.25)},
                                               {.ignore_index = 2,
                                                .smoothing = exact(0.2),
                                                .lse_square = exact(1e-3),
                                                .softcap = 4,
                                                .weight = class_weights(v)}};
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    for (CrossEntropyCase c : cases) {
      c.reduction = reduction;
      for (DType type : {f32, bf16}) {
        Head head(90, 24, v, type, c);
        if (type == bf16) head.set_d_weight_type(bf16);
        head.desc.chunk_rows = 1;
        const auto least = static_cast<int64_t>(head.workspace_bytes(90));
        head.desc.chunk_rows = 0;
        for (int64_t more : {int64_t{6000}, int64_t{40000}}) {
          head.desc.max_workspace_bytes = least + more;
          head.check();
        }
      }
    }
  }
}

// The entropies of all rows are kept where the caller has no memory for them.
TEST_P(FusedLinearCrossEntropy, EntropyAndTemperature) {
  for (int64_t chunk : {0, 4}) {
    for (bool wanted : {true, false}) {
      for (Reduce reduction : {Reduce::mean, Reduce::none}) {
        Head head(13, 12, 37, bf16,
                  {.softcap = 5, .reduction = reduction, .temperature = 0.5, .d_entropy = Random(35).normals(13)});
        for (double& value : head.c.d_entropy) value = exact(value);
        head.d_entropy.fill(head.c.d_entropy);
        head.desc.with_entropy = wanted;
        head.desc.chunk_rows = chunk;
        head.check();
      }
    }
  }
  Head kept(90, 24, 405, f32, {.temperature = 1.5, .d_entropy = Values(90, 0.25)});
  kept.desc.with_entropy = 0;
  kept.desc.chunk_rows = 1;
  kept.desc.max_workspace_bytes = static_cast<int64_t>(kept.workspace_bytes(90)) + 6000;
  kept.desc.chunk_rows = 0;
  kept.check();
}

TEST_P(FusedLinearCrossEntropy, ByVocabularyWithUpstreamAndAccumulation) {
  for (Reduce reduction : {Reduce::mean, Reduce::none}) {
    Head head(70, 12, 300, f32, {.smoothing = exact(0.1), .reduction = reduction});
    Values g{3.0};
    if (reduction == Reduce::none) {
      g = Random(31).normals(70);
      for (double& value : g) value = exact(value);
    }
    head.upstream(g);
    head.desc.accumulate = 1;
    head.d_weight_before = Random(32).normals(300 * 12);
    head.d_bias_before = Random(33).normals(300);
    for (double& value : head.d_weight_before) value = exact(value);
    for (double& value : head.d_bias_before) value = exact(value);
    head.d_weight.fill(head.d_weight_before);
    head.d_bias.fill(head.d_bias_before);
    head.desc.chunk_rows = 1;
    head.desc.max_workspace_bytes = static_cast<int64_t>(head.workspace_bytes(70)) + 20000;
    head.desc.chunk_rows = 0;
    head.check();
  }
}

TEST_P(FusedLinearCrossEntropy, ByVocabularyWithTokenScaling) {
  Head by_rows(70, 12, 300, f32, {.smoothing = exact(0.1), .softcap = 5});
  by_rows.desc.use_token_scaling = 1;
  by_rows.desc.chunk_rows = 1;
  const auto least = static_cast<int64_t>(by_rows.workspace_bytes(70));
  Head by_vocabulary(70, 12, 300, f32, {.smoothing = exact(0.1), .softcap = 5});
  by_vocabulary.desc.use_token_scaling = 1;
  by_vocabulary.desc.max_workspace_bytes = least + 20000;
  by_rows.run();
  by_vocabulary.run();
  EXPECT_TRUE(close_normwise(by_vocabulary.d_weight.values(), by_rows.d_weight.values(), 1e-5));
  EXPECT_TRUE(close_normwise(by_vocabulary.d_x.values(), by_rows.d_x.values(), 1e-5));
}

TEST_P(FusedLinearCrossEntropy, OneCall) {
  Head head(12, 10, 50);
  Desc given = head.desc;  // what the tensors say is left out
  given.n_classes = given.n_cols = 0;
  given.dtype = given.label_dtype = given.bias_dtype = given.d_weight_dtype = given.d_bias_dtype = 0;
  given.with_z_loss = given.with_accuracy = given.with_predictions = given.with_d_x = 0;
  Transfer transfer;
  const Args args = head.arguments(transfer);
  require(ligerdsl_fused_linear_cross_entropy(context(), &given, &args, nullptr));
  transfer.back();
  head.check_against(cross_entropy_oracle(head.logits(), head.labels, head.c));
}

TEST_P(FusedLinearCrossEntropy, Misuse) {
  const auto plan_status = [](const Desc& desc) {
    ligerdsl_plan_t plan = nullptr;
    const ligerdsl_status_t status = ligerdsl_fused_linear_cross_entropy_plan(context(), &desc, &plan);
    ligerdsl_plan_destroy(plan);
    return status;
  };
  Head head(4, 8, 8, bf16);
  Desc desc = head.desc;
  desc.bias_dtype = 0;
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_ARGUMENT) << "d_bias without a bias";
  desc = head.desc;
  desc.d_weight_dtype = LIGERDSL_F16;
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_DTYPE);
  desc = head.desc;
  desc.with_d_x = desc.d_weight_dtype = desc.d_bias_dtype = 0;
  desc.with_d_entropy = 1;
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_ARGUMENT) << "an upstream gradient without a gradient";
  desc = head.desc;
  desc.weight_dtype = LIGERDSL_F16;
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_DTYPE);
  desc = head.desc;
  desc.dtype = LIGERDSL_F32;
  desc.weight_dtype = LIGERDSL_BF16;
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_DTYPE);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`weight_dtype`: expected f32 where x is f32, got bf16"),
            std::string::npos)
      << ligerdsl_last_error();
  desc = head.desc;
  desc.temperature = -1;
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_ARGUMENT);
  desc = head.desc;
  desc.d_weight_dtype = LIGERDSL_BF16;
  desc.accumulate = 1;
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_DTYPE);
  head.x = Tensor(bf16, {12}).view({4, 8}, {1, 1});
  EXPECT_EQ(head.execute(), LIGERDSL_INVALID_SHAPE) << "rows that overlap";
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`x`"), std::string::npos) << ligerdsl_last_error();
}

}  // namespace
}  // namespace ligerdsl::test
