// Compares gate and up projections and their activation with float64 and with gated activations of
// the stored gate and up.
#include "kernels/matmul/gated_matmul.h"

#include <cmath>
#include <limits>

#include "kernels/elementwise/activation_reference.h"
#include "kernels/elementwise/gated_activation.h"
#include "kernels/matmul/gated_matmul_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::gated_matmul_test {
namespace {

using kernels::Activation;
using kernels::GatedMatmulOptions;

constexpr Activation kAll[] = {Activation::gelu_tanh, Activation::gelu_erf, Activation::silu,
                               Activation::relu, Activation::relu_squared};

struct Trial {
  int64_t m, f, k;
  GatedMatmulOptions options;  // sizes are set from f and k
  MetaValues config = {};
  int sms = 0;  // SMs of a smaller GPU, or 0 for all SMs of the machine

  struct Tensors {
    Tensor x, weight, gate_up, out;
  };
  // gate_up is [m, 2 f], even if it is not stored.
  Tensors tensors(uint64_t seed, int64_t gap) const {
    return {random_rows(options.type, m, k, seed, gap),
            random_rows(options.type, 2 * f, k, seed + 1, gap, 0.3),
            Tensor::rows(options.type, m, 2 * f, gap), Tensor::rows(options.type, m, f, gap)};
  }
  // Returns half of a tensor's rows, or in columns_of half of its columns. half = 0 is the first.
  Tensor rows_of(const Tensor& t, int half) const {
    return t.view({f, k}, t.strides(), half * f * t.strides()[0]);
  }
  Tensor columns_of(const Tensor& t, int half) const {
    return t.view({m, f}, t.strides(), half * f);
  }

  void run(const Tensors& t) {
    options.cols = f, options.width = k;
    kernels::Machine on = machine();
    if (sms) on.sms = sms;
    Arguments arguments;
    arguments.tensor("x", t.x).tensor("out", t.out);
    arguments.tensor("gate_weight", rows_of(t.weight, 0)).tensor("up_weight", rows_of(t.weight, 1));
    arguments.tensor("gate", columns_of(t.gate_up, 0)).tensor("up", columns_of(t.gate_up, 1));
    const auto& kernel = kernels::gated_matmul_kernel;
    backend().run(kernel.build(on, options, kernel.chosen(on, options, config)), m, arguments);
  }
  void check(uint64_t seed, int64_t gap = 0) {
    SCOPED_TRACE(kernels::meta_text(options) + " " + std::to_string(m) + "x" + std::to_string(f) +
                 "x" + std::to_string(k) + " seed " + std::to_string(seed));
    const Tensors t = tensors(seed, gap);
    run(t);
    const auto kind = static_cast<reference::ActivationKind>(options.activation);
    const auto wanted =
        reference::gated_matmul_reference(kind, t.x.values(), t.weight.values(), m, f, k);
    const double gate = gate_r(options.type, k) * backend().summation_slack();
    EXPECT_TRUE(close_normwise(t.out.values(), wanted.out, 2 * gate));
    if (options.stores_products) {
      EXPECT_TRUE(close_normwise(t.gate_up.values(), wanted.gate_up, gate));
    }
    for (const Tensor& each : {t.out, t.gate_up}) EXPECT_TRUE(each.untouched_outside());
  }
};

TEST(GatedMatmul, EveryTypeAndActivation) {
  uint64_t seed = 11;
  for (const DType type : kFloats)
    for (const bool stores : {false, true}) {
      const GatedMatmulOptions options{.type = type, .stores_products = stores};
      Trial{.m = 33, .f = 40, .k = 72, .options = options}.check(seed += 5);
      Trial{.m = 130, .f = 24, .k = 40, .options = options}.check(seed += 5, 8);
      Trial{.m = 7, .f = 13, .k = 9, .options = options}.check(seed += 5, 3);
    }
  for (const Activation activation : kAll)
    Trial{.m = 20, .f = 24, .k = 40, .options = {.type = bf16, .activation = activation}}.check(
        seed += 5);
}

// Rows of up are not aligned in the stored tensor.
TEST(GatedMatmul, UnalignedHalves) {
  uint64_t seed = 201;
  for (const DType type : kFloats)
    Trial{.m = 70, .f = 43, .k = 72, .options = {.type = type, .stores_products = true}}.check(
        seed += 5, 2);
}

TEST(GatedMatmul, OneRowAndOneColumn) {
  uint64_t seed = 251;
  for (const DType type : kFloats) {
    Trial{.m = 1, .f = 1, .k = 1, .options = {.type = type, .stores_products = true}}.check(seed +=
                                                                                            5);
    Trial{.m = 1, .f = 200, .k = 8, .options = {.type = type}}.check(seed += 5);
    Trial{.m = 150, .f = 1, .k = 16, .options = {.type = type}}.check(seed += 5);
  }
}

// The result has the same bits as a gated activation of gate and up, whether they are stored or
// not.
TEST(GatedMatmul, MatchesUnfusedPair) {
  uint64_t seed = 301;
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh})
    for (const DType type : {f16, bf16}) {
      Trial trial{.m = 70,
                  .f = 72,
                  .k = 40,
                  .options = {.type = type, .activation = activation, .stores_products = true}};
      const Trial::Tensors t = trial.tensors(seed += 5, 8);
      trial.run(t);
      const Tensor separate = Tensor::rows(type, trial.m, trial.f),
                   alone = Tensor::rows(type, trial.m, trial.f);
      const bool silu = activation == Activation::silu;
      backend().run(
          (silu ? kernels::swiglu_forward : kernels::geglu_forward)(machine(), {trial.f, type}),
          trial.m,
          Arguments()
              .tensor("out", separate)
              .tensor("gate", trial.columns_of(t.gate_up, 0))
              .tensor("up", trial.columns_of(t.gate_up, 1))
              .number("gate_multiplier", 1)
              .number("down_multiplier", 1));
      EXPECT_TRUE(t.out.same_bits(separate));
      trial.options.stores_products = false;
      trial.run({t.x, t.weight, t.gate_up, alone});
      EXPECT_TRUE(t.out.same_bits(alone));
    }
}

