#include "reference.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace train {
namespace {

using oracle::Array;
using oracle::View;

struct LayerState {
  Array attention_in, qkv, probabilities, attended, ffn_in, gate_up, activated;
  oracle::Norm attention_norm, ffn_norm;
};

class Reference {
 public:
  Reference(const ModelConfig& config, const ParameterLayout& layout, View weights, int64_t rows)
      : c_(config),
        layout_(layout),
        weights_(weights),
        rows_(rows),
        gradients_(layout.total, 0.0) {}

  ReferenceResult run(std::span<const int64_t> tokens, std::span<const int64_t> labels) {
    Array stream = oracle::embedding(weight(layout_.embedding), tokens, c_.width);
    std::vector<LayerState> states;
    for (const auto& layer : layout_.layers) states.push_back(forward(layer, stream));
    oracle::Norm last = oracle::rms_norm(stream, weight(layout_.final_norm), c_.norm_eps);
    oracle::Loss loss = oracle::cross_entropy(linear(last.y, layout_.head), labels, c_.vocab);

    Array dstream = norm_backward(linear_backward(loss.dlogits, last.y, layout_.head), stream, last,
                                  layout_.final_norm);
    for (size_t i = states.size(); i-- > 0;)
      dstream = backward(layout_.layers[i], states[i], dstream);
    add(layout_.embedding, oracle::embedding_backward(dstream, tokens, c_.vocab, c_.width));
    return {loss.loss, std::move(gradients_)};
  }

 private:
  View weight(int index) const {
    return weights_.subspan(layout_.all[index].offset, layout_.all[index].size());
  }

  // Adds to a parameter's gradient. A tied embedding gets two contributions: from the lm_head and
  // from the embedding.
  void add(int index, const Array& gradient) {
    std::transform(gradient.begin(), gradient.end(), gradients_.begin() + layout_.all[index].offset,
                   gradients_.begin() + layout_.all[index].offset, std::plus<>());
  }

  Array linear(View x, int index) const {
    const Parameter& p = layout_.all[index];
    return oracle::matmul(x, weight(index), rows_, p.rows, p.cols, false, true);
  }

  Array linear_backward(View dy, View x, int index) {
    const Parameter& p = layout_.all[index];
    add(index, oracle::matmul(dy, x, p.rows, p.cols, rows_, true, false));
    return oracle::matmul(dy, weight(index), rows_, p.cols, p.rows, false, false);
  }

  Array norm_backward(View dy, View x, const oracle::Norm& norm, int index) {
    oracle::NormGradients g = oracle::rms_norm_backward(dy, x, weight(index), norm.rstd);
    add(index, g.dw);
    return std::move(g.dx);
  }

  // Calls body for each sequence and query head. Its arguments are both indices, the offsets of the
  // head's queries, keys and values in qkv, and the offset of its scores.
  template <class Body>
  void for_each_head(Body body) const {
    int64_t d = c_.head_dim(), t = c_.context, group = c_.heads / c_.kv_heads;
    for (int64_t b = 0; b < rows_ / t; ++b) {
      for (int64_t h = 0; h < c_.heads; ++h) {
        int64_t base = b * t * c_.qkv_width(), key = base + (c_.heads + h / group) * d;
        body(b, h, base + h * d, key, key + c_.kv_heads * d, (b * c_.heads + h) * t * t);
      }
    }
  }

  void rope(Array& qkv, double direction) const {
    oracle::rope(qkv, rows_ / c_.context, c_.context, c_.heads + c_.kv_heads, c_.head_dim(),
                 c_.qkv_width(), c_.rope_base, direction);
  }

  void attention(LayerState& s) const {
    int64_t d = c_.head_dim(), t = c_.context, w = c_.qkv_width(), out = c_.heads * d;
    Array scores(rows_ * c_.heads * t, 0.0);
    for_each_head([&](int64_t, int64_t, int64_t q, int64_t k, int64_t, int64_t at) {
      for (int64_t i = 0; i < t; ++i)
        for (int64_t j = 0; j <= i; ++j)
          for (int64_t e = 0; e < d; ++e)
            scores[at + i * t + j] += s.qkv[q + i * w + e] * s.qkv[k + j * w + e];
    });
    s.probabilities = oracle::causal_softmax(scores, t, 1 / std::sqrt(static_cast<double>(d)));
    s.attended.assign(rows_ * out, 0.0);
    for_each_head([&](int64_t b, int64_t h, int64_t, int64_t, int64_t v, int64_t at) {
      for (int64_t i = 0; i < t; ++i)
        for (int64_t j = 0; j <= i; ++j)
          for (int64_t e = 0; e < d; ++e)
            s.attended[(b * t + i) * out + h * d + e] +=
                s.probabilities[at + i * t + j] * s.qkv[v + j * w + e];
    });
  }

