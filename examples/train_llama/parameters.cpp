#include "parameters.h"

#include <cmath>

#include "random.h"

namespace train {
namespace {

// Parameters start at multiples of this many elements, so that every one is aligned for wide memory operations.
constexpr int64_t kAlign = 64;

int add(ParameterLayout& layout, std::string name, int64_t rows, int64_t cols, double init_std) {
  layout.all.push_back({std::move(name), rows, cols, layout.total, init_std});
  layout.total += (rows * cols + kAlign - 1) / kAlign * kAlign;
  return static_cast<int>(layout.all.size()) - 1;
}

}  // namespace

ParameterLayout::ParameterLayout(const ModelConfig& c) {
  // Inputs of unit variance keep it through a matrix of this scale; projections back into the residual stream are
  // smaller by the number of times that they add to it.
  auto scale = [](int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
  double residual = 1 / std::sqrt(2.0 * c.layers);
  embedding = add(*this, "embedding", c.vocab, c.width, 0.1);
  for (int64_t i = 0; i < c.layers; ++i) {
    std::string prefix = "layer" + std::to_string(i) + ".";
    Layer l{};
    l.qkv = add(*this, prefix + "qkv", c.qkv_width(), c.width, scale(c.width));
    l.out = add(*this, prefix + "out", c.width, c.heads * c.head_dim(), residual * scale(c.heads * c.head_dim()));
    l.gate_up = add(*this, prefix + "gate_up", 2 * c.ffn, c.width, scale(c.width));
    l.down = add(*this, prefix + "down", c.width, c.ffn, residual * scale(c.ffn));
    layers.push_back(l);
  }
  head = add(*this, "head", c.vocab, c.width, 0.5 * scale(c.width));
  decayed = total;
  for (int64_t i = 0; i < c.layers; ++i) {
    std::string prefix = "layer" + std::to_string(i) + ".";
    layers[i].attention_norm = add(*this, prefix + "attention_norm", 1, c.width, 0);
    layers[i].ffn_norm = add(*this, prefix + "ffn_norm", 1, c.width, 0);
  }
  final_norm = add(*this, "final_norm", 1, c.width, 0);
}

std::vector<float> initial_weights(const ParameterLayout& layout, uint64_t seed) {
  std::vector<float> weights(layout.total, 0.0f);
  for (const Parameter& p : layout.all) {
    for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
      weights[i] = p.init_std == 0 ? 1.0f : static_cast<float>(p.init_std * random_normal(seed, i));
    }
  }
  return weights;
}

}  // namespace train
