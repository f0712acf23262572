#include "oracle.h"

#include <algorithm>
#include <cmath>

namespace train::oracle {

Array matmul(View a, View b, int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  Array c(m * n, 0.0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      double x = transpose_a ? a[l * m + i] : a[i * k + l];
      if (x == 0) continue;
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += x * (transpose_b ? b[j * k + l] : b[l * n + j]);
    }
  }
  return c;
}

Array add(View a, View b) {
  Array c(a.begin(), a.end());
  for (size_t i = 0; i < c.size(); ++i) c[i] += b[i];
  return c;
}

Array embedding(View table, std::span<const int64_t> ids, int64_t width) {
  Array out;
  for (int64_t id : ids) out.insert(out.end(), table.begin() + id * width, table.begin() + (id + 1) * width);
  return out;
}

Array embedding_backward(View dout, std::span<const int64_t> ids, int64_t vocab, int64_t width) {
  Array dtable(vocab * width, 0.0);
  for (size_t r = 0; r < ids.size(); ++r) {
    for (int64_t j = 0; j < width; ++j) dtable[ids[r] * width + j] += dout[r * width + j];
  }
  return dtable;
}

Norm rms_norm(View x, View w, double eps) {
  int64_t width = w.size(), rows = x.size() / width;
  Norm out{Array(x.size()), Array(rows)};
  for (int64_t r = 0; r < rows; ++r) {
    View row = x.subspan(r * width, width);
    double squares = 0;
    for (double v : row) squares += v * v;
    out.rstd[r] = 1 / std::sqrt(squares / width + eps);
    for (int64_t j = 0; j < width; ++j) out.y[r * width + j] = row[j] * out.rstd[r] * w[j];
  }
  return out;
}

NormGradients rms_norm_backward(View dy, View x, View w, View rstd) {
  int64_t width = w.size(), rows = x.size() / width;
  NormGradients out{Array(x.size()), Array(width, 0.0)};
  for (int64_t r = 0; r < rows; ++r) {
    View g = dy.subspan(r * width, width), row = x.subspan(r * width, width);
    double dot = 0;
    for (int64_t j = 0; j < width; ++j) dot += g[j] * w[j] * row[j];
    for (int64_t j = 0; j < width; ++j) {
      out.dx[r * width + j] = rstd[r] * (g[j] * w[j] - rstd[r] * rstd[r] / width * row[j] * dot);
      out.dw[j] += g[j] * row[j] * rstd[r];
    }
  }
  return out;
}

void rope(std::span<double> x, int64_t batch, int64_t positions, int64_t heads, int64_t head_dim, int64_t row,
          double base, double direction) {
  int64_t half = head_dim / 2;
  for (int64_t r = 0; r < batch * positions; ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        double angle = (r % positions) * std::pow(base, -2.0 * i / head_dim);
        double c = std::cos(angle), s = direction * std::sin(angle);
        double& lo = x[r * row + h * head_dim + i];
        double& hi = x[r * row + h * head_dim + half + i];
        double a = lo, b = hi;
        lo = a * c - b * s;
        hi = b * c + a * s;
      }
    }
  }
}

Array causal_softmax(View x, int64_t width, double scale) {
  Array y(x.size(), 0.0);
  for (size_t r = 0; r < x.size() / width; ++r) {
    int64_t n = r % width + 1;
    View row = x.subspan(r * width, n);
    double highest = *std::max_element(row.begin(), row.end()), total = 0;
    for (int64_t j = 0; j < n; ++j) total += y[r * width + j] = std::exp(scale * (row[j] - highest));
    for (int64_t j = 0; j < n; ++j) y[r * width + j] /= total;
  }
  return y;
}

Array causal_softmax_backward(View dy, View y, int64_t width, double scale) {
  Array dx(y.size(), 0.0);
  for (size_t r = 0; r < y.size() / width; ++r) {
    double dot = 0;
    int64_t n = r % width + 1;
    for (int64_t j = 0; j < n; ++j) dot += dy[r * width + j] * y[r * width + j];
    for (int64_t j = 0; j < n; ++j) dx[r * width + j] = scale * y[r * width + j] * (dy[r * width + j] - dot);
  }
  return dx;
}

Array swiglu(View gate_up, int64_t ffn) {
  Array out(gate_up.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    double gate = gate_up[i / ffn * 2 * ffn + i % ffn], up = gate_up[i / ffn * 2 * ffn + ffn + i % ffn];
    out[i] = gate / (1 + std::exp(-gate)) * up;
  }
  return out;
}

Array swiglu_backward(View dout, View gate_up, int64_t ffn) {
  Array out(gate_up.size());
  for (size_t i = 0; i < dout.size(); ++i) {
    size_t at = i / ffn * 2 * ffn + i % ffn;
    double gate = gate_up[at], up = gate_up[at + ffn], sigmoid = 1 / (1 + std::exp(-gate));
    out[at] = dout[i] * up * (sigmoid + gate * sigmoid * (1 - sigmoid));
    out[at + ffn] = dout[i] * gate * sigmoid;
  }
  return out;
}

Loss cross_entropy(View logits, std::span<const int64_t> labels, int64_t vocab) {
  Loss out{0, Array(logits.size())};
  int64_t rows = labels.size();
  for (int64_t r = 0; r < rows; ++r) {
    View row = logits.subspan(r * vocab, vocab);
    double highest = *std::max_element(row.begin(), row.end()), total = 0;
    for (double v : row) total += std::exp(v - highest);
    out.loss += (highest - row[labels[r]] + std::log(total)) / rows;
    for (int64_t j = 0; j < vocab; ++j) {
      out.dlogits[r * vocab + j] = (std::exp(row[j] - highest) / total - (j == labels[r])) / rows;
    }
  }
  return out;
}

void adamw(std::span<double> p, View g, std::span<double> m, std::span<double> v, const AdamSettings& s) {
  for (size_t i = 0; i < p.size(); ++i) {
    double grad = g[i] * s.grad_scale;
    m[i] = s.beta1 * m[i] + (1 - s.beta1) * grad;
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * grad * grad;
    double mean = m[i] / (1 - std::pow(s.beta1, s.step)), variance = v[i] / (1 - std::pow(s.beta2, s.step));
    p[i] -= s.lr * (mean / (std::sqrt(variance) + s.eps) + s.weight_decay * p[i]);
  }
}

double norm(View x) {
  double squares = 0;
  for (double v : x) squares += v * v;
  return std::sqrt(squares);
}

}  // namespace train::oracle
