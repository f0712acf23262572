// Tests that fused attention and attention by matmuls give the same loss and gradients.
#include "attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "check.h"
#include "model.h"
#include "random.h"

namespace train {
namespace {

struct Step {
  double loss = 0;
  std::vector<double> gradients;
  int64_t bytes = 0;
};

// Runs one step with `batch` sequences in a model that allows up to two.
Step step_of(AttentionKind kind, const ModelConfig& config, int64_t batch,
             const MemoryPlan& memory) {
  Ops ops("cpu", 2);
  const std::unique_ptr<Matmul> matmul = make_matmul(ops, Products::library, 2);
  Model model(config, 2, ops, *matmul, kind, memory);
  model.set_weights(initial_weights(model.layout(), 5));
  std::vector<int64_t> tokens, labels;
  for (int64_t i = 0; i < batch * config.context; ++i) {
    tokens.push_back(static_cast<int64_t>(random_bits(6, i) % config.vocab));
    labels.push_back(static_cast<int64_t>(random_bits(7, i) % config.vocab));
  }
  const Tensor loss = ops.allocate(Type::f32, {1});
  model.gradient_step(tokens, labels, loss);
  return {fetch(ops, loss)[0], fetch(ops, model.gradients()), ops.allocated_bytes()};
}

void expect_equal_steps(ModelConfig config, int64_t batch, const MemoryPlan& memory = {}) {
  const Step fused = step_of(AttentionKind::fused, config, batch, memory),
             products = step_of(AttentionKind::products, config, batch, memory);
  EXPECT_NEAR(fused.loss, products.loss, 1e-6 * std::abs(products.loss));
  const Comparison c =
      compare("", "", "", fused.gradients, products.gradients, Gate{1e-5, 0, true});
  EXPECT_TRUE(c.passed()) << c.error;
  EXPECT_LT(fused.bytes, products.bytes);
}

constexpr ModelConfig kModel{
    .layers = 2, .heads = 6, .kv_heads = 2, .width = 60, .ffn = 40, .context = 70, .vocab = 50};

TEST(Attention, FusedAndMatmulAttentionAgree) {
  expect_equal_steps(kModel, 2);
}

TEST(Attention, SmallerBatchesAgree) {
  expect_equal_steps(kModel, 1);
}

TEST(Attention, RecomputedLayersAgree) {
  expect_equal_steps(kModel, 2, {.recompute = true, .score_bytes = 40000});
}

}  // namespace
}  // namespace train
