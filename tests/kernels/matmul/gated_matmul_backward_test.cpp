// Compares the gradients of gate and up, and the recomputed out, with float64 and with results of
// the forward's stored gate and up.
#include <cmath>
#include <limits>

#include "kernels/elementwise/activation_reference.h"
#include "kernels/elementwise/gated_activation.h"
#include "kernels/matmul/gated_matmul.h"
#include "kernels/matmul/gated_matmul_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::gated_matmul_backward_test {
namespace {

using kernels::Activation;
using kernels::GatedMatmulBackwardOptions;

struct Trial {
  int64_t m, f, k;
  GatedMatmulBackwardOptions options;  // sizes are set from f and k
  MetaValues config = {};
  int sms = 0;  // SMs of a smaller GPU, or 0 for all SMs of the machine

  struct Tensors {
    Tensor x, weight, d_out, d_gate_up, out;
  };
  Tensors tensors(uint64_t seed, int64_t gap) const {
    return {random_rows(options.type, m, k, seed, gap),
            random_rows(options.type, 2 * f, k, seed + 1, gap, 0.3),
            random_rows(options.type, m, f, seed + 2, gap),
            Tensor::rows(options.type, m, 2 * f, gap), Tensor::rows(options.type, m, f, gap)};
  }
  // Returns half of a tensor's rows, or in columns_of half of its columns. half = 0 is the first.
  Tensor rows_of(const Tensor& t, int half) const {
    return t.view({f, k}, t.strides(), half * f * t.strides()[0]);
  }
  Tensor columns_of(const Tensor& t, int half) const {
    return t.view({m, f}, t.strides(), half * f);
  }

  Arguments arguments(const Tensors& t) const {
    Arguments all;
    all.tensor("x", t.x)
        .tensor("gate_weight", rows_of(t.weight, 0))
        .tensor("up_weight", rows_of(t.weight, 1));
    return all.tensor("out", t.out);
  }
  void run(const Tensors& t) {
    options.cols = f, options.width = k;
    kernels::Machine on = machine();
    if (sms) on.sms = sms;
    Arguments all = arguments(t);
    all.tensor("d_out", t.d_out);
    all.tensor("d_gate", columns_of(t.d_gate_up, 0)).tensor("d_up", columns_of(t.d_gate_up, 1));
    const auto& kernel = kernels::gated_matmul_backward_kernel;
    backend().run(kernel.build(on, options, kernel.chosen(on, options, config)), m, all);
  }
  void check(uint64_t seed, int64_t gap = 0) {
    SCOPED_TRACE(kernels::meta_text(options) + " " + std::to_string(m) + "x" + std::to_string(f) +
                 "x" + std::to_string(k) + " seed " + std::to_string(seed));
    const Tensors t = tensors(seed, gap);
    run(t);
    const auto kind = static_cast<reference::ActivationKind>(options.activation);
    const auto made =
        reference::gated_matmul_reference(kind, t.x.values(), t.weight.values(), m, f, k);
    const auto wanted =
        reference::gated_matmul_gradient_reference(kind, t.d_out.values(), made.gate_up, m, f);
    const double gate = gate_r(options.type, k) * backend().summation_slack();
    EXPECT_TRUE(close_normwise(t.d_gate_up.values(), wanted, 4 * gate));
    if (options.stores_out) {
      EXPECT_TRUE(close_normwise(t.out.values(), made.out, 2 * gate));
    }
    for (const Tensor& each : {t.out, t.d_gate_up}) EXPECT_TRUE(each.untouched_outside());
  }
};

TEST(GatedMatmulBackward, EveryTypeAndActivation) {
  uint64_t seed = 11;
  for (const DType type : kFloats)
    for (const bool stores : {false, true}) {
      const GatedMatmulBackwardOptions options{.type = type, .stores_out = stores};
      Trial{.m = 33, .f = 40, .k = 72, .options = options}.check(seed += 5);
      Trial{.m = 130, .f = 24, .k = 40, .options = options}.check(seed += 5, 8);
      Trial{.m = 7, .f = 13, .k = 9, .options = options}.check(seed += 5, 3);
    }
  for (const Activation activation : {Activation::gelu_tanh, Activation::gelu_erf, Activation::silu,
                                      Activation::relu, Activation::relu_squared})
    Trial{.m = 20, .f = 24, .k = 40, .options = {.type = bf16, .activation = activation}}.check(
        seed += 5);
}

TEST(GatedMatmulBackward, OneRowAndOneColumn) {
  uint64_t seed = 251;
  for (const DType type : kFloats) {
    Trial{.m = 1, .f = 1, .k = 1, .options = {.type = type}}.check(seed += 5);
    Trial{.m = 1, .f = 200, .k = 8, .options = {.type = type}}.check(seed += 5);
    Trial{.m = 150, .f = 1, .k = 16, .options = {.type = type, .stores_out = true}}.check(seed +=
                                                                                          5);
  }
}

// The gradients have the bits of swiglu_backward or geglu_backward of the forward's stored gate and
// up. `out` has the bits of the forward's out.
TEST(GatedMatmulBackward, MatchesStoredGateAndUp) {
  uint64_t seed = 301;
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh})
    for (const DType type : {f16, bf16}) {
      Trial trial{.m = 70,
                  .f = 72,
                  .k = 40,
                  .options = {.type = type, .activation = activation, .stores_out = true}};
      const Trial::Tensors t = trial.tensors(seed += 5, 8);
      trial.run(t);
      const Tensor gate_up = Tensor::rows(type, trial.m, 2 * trial.f),
                   separate = Tensor::rows(type, trial.m, 2 * trial.f);
      Trial::Tensors forward = t;
      forward.out = Tensor::rows(type, trial.m, trial.f);
      backend().run(kernels::gated_matmul(machine(), {.cols = trial.f,
                                                      .width = trial.k,
                                                      .type = type,
                                                      .activation = activation,
                                                      .stores_products = true}),
                    trial.m,
                    trial.arguments(forward)
                        .tensor("gate", trial.columns_of(gate_up, 0))
                        .tensor("up", trial.columns_of(gate_up, 1)));
      EXPECT_TRUE(t.out.same_bits(forward.out));
      const bool silu = activation == Activation::silu;
      backend().run(
          (silu ? kernels::swiglu_backward : kernels::geglu_backward)(machine(), {trial.f, type}),
          trial.m,
          Arguments()
              .tensor("d_out", t.d_out)
              .tensor("gate", trial.columns_of(gate_up, 0))
              .tensor("up", trial.columns_of(gate_up, 1))
              .tensor("d_gate", trial.columns_of(separate, 0))
              .tensor("d_up", trial.columns_of(separate, 1))
              .number("gate_multiplier", 1)
              .number("down_multiplier", 1));
      EXPECT_TRUE(t.d_gate_up.same_bits(separate));
    }
}

