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
      for (int64_t j = 0; j < n; ++j)
        c[i * n + j] += x * (transpose_b ? b[j * k + l] : b[l * n + j]);
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
  for (int64_t id : ids)
    out.insert(out.end(), table.begin() + id * width, table.begin() + (id + 1) * width);
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

void rotate(std::span<double> x, int64_t batch, int64_t positions, int64_t row,
            const Rotation& rotation, double direction) {
  int64_t half = rotation.rotated / 2;
  for (int64_t r = 0; r < batch * positions; ++r) {
    for (int64_t i = 0; i < half; ++i) {
      double angle = rotation.angle(r % positions, i), c = std::cos(angle),
             s = direction * std::sin(angle);
      int64_t first = rotation.interleaved ? 2 * i : i,
              second = rotation.interleaved ? first + 1 : first + half;
      for (int64_t h = 0; h < rotation.heads; ++h) {
        double* head = &x[r * row + h * rotation.head_dim];
        double a = head[first], b = head[second];
        head[first] = a * c - b * s;
        head[second] = b * c + a * s;
      }
    }
  }
}

void rope(std::span<double> x, int64_t batch, int64_t positions, int64_t heads, int64_t head_dim,
          int64_t row, double base, double direction) {
  auto angle = [&](int64_t position, int64_t i) {
    return position * std::pow(base, -2.0 * i / head_dim);
  };
  rotate(x, batch, positions, row, {heads, head_dim, head_dim, false, angle}, direction);
}

namespace {

// Returns the softmax over the first columns(row) elements of each row.
template <class Columns>
Array softmax_of(View x, int64_t width, double scale, Columns columns) {
  Array y(x.size(), 0.0);
  for (size_t r = 0; r < x.size() / width; ++r) {
    int64_t n = columns(r);
    View row = x.subspan(r * width, n);
    double highest = *std::max_element(row.begin(), row.end()), total = 0;
    for (int64_t j = 0; j < n; ++j)
      total += y[r * width + j] = std::exp(scale * (row[j] - highest));
    for (int64_t j = 0; j < n; ++j) y[r * width + j] /= total;
  }
  return y;
}

template <class Columns>
Array softmax_gradient(View dy, View y, int64_t width, double scale, Columns columns) {
  Array dx(y.size(), 0.0);
  for (size_t r = 0; r < y.size() / width; ++r) {
    double dot = 0;
    int64_t n = columns(r);
    for (int64_t j = 0; j < n; ++j) dot += dy[r * width + j] * y[r * width + j];
    for (int64_t j = 0; j < n; ++j)
      dx[r * width + j] = scale * y[r * width + j] * (dy[r * width + j] - dot);
  }
  return dx;
}

auto past(int64_t width) {
  return [width](size_t row) { return static_cast<int64_t>(row) % width + 1; };
}

}  // namespace

Array causal_softmax(View x, int64_t width, double scale) {
  return softmax_of(x, width, scale, past(width));
}
Array causal_softmax_backward(View dy, View y, int64_t width, double scale) {
  return softmax_gradient(dy, y, width, scale, past(width));
}

Activation silu(double u) {
  double sigmoid = 1 / (1 + std::exp(-u));
  return {u * sigmoid, sigmoid + u * sigmoid * (1 - sigmoid)};
}

namespace {

template <class Function>
Array gated(View gate_up, int64_t ffn, Function activation) {
  Array out(gate_up.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    size_t at = i / ffn * 2 * ffn + i % ffn;
    out[i] = activation(gate_up[at]).value * gate_up[at + ffn];
  }
  return out;
}

template <class Function>
Array gated_gradient(View dout, View gate_up, int64_t ffn, Function activation) {
  Array out(gate_up.size());
  for (size_t i = 0; i < dout.size(); ++i) {
    size_t at = i / ffn * 2 * ffn + i % ffn;
    Activation a = activation(gate_up[at]);
    out[at] = dout[i] * gate_up[at + ffn] * a.slope;
    out[at + ffn] = dout[i] * a.value;
  }
  return out;
}

}  // namespace

Array swiglu(View gate_up, int64_t ffn) {
  return gated(gate_up, ffn, silu);
}
Array swiglu_backward(View dout, View gate_up, int64_t ffn) {
  return gated_gradient(dout, gate_up, ffn, silu);
}

void adamw(std::span<double> p, View g, std::span<double> m, std::span<double> v,
           const AdamSettings& s) {
  for (size_t i = 0; i < p.size(); ++i) {
    double grad = g[i] * s.grad_scale;
    m[i] = s.beta1 * m[i] + (1 - s.beta1) * grad;
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * grad * grad;
    double mean = m[i] / (1 - std::pow(s.beta1, s.step)),
           variance = v[i] / (1 - std::pow(s.beta2, s.step));
    p[i] -= s.lr * (mean / (std::sqrt(variance) + s.eps) + s.weight_decay * p[i]);
  }
}

double norm(View x) {
  double squares = 0;
  for (double v : x) squares += v * v;
  return std::sqrt(squares);
}

}  // namespace train::oracle
