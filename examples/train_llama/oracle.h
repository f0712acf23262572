// Every operation of the model in plain float64, forward and backward: what the library's kernels are measured against.
// Written from the formulas, one obvious loop each, and sharing no code with the library.
#pragma once

#include <cstdint>
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

// Half rotation by position over x[batch, positions, heads, head_dim], `row` elements from one position to the next;
// angle of pair i at position t: t * base^(-2i / head_dim). direction -1 is the backward.
void rope(std::span<double> x, int64_t batch, int64_t positions, int64_t heads, int64_t head_dim, int64_t row,
          double base, double direction);

// Row r of a [rows, width] matrix is query r % width: its columns beyond that are masked. y = softmax(scale * x).
Array causal_softmax(View x, int64_t width, double scale);
Array causal_softmax_backward(View dy, View y, int64_t width, double scale);

// gate_up[rows, 2 ffn] -> silu(gate) * up, [rows, ffn].
Array swiglu(View gate_up, int64_t ffn);
Array swiglu_backward(View dout, View gate_up, int64_t ffn);

// Mean over rows of -log softmax(logits)[label], and its gradient.
struct Loss {
  double loss;
  Array dlogits;
};
Loss cross_entropy(View logits, std::span<const int64_t> labels, int64_t vocab);

struct AdamSettings {
  double lr, beta1, beta2, eps, weight_decay, grad_scale;
  int64_t step;  // from 1
};
void adamw(std::span<double> p, View g, std::span<double> m, std::span<double> v, const AdamSettings& s);

double norm(View x);

}  // namespace train::oracle