// Cases: tiles for warp groups and for single warps, tiles of few rows, halves that are not whole
// vectors.
TEST(GatedMatmulBackward, Schedules) {
  uint64_t seed = 401;
  std::vector<MetaValues> configs{{}};
  if (machine().is_gpu())
    configs = {{{"tile_m", "64"}, {"tile_n", "32"}, {"num_warps", "4"}, {"stages", "3"}},
               {{"tile_m", "128"},
                {"tile_n", "64"},
                {"tile_k", "32"},
                {"stages", "5"},
                {"tensor_copies", "false"}},
               {{"tile_m", "16"},
                {"tile_n", "32"},
                {"num_warps", "2"},
                {"stages", "1"},
                {"tensor_copies", "false"}},
               {{"tile_m", "32"}, {"tile_n", "16"}, {"num_warps", "4"}, {"group", "1"}}};
  for (MetaValues config : configs) {
    if (machine().is_gpu()) config["persistent"] = "false";
    for (const int64_t most : {0, 64})
      for (const int64_t f : {88, 43})
        Trial{.m = 60,
              .f = f,
              .k = 136,
              .options = {.type = bf16, .stores_out = f == 88, .most_rows = most},
              .config = config}
            .check(seed += 5, f == 43 ? 2 : 0);
  }
}

// Cases: TMA copies and 16-byte copies, one tile per program and persistent programs, partial
// tiles, and rows that TMA descriptors cannot describe.
TEST(GatedMatmulBackward, PersistentPrograms) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no persistent programs";
  uint64_t seed = 501;
  for (const char* copies : {"false", "true"})
    for (const char* persistent : {"false", "true"})
      for (const auto& [tile_n, warps] : {std::pair{"64", "4"}, {"128", "8"}}) {
        const MetaValues config{{"tile_m", warps[0] == '4' ? "64" : "128"},
                                {"tile_n", tile_n},
                                {"num_warps", warps},
                                {"stages", "3"},
                                {"persistent", persistent},
                                {"tensor_copies", copies},
                                {"tensor_stores", "true"}};
        const bool stores = copies == persistent;
        Trial trial{.m = 200,
                    .f = 136,
                    .k = 264,
                    .options = {.type = bf16, .stores_out = stores},
                    .config = config,
                    .sms = 2};
        trial.check(seed += 5, 8);
        trial.options.stores_out = !stores;
        trial.m = 72, trial.f = 75, trial.k = 40;
        trial.check(seed += 5, copies[0] == 't' ? 3 : 0);
      }
}

// In the flat part of ReLU the gate's gradient is 0, even if d_out is infinite.
TEST(GatedMatmulBackward, InfiniteUpstreamGradientInFlatPartOfReluGivesZero) {
  for (const Activation activation : {Activation::relu, Activation::relu_squared}) {
    Trial trial{.m = 2, .f = 1, .k = 1, .options = {.type = f32, .activation = activation}};
    Trial::Tensors t = trial.tensors(9, 0);
    t.x.set(0, -1), t.x.set(1, 1);
    t.weight.set(0, 1), t.weight.set(1, 1);  // gate and up are x
    for (const int64_t row : {0, 1}) t.d_out.set(row, std::numeric_limits<double>::infinity());
    trial.run(t);
    EXPECT_EQ(t.d_gate_up.get(0), 0);
    EXPECT_TRUE(std::isinf(t.d_gate_up.get(2)));
  }
}

TEST(GatedMatmulBackward, PropagatesNaN) {
  for (const DType type : {f32, bf16}) {
    Trial trial{.m = 3, .f = 16, .k = 16, .options = {.type = type, .stores_out = true}};
    Trial::Tensors t = trial.tensors(9, 0);
    t.x.set(20, std::numeric_limits<double>::quiet_NaN());  // in row 1
    trial.run(t);
    for (int64_t i = 0; i < 96; ++i) EXPECT_EQ(std::isnan(t.d_gate_up.get(i)), i / 32 == 1) << i;
    for (int64_t i = 0; i < 48; ++i) EXPECT_EQ(std::isnan(t.out.get(i)), i / 16 == 1) << i;
  }
}

}  // namespace
}  // namespace ligerdsl::test::gated_matmul_backward_test
