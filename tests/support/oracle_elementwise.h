// float64 SwiGLU, GeGLU, RoPE, AdamW and embedding.
#pragma once

#include <cmath>

#include "tests/support/tensor.h"

namespace ligerdsl::test {

inline double sigmoid_oracle(double u) {
  return u >= 0 ? 1.0 / (1.0 + std::exp(-u)) : std::exp(u) / (1.0 + std::exp(u));
}

inline Values swiglu_oracle(const Values& gate, const Values& up, double gamma, double delta) {
  Values out(gate.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const double u = gamma * gate[i];
    out[i] = delta * u * sigmoid_oracle(u) * up[i];
  }
  return out;
}

struct GatedGradient {
  Values d_gate, d_up;
};

inline GatedGradient swiglu_gradient_oracle(const Values& d_out, const Values& gate, const Values& up, double gamma,
                                            double delta) {
  GatedGradient out{Values(gate.size()), Values(gate.size())};
  for (size_t i = 0; i < gate.size(); ++i) {
    const double u = gamma * gate[i], s = sigmoid_oracle(u), c = delta * d_out[i];
    out.d_up[i] = c * u * s;
    out.d_gate[i] = gamma * c * up[i] * (s + u * s * (1.0 - s));
  }
  return out;
}

// (1 + tanh(z)) / 2 of the tanh form of GELU, without cancellation for z << 0.
inline double gelu_share_oracle(double a) {
  return sigmoid_oracle(2 * std::sqrt(2 / 3.14159265358979323846) * (a + 0.044715 * a * a * a));
}

inline Values geglu_oracle(const Values& gate, const Values& up) {
  Values out(gate.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = gate[i] * gelu_share_oracle(gate[i]) * up[i];
  return out;
}

inline GatedGradient geglu_gradient_oracle(const Values& d_out, const Values& gate, const Values& up) {
  GatedGradient out{Values(gate.size()), Values(gate.size())};
  const double k = std::sqrt(2 / 3.14159265358979323846);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double a = gate[i], share = gelu_share_oracle(a);
    const double square = 4 * share * (1 - share);  // 1 - tanh(z)^2
    out.d_up[i] = d_out[i] * a * share;
    out.d_gate[i] = d_out[i] * up[i] * (share + 0.5 * a * square * k * (1 + 3 * 0.044715 * a * a));
  }
  return out;
}

// x [batch, seq, heads, d]; cos, sin [angle_batch, seq, d / 2]. sign = -1 is the backward.
inline Values rope_oracle(const Values& x, const Values& cos, const Values& sin, int64_t batch, int64_t seq,
                          int64_t heads, int64_t d, int64_t angle_batch, double sign) {
  Values out = x;
  const int64_t half = d / 2;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < seq; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t row = ((b * seq + s) * heads + h) * d;
        const int64_t angle = ((angle_batch == 1 ? 0 : b) * seq + s) * half;
        for (int64_t i = 0; i < half; ++i) {
          const double c = cos[angle + i], t = sign * sin[angle + i];
          out[row + i] = x[row + i] * c - x[row + half + i] * t;
          out[row + half + i] = x[row + half + i] * c + x[row + i] * t;
        }
      }
    }
  }
  return out;
}

struct AdamwState {
  Values p, m, v;
};

inline AdamwState adamw_oracle(AdamwState s, const Values& g, double clip, double lr, double beta1, double beta2,
                               double eps, double weight_decay, int64_t step) {
  const double bias1 = 1.0 - std::pow(beta1, static_cast<double>(step));
  const double bias2 = 1.0 - std::pow(beta2, static_cast<double>(step));
  for (size_t i = 0; i < g.size(); ++i) {
    const double gradient = g[i] * clip;
    s.m[i] = beta1 * s.m[i] + (1.0 - beta1) * gradient;
    s.v[i] = beta2 * s.v[i] + (1.0 - beta2) * gradient * gradient;
    s.p[i] -= lr * ((s.m[i] / bias1) / (std::sqrt(s.v[i] / bias2) + eps) + weight_decay * s.p[i]);
  }
  return s;
}

// The gradient of a table [v, h] gathered by `indices`; indices out of range add nothing.
inline Values embedding_gradient_oracle(const Values& d_out, const std::vector<int64_t>& indices, int64_t v,
                                        int64_t h) {
  Values out(v * h, 0.0);
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= v) continue;
    for (int64_t j = 0; j < h; ++j) out[indices[i] * h + j] += d_out[i * h + j];
  }
  return out;
}

}  // namespace ligerdsl::test