// Cases: tiles for warp groups and for single warps, more stages than k-steps, tiles of few rows.
TEST(GatedMatmul, Schedules) {
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
      Trial{.m = 60,
            .f = 88,
            .k = 136,
            .options = {.type = bf16, .stores_products = true, .most_rows = most},
            .config = config}
          .check(seed += 5);
  }
}

// Cases: TMA copies and 16-byte copies, one tile per program and persistent programs, partial
// tiles, and rows that TMA descriptors cannot describe.
TEST(GatedMatmul, PersistentPrograms) {
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
                    .options = {.type = bf16, .stores_products = stores},
                    .config = config,
                    .sms = 2};
        trial.check(seed += 5, 8);
        trial.options.stores_products = !stores;
        trial.m = 72, trial.f = 75, trial.k = 40;
        trial.check(seed += 5, copies[0] == 't' ? 3 : 0);
      }
}

TEST(GatedMatmul, PropagatesNaN) {
  for (const DType type : {f32, bf16}) {
    Trial trial{.m = 3, .f = 16, .k = 16, .options = {.type = type, .stores_products = true}};
    Trial::Tensors t = trial.tensors(9, 0);
    t.x.set(20, std::numeric_limits<double>::quiet_NaN());  // in row 1
    trial.run(t);
    for (int64_t i = 0; i < 48; ++i) EXPECT_EQ(std::isnan(t.out.get(i)), i / 16 == 1) << i;
  }
}

TEST(GatedMatmul, RefusesInvalidConfigs) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no limit of registers";
  const GatedMatmulOptions options{.type = bf16};
  kernels::GatedMatmulConfig config = kernels::gated_matmul_kernel.heuristic(machine(), options);
  config.tile_m = 256, config.tile_n = 128, config.num_warps = 8;
  EXPECT_NE(kernels::gated_matmul_kernel.valid(machine(), options, config).find("got 256"),
            std::string::npos);
}

}  // namespace
}  // namespace ligerdsl::test::gated_matmul_test
