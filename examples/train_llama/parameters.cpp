#include "parameters.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <thread>

#include "random.h"

namespace train {
namespace {

// Parameters start at multiples of this many elements, so that each parameter is aligned for vector
// accesses.
constexpr int64_t kAlign = 64;
constexpr int64_t kLeastOfThread = 1 << 20;  // fewest weights that one thread initialises

int add(ParameterLayout& layout, std::string name, int64_t rows, int64_t cols, double init_std) {
  layout.all.push_back({std::move(name), rows, cols, layout.total, init_std});
  layout.total += (rows * cols + kAlign - 1) / kAlign * kAlign;
  return static_cast<int>(layout.all.size()) - 1;
}

}  // namespace

ParameterLayout::ParameterLayout(const ModelConfig& c) {
  // With this standard deviation, inputs of unit variance give outputs of unit variance.
  // Projections into the residual stream start smaller, because the stream is the sum of all of
  // them.
  auto scale = [](int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
  double residual = 1 / std::sqrt(2.0 * c.layers);
  const double head_scale = 0.5 * scale(c.width);
  embedding = add(*this, "embedding", c.vocab, c.width, c.tied ? head_scale : 0.1);
  for (int64_t i = 0; i < c.layers; ++i) {
    std::string prefix = "layer" + std::to_string(i) + ".";
    Layer l{};
    l.qkv = add(*this, prefix + "qkv", c.qkv_width(), c.width, scale(c.width));
    l.out = add(*this, prefix + "out", c.width, c.heads * c.head_dim(),
                residual * scale(c.heads * c.head_dim()));
    l.gate_up = add(*this, prefix + "gate_up", 2 * c.ffn, c.width, scale(c.width));
    l.down = add(*this, prefix + "down", c.width, c.ffn, residual * scale(c.ffn));
    layers.push_back(l);
  }
  head = c.tied ? embedding : add(*this, "head", c.vocab, c.width, head_scale);
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
  // Fills elements [from, to).
  auto fill = [&](int64_t from, int64_t to) {
    for (const Parameter& p : layout.all) {
      for (int64_t i = std::max(from, p.offset); i < std::min(to, p.offset + p.size()); ++i) {
        weights[i] =
            p.init_std == 0 ? 1.0f : static_cast<float>(p.init_std * random_normal(seed, i));
      }
    }
  };
  const int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  const int64_t each = std::max((layout.total + threads - 1) / threads, kLeastOfThread);
  std::vector<std::future<void>> parts;
  for (int64_t from = each; from < layout.total; from += each) {
    parts.push_back(
        std::async(std::launch::async, fill, from, std::min(from + each, layout.total)));
  }
  fill(0, std::min(each, layout.total));
  for (auto& part : parts) part.get();
  return weights;
}

}  // namespace train
