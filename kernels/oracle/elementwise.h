// float64 biases, activations, DyT, SwiGLU, GeGLU, RoPE, AdamW and embedding.
#pragma once

#include <cmath>

#include "kernels/oracle/values.h"

namespace ligerdsl::oracle {

// x [n, cols] plus bias [cols].
inline Values bias_oracle(Values x, const Values& bias) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += bias[i % bias.size()];
  return x;
}

// [cols], of x [n, cols].
inline Values column_sums_oracle(const Values& x, int64_t cols) {
  Values sums(cols, 0.0);
  for (size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += x[i];
  return sums;
}

inline double sigmoid_oracle(double u) {
  return u >= 0 ? 1.0 / (1.0 + std::exp(-u)) : std::exp(u) / (1.0 + std::exp(u));
}

// Phi(u) of the normal distribution, and its density, without cancellation for u << 0.
inline double normal_cdf_oracle(double u) {
  return 0.5 * std::erfc(-u * std::sqrt(0.5));
}
inline double normal_density_oracle(double u) {
  return std::exp(-0.5 * u * u) / std::sqrt(2 * 3.14159265358979323846);
}

// (1 + tanh(z)) / 2 of the tanh form of GELU, without cancellation for z << 0.
inline double gelu_share_oracle(double a) {
  return sigmoid_oracle(2 * std::sqrt(2 / 3.14159265358979323846) * (a + 0.044715 * a * a * a));
}

enum class ActivationKind { gelu_tanh, gelu_erf, silu, relu, relu_squared };

// f(u)
inline double activation_oracle(ActivationKind kind, double u) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return u * gelu_share_oracle(u);
    case ActivationKind::gelu_erf:
      return u * normal_cdf_oracle(u);
    case ActivationKind::silu:
      return u * sigmoid_oracle(u);
    case ActivationKind::relu:
      return u <= 0 ? 0 : u;
    case ActivationKind::relu_squared:
      break;
  }
  return u <= 0 ? 0 : u * u;
}

// f'(u); ReLU's at 0 is 0.
inline double activation_slope_oracle(ActivationKind kind, double u) {
  const double k = std::sqrt(2 / 3.14159265358979323846);
  switch (kind) {
    case ActivationKind::gelu_tanh: {
      const double share = gelu_share_oracle(u), square = 4 * share * (1 - share);  // 1 - tanh(z)^2
      return share + 0.5 * u * square * k * (1 + 3 * 0.044715 * u * u);
    }
    case ActivationKind::gelu_erf:
      return normal_cdf_oracle(u) + u * normal_density_oracle(u);
    case ActivationKind::silu: {
      const double s = sigmoid_oracle(u);
      return s + u * s * (1 - s);
    }
    case ActivationKind::relu:
      return u <= 0 ? 0 : 1;
    case ActivationKind::relu_squared:
      break;
  }
  return u <= 0 ? 0 : 2 * u;
}

inline Values activation_oracle(ActivationKind kind, const Values& x) {
  Values y(x.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = activation_oracle(kind, x[i]);
  return y;
}

// d_y f'(x); where ReLU is flat, 0 whatever d_y is.
inline Values activation_gradient_oracle(ActivationKind kind, const Values& d_y, const Values& x) {
  const bool flat = kind == ActivationKind::relu || kind == ActivationKind::relu_squared;
  Values d_x(x.size());
  for (size_t i = 0; i < x.size(); ++i) d_x[i] = flat && x[i] <= 0 ? 0 : d_y[i] * activation_slope_oracle(kind, x[i]);
  return d_x;
}

// weight tanh(alpha x) + bias; `bias` empty: none.
inline Values dyt_oracle(const Values& x, double alpha, const Values& weight, const Values& bias) {
  Values y(x.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t j = i % weight.size();
    y[i] = weight[j] * std::tanh(alpha * x[i]) + (bias.empty() ? 0.0 : bias[j]);
  }
  return y;
}

struct DytGradient {
  Values d_x, d_alpha, d_weight, d_bias;
};

inline DytGradient dyt_gradient_oracle(const Values& d_y, const Values& x, double alpha, const Values& weight) {
  DytGradient out{Values(x.size()), {0.0}, Values(weight.size(), 0.0), Values(weight.size(), 0.0)};
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t j = i % weight.size();
    const double inverse = 1 / std::cosh(alpha * x[i]), slope = d_y[i] * weight[j] * inverse * inverse;
    out.d_x[i] = alpha * slope;
    out.d_alpha[0] += x[i] * slope;
    out.d_weight[j] += d_y[i] * std::tanh(alpha * x[i]);
    out.d_bias[j] += d_y[i];
  }
  return out;
}