  Array attention_backward(const LayerState& s, View dattended) const {
    int64_t d = c_.head_dim(), t = c_.context, w = c_.qkv_width(), out = c_.heads * d;
    Array dqkv(s.qkv.size(), 0.0), dprobabilities(s.probabilities.size(), 0.0);
    for_each_head([&](int64_t b, int64_t h, int64_t, int64_t, int64_t v, int64_t at) {
      for (int64_t i = 0; i < t; ++i)
        for (int64_t j = 0; j <= i; ++j)
          for (int64_t e = 0; e < d; ++e) {
            double g = dattended[(b * t + i) * out + h * d + e];
            dprobabilities[at + i * t + j] += g * s.qkv[v + j * w + e];
            dqkv[v + j * w + e] += g * s.probabilities[at + i * t + j];
          }
    });
    Array dscores = oracle::causal_softmax_backward(dprobabilities, s.probabilities, t,
                                                    1 / std::sqrt(static_cast<double>(d)));
    for_each_head([&](int64_t, int64_t, int64_t q, int64_t k, int64_t, int64_t at) {
      for (int64_t i = 0; i < t; ++i)
        for (int64_t j = 0; j <= i; ++j)
          for (int64_t e = 0; e < d; ++e) {
            dqkv[q + i * w + e] += dscores[at + i * t + j] * s.qkv[k + j * w + e];
            dqkv[k + j * w + e] += dscores[at + i * t + j] * s.qkv[q + i * w + e];
          }
    });
    return dqkv;
  }

  LayerState forward(const ParameterLayout::Layer& layer, Array& stream) const {
    LayerState s;
    s.attention_in = stream;
    s.attention_norm = oracle::rms_norm(stream, weight(layer.attention_norm), c_.norm_eps);
    s.qkv = linear(s.attention_norm.y, layer.qkv);
    rope(s.qkv, 1);
    attention(s);
    stream = s.ffn_in = oracle::add(stream, linear(s.attended, layer.out));
    s.ffn_norm = oracle::rms_norm(stream, weight(layer.ffn_norm), c_.norm_eps);
    s.gate_up = linear(s.ffn_norm.y, layer.gate_up);
    s.activated = oracle::swiglu(s.gate_up, c_.ffn);
    stream = oracle::add(stream, linear(s.activated, layer.down));
    return s;
  }

  Array backward(const ParameterLayout::Layer& layer, const LayerState& s, View dstream) {
    Array dgate_up = oracle::swiglu_backward(linear_backward(dstream, s.activated, layer.down),
                                             s.gate_up, c_.ffn);
    Array dnorm = linear_backward(dgate_up, s.ffn_norm.y, layer.gate_up);
    Array dffn_in =
        oracle::add(dstream, norm_backward(dnorm, s.ffn_in, s.ffn_norm, layer.ffn_norm));

    Array dqkv = attention_backward(s, linear_backward(dffn_in, s.attended, layer.out));
    rope(dqkv, -1);
    dnorm = linear_backward(dqkv, s.attention_norm.y, layer.qkv);
    return oracle::add(
        dffn_in, norm_backward(dnorm, s.attention_in, s.attention_norm, layer.attention_norm));
  }

  const ModelConfig& c_;
  const ParameterLayout& layout_;
  View weights_;
  int64_t rows_;
  Array gradients_;
};

}  // namespace

ReferenceResult reference_step(const ModelConfig& config, const ParameterLayout& layout,
                               oracle::View weights, std::span<const int64_t> tokens,
                               std::span<const int64_t> labels) {
  return Reference(config, layout, weights, static_cast<int64_t>(tokens.size()))
      .run(tokens, labels);
}

}  // namespace train
