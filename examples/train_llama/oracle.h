// The model's operations in plain float64, forward and backward, as a reference for its
// kernels. Each function is a plain loop written from the formula, and shares no code with the
// library.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace train::oracle {

using Array = std::vector<double>;  // row-major
using View = std::span<const double>;

// c[m,n] = op(a) op(b): a is [m,k] or, transposed, [k,m]; b is [k,n] or, transposed, [n,k].
Array matmul(View a, View b, int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b);
Array add(View a, View b);

Array embedding(View table, std::span<const int64_t> ids, int64_t width);
Array embedding_backward(View dout, std::span<const int64_t> ids, int64_t vocab, int64_t width);

// y = x * rstd * w with rstd = 1 / sqrt(mean(x^2) + eps), row by row.
struct Norm {
  Array y, rstd;
};
Norm rms_norm(View x, View w, double eps);
struct NormGradients {
  Array dx, dw;
};
NormGradients rms_norm_backward(View dy, View x, View w, View rstd);

// Rotates x[batch, positions, heads, head_dim]; position p begins at element p * row. Pair i has
// the columns i and i + head_dim / 2, and rotates by direction * t * base^(-2i / head_dim) at
// position t. The backward pass has direction -1.
void rope(std::span<double> x, int64_t batch, int64_t positions, int64_t heads, int64_t head_dim,
          int64_t row, double base, double direction);
// A general rotation. The first `rotated` columns of a head form pairs; pair i rotates by
// angle(position, i). Pair i has the columns 2i and 2i + 1 if interleaved, else i and i + rotated /
// 2.
struct Rotation {
  int64_t heads, head_dim, rotated;
  bool interleaved;
  std::function<double(int64_t position, int64_t pair)> angle;
};
void rotate(std::span<double> x, int64_t batch, int64_t positions, int64_t row, const Rotation& r,
            double direction);

// y = softmax(scale * x) of a [rows, width] matrix. Row r is query r % width; columns after r %
// width are masked.
Array causal_softmax(View x, int64_t width, double scale);
Array causal_softmax_backward(View dy, View y, int64_t width, double scale);

// Causal attention: q and o [batch, tokens, heads, head_dim]; k and v have kv_heads, each for an
// equal share of the query heads; lse [batch, heads, tokens].
struct Heads {
  int64_t batch, tokens, heads, kv_heads, head_dim;
  double scale;
};
struct Attention {
  Array o, lse;
};
Attention attention(View q, View k, View v, const Heads& heads);
struct AttentionGradients {
  Array dq, dk, dv;
};
AttentionGradients attention_backward(View d_o, View q, View k, View v, const Heads& heads);

// An activation function's value f(u) and slope f'(u).
struct Activation {
  double value, slope;
};
Activation silu(double u);

// gate_up[rows, 2 ffn] -> silu(gate) * up, [rows, ffn].
Array swiglu(View gate_up, int64_t ffn);
Array swiglu_backward(View dout, View gate_up, int64_t ffn);

// Rows whose label is `ignored` do not count. Each class c has a weight w_c.
//   z = softcap * tanh(logits / softcap) / temperature, p = softmax(z)
//   t = smoothing spread over all classes plus 1 - smoothing on the label
//   loss = sum over rows and classes of -t log p / sum of the labels' weights + z_loss
//   z_loss = mean of lse_square_scale * (log sum exp z)^2
struct LossSettings {
  double smoothing = 0, lse_square_scale = 0, softcap = 0;
  int64_t ignored = -1;
  Array class_weight;  // empty: every weight is 1
  double temperature = 1;
  Array d_entropy;  // upstream gradient of the entropies, included in dlogits; empty: 0
};
struct Loss {
  double loss = 0, z_loss = 0, accuracy = 0;
  Array dlogits, lse, predictions, entropy;  // 0, 0, -1 and 0 at ignored rows
};
Loss cross_entropy(View logits, std::span<const int64_t> labels, int64_t vocab,
                   const LossSettings& s = {});

// Cross-entropy of x w^T + b, and the gradients of x, w and b.
struct LinearLoss {
  Loss loss;
  Array logits, dx, dw, db;
};
LinearLoss linear_cross_entropy(View x, View w, View b, std::span<const int64_t> labels,
                                const LossSettings& s);

struct AdamSettings {
  double lr, beta1, beta2, eps, weight_decay, grad_scale;
  int64_t step;  // from 1
};
void adamw(std::span<double> p, View g, std::span<double> m, std::span<double> v,
           const AdamSettings& s);

double norm(View x);

}  // namespace train::oracle