inline Values swiglu_oracle(const Values& gate, const Values& up, double gamma, double delta) {
  Values out(gate.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = delta * activation_oracle(ActivationKind::silu, gamma * gate[i]) * up[i];
  return out;
}

struct GatedGradient {
  Values d_gate, d_up;
};

inline GatedGradient gated_gradient_oracle(ActivationKind kind, const Values& d_out, const Values& gate,
                                           const Values& up, double gamma, double delta) {
  GatedGradient out{Values(gate.size()), Values(gate.size())};
  for (size_t i = 0; i < gate.size(); ++i) {
    const double u = gamma * gate[i], c = delta * d_out[i];
    out.d_up[i] = c * activation_oracle(kind, u);
    out.d_gate[i] = gamma * c * up[i] * activation_slope_oracle(kind, u);
  }
  return out;
}

inline GatedGradient swiglu_gradient_oracle(const Values& d_out, const Values& gate, const Values& up, double gamma,
                                            double delta) {
  return gated_gradient_oracle(ActivationKind::silu, d_out, gate, up, gamma, delta);
}

inline Values geglu_oracle(const Values& gate, const Values& up) {
  Values out(gate.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = activation_oracle(ActivationKind::gelu_tanh, gate[i]) * up[i];
  return out;
}

inline GatedGradient geglu_gradient_oracle(const Values& d_out, const Values& gate, const Values& up) {
  return gated_gradient_oracle(ActivationKind::gelu_tanh, d_out, gate, up, 1, 1);
}

struct RopeCase {
  int64_t batch = 1, seq = 1, heads = 1, d = 2;
  int64_t rotary = 0;       // columns that are rotated; 0: d
  int64_t angle_batch = 1;  // of cos and sin: 1 or batch
  bool interleaved = false;
  int64_t time = 0, height = 0, width = 0;  // multimodal sections, unless all are 0
  double sign = 1;                          // -1: the backward

  int64_t angles() const { return (rotary ? rotary : d) / 2; }
  int64_t planes() const { return time + height + width > 0 ? 3 : 1; }
};

// x [batch, seq, heads, d]; cos, sin [planes, angle_batch, seq, angles].
inline Values rope_oracle(const Values& x, const Values& cos, const Values& sin, const RopeCase& r) {
  Values out = x;
  const int64_t h = r.angles();
  for (int64_t token = 0; token < r.batch * r.seq; ++token) {
    const int64_t b = token / r.seq, s = token % r.seq;
    for (int64_t i = 0; i < h; ++i) {
      const int64_t plane = r.planes() == 1 || i < r.time ? 0 : i < r.time + r.height ? 1 : 2;
      const int64_t angle = ((plane * r.angle_batch + (r.angle_batch == 1 ? 0 : b)) * r.seq + s) * h + i;
      const double c = cos[angle], t = r.sign * sin[angle];
      for (int64_t head = 0; head < r.heads; ++head) {
        const int64_t row = (token * r.heads + head) * r.d;
        const int64_t first = row + (r.interleaved ? 2 * i : i), second = r.interleaved ? first + 1 : first + h;
        out[first] = x[first] * c - x[second] * t;
        out[second] = x[second] * c + x[first] * t;
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

// Of a table of which row i mod p was added to row i.
inline Values position_gradient_oracle(const Values& d_out, int64_t n, int64_t p, int64_t h) {
  Values out(p * h, 0.0);
  for (int64_t i = 0; i < n * h; ++i) out[i / h % p * h + i % h] += d_out[i];
  return out;
}

}  // namespace ligerdsl::oracle
