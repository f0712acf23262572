// Tests fused_linear_cross_entropy through the C ABI. The operation runs kernels and matmuls, so
// the backend only selects the context.
#include "tests/kernels/fused_linear/library/fused_linear_cross_entropy.h"

#include <cmath>
#include <numeric>

namespace ligerdsl::test::fused_linear_cross_entropy_test {
namespace {

using Desc = LinearHead::Desc;
using Args = LinearHead::Args;
using Head = LinearHead;

INSTANTIATE_TEST_SUITE_P(Products, FusedLinearCrossEntropy, makers_of_products(), products_name);

TEST_P(FusedLinearCrossEntropy, ShapesAndTypes) {
  LIGERDSL_SKIP_LONG_EMULATION();
  const int64_t shapes[][3] = {{4, 8, 8}, {63, 41, 41},   {188, 31, 123},
                               {1, 1, 1}, {12, 64, 1000}, {3, 24, 20000}};
  for (const auto& [n, h, v] : shapes) {
    for (DType type : kFloats) Head(n, h, v, type, {}, {}, n % 2 * 3).check();
  }
}

TEST_P(FusedLinearCrossEntropy, EveryChunkSizeGivesTheSame) {
  for (DType type : {f32, bf16}) {
    for (int64_t chunk : {1, 2, 5, 16, 36, 37, 100}) {
      Head head(37, 19, 75, type,
                {.smoothing = exact(0.1), .lse_square = exact(1e-3), .weight = class_weights(75)});
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
      Head head(13, 12, 40, type,
                {.smoothing = exact(0.1),
                 .lse_square = exact(1e-3),
                 .weight = class_weights(40),
                 .reduction = reduction});
      head.upstream(reduction == Reduce::none ? Random(31).normals(13) : Values{0.7});
      head.keep_small_tensors_in_type();
      head.desc.chunk_rows = 5;
      head.check();
    }
  }
}

// A CPU multiplies by the f32 weight without rounding it.
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

TEST_P(FusedLinearCrossEntropy, TokenScaling) {
  for (Reduce reduction : {Reduce::mean, Reduce::sum, Reduce::none}) {
    Head head(
        13, 12, 9, f32,
        {.smoothing = exact(0.1), .lse_square = exact(1e-2), .softcap = 5, .reduction = reduction});
    head.desc.use_token_scaling = 1;
    head.desc.chunk_rows = 4;
    head.run();
    const Values z = head.logits();
    const CrossEntropyResult mean = cross_entropy_reference(z, head.labels, head.c);
    CrossEntropyCase each = head.c;
    each.reduction = Reduce::none;
    CrossEntropyResult rows = cross_entropy_reference(z, head.labels, each);
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
        Head head(13, 12, 37, type, {.smoothing = exact(0.1), .softcap = 5, .temperature = 0.5},
                  wanted);
        head.desc.with_lse = 1;
        head.desc.chunk_rows = chunk;
        head.check();
      }
    }
  }
  Head blocks(90, 24, 405);  // computes d_weight in blocks of the vocabulary, which read lse
  const size_t kept = blocks.workspace_bytes(90);
  blocks.desc.with_lse = 1;
  EXPECT_EQ(kept - blocks.workspace_bytes(90), 512) << "90 f32 values in the workspace";
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
    Head separate(11, 14, 30, type), over(11, 14, 30, type);
    for (Head* head : {&separate, &over}) head->desc.chunk_rows = 4;
    separate.run();
    over.desc.in_place = 1;
    over.d_x = over.x;
    over.run();
    EXPECT_TRUE(over.x.same_bits(separate.d_x));
    EXPECT_TRUE(over.d_weight.same_bits(separate.d_weight));
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

// The workspace keeps the entropies of all rows if the caller has no memory for them.
TEST_P(FusedLinearCrossEntropy, EntropyAndTemperature) {
  for (int64_t chunk : {0, 4}) {
    for (bool wanted : {true, false}) {
      for (Reduce reduction : {Reduce::mean, Reduce::none}) {
        Head head(13, 12, 37, bf16,
                  {.softcap = 5,
                   .reduction = reduction,
                   .temperature = 0.5,
                   .d_entropy = Random(35).normals(13)});
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

TEST_P(FusedLinearCrossEntropy, OneCall) {
  Head head(12, 10, 50);
  Desc given = head.desc;  // lacks the fields that the tensors imply
  given.n_classes = given.n_cols = 0;
  given.dtype = given.label_dtype = given.bias_dtype = given.d_weight_dtype = given.d_bias_dtype =
      0;
  given.with_z_loss = given.with_accuracy = given.with_predictions = given.with_d_x = 0;
  Transfer transfer;
  const Args args = head.arguments(transfer);
  require(ligerdsl_fused_linear_cross_entropy(context(), &given, &args, nullptr));
  transfer.back();
  head.check_against(cross_entropy_reference(head.logits(), head.labels, head.c));
}

TEST_P(FusedLinearCrossEntropy, Misuse) {
  const auto plan_status = [](const Desc& desc) {
    ligerdsl_plan_t plan = nullptr;
    const ligerdsl_status_t status =
        ligerdsl_fused_linear_cross_entropy_plan(context(), &desc, &plan);
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
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_ARGUMENT)
      << "an upstream gradient without a gradient";
  desc = head.desc;
  desc.weight_dtype = LIGERDSL_F16;
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_DTYPE);
  desc = head.desc;
  desc.dtype = LIGERDSL_F32;
  desc.weight_dtype = LIGERDSL_BF16;
  EXPECT_EQ(plan_status(desc), LIGERDSL_INVALID_DTYPE);
  EXPECT_NE(std::string(ligerdsl_last_error())
                .find("`weight_dtype`: expected f32 where x is f32, got bf16"),
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
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`x`"), std::string::npos)
      << ligerdsl_last_error();
}

}  // namespace
}  // namespace ligerdsl::test::fused_linear_cross_entropy_test
