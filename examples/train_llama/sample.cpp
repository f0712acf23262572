#include "sample.h"

#include <algorithm>
#include <cmath>

#include "random.h"

namespace train {
namespace {

int64_t draw(const std::vector<float>& logits, double temperature, double uniform) {
  float highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> weight;
  double total = 0;
  for (float logit : logits)
    total += weight.emplace_back(std::exp((logit - highest) / temperature));
  double rest = uniform * total;
  for (size_t i = 0; i < weight.size(); ++i) {
    if ((rest -= weight[i]) < 0) return i;
  }
  return std::max_element(logits.begin(), logits.end()) -
         logits.begin();  // reached only if rounding makes the sum too small
}

}  // namespace

std::string generate(Model& model, const std::string& prompt, int64_t count, double temperature,
                     uint64_t seed) {
  std::vector<int64_t> tokens;
  for (unsigned char byte : prompt.empty() ? std::string("\n") : prompt) tokens.push_back(byte);
  std::string text;
  const int64_t context = model.config().context;
  for (int64_t i = 0; i < count; ++i) {
    // The model sees the last `context` tokens. A shorter text is padded at the end; causal
    // attention does not see the padding.
    int64_t length = std::min<int64_t>(tokens.size(), context);
    std::vector<int64_t> window(tokens.end() - length, tokens.end());
    window.resize(context, 0);
    tokens.push_back(draw(model.next_logits(window, length - 1), temperature,
                          random_uniform(seed ^ 0x73616d706cu, i)));
    text += static_cast<char>(tokens.back());
  }
  return text;
}

}  // namespace train
