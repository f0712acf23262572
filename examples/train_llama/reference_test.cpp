// Compares the float64 model's gradients with central differences of its loss.
#include "reference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "random.h"

namespace train {
namespace {

TEST(Reference, GradientsAreTheSlopeOfTheLoss) {
  ModelConfig config{
      .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .ffn = 12, .context = 5, .vocab = 11};
  ParameterLayout layout(config);
  std::vector<float> initial = initial_weights(layout, 7);
  oracle::Array weights(initial.begin(), initial.end());
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] += 0.1 * random_normal(8, i);  // norm weights that differ from 1
  std::vector<int64_t> tokens, labels;
  for (int64_t i = 0; i < 2 * config.context; ++i) {
    tokens.push_back(random_bits(9, i) % config.vocab);
    labels.push_back(random_bits(10, i) % config.vocab);
  }
  auto loss = [&] { return reference_step(config, layout, weights, tokens, labels).loss; };
  oracle::Array gradients = reference_step(config, layout, weights, tokens, labels).gradients;

  for (const Parameter& p : layout.all) {
    for (int64_t draw = 0; draw < 4; ++draw) {
      int64_t i = p.offset + random_bits(11, draw) % p.size();
      const double kept = weights[i], h = 1e-5;
      weights[i] = kept + h;
      double above = loss();
      weights[i] = kept - h;
      double below = loss();
      weights[i] = kept;
      double slope = (above - below) / (2 * h);
      EXPECT_NEAR(gradients[i], slope, 1e-8 + 1e-6 * std::abs(slope))
          << p.name << " element " << i - p.offset;
    }
  }
}

}  // namespace
}  // namespace train
