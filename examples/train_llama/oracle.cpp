#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <numbers>

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

LayerNorm layer_norm(View x, View w, View b, double eps) {
  int64_t width = w.size(), rows = x.size() / width;
  LayerNorm out{Array(x.size()), Array(rows), Array(rows)};
  for (int64_t r = 0; r < rows; ++r) {
    View row = x.subspan(r * width, width);
    double sum = 0, squares = 0;
    for (double v : row) sum += v;
    out.mean[r] = sum / width;
    for (double v : row) squares += (v - out.mean[r]) * (v - out.mean[r]);
    out.rstd[r] = 1 / std::sqrt(squares / width + eps);
    for (int64_t j = 0; j < width; ++j) out.y[r * width + j] = (row[j] - out.mean[r]) * out.rstd[r] * w[j] + b[j];
  }
  return out;
}

LayerNormGradients layer_norm_backward(View dy, View x, View w, View mean, View rstd) {
  int64_t width = w.size(), rows = x.size() / width;
  LayerNormGradients out{Array(x.size()), Array(width, 0.0), Array(width, 0.0)};
  for (int64_t r = 0; r < rows; ++r) {
    View g = dy.subspan(r * width, width), row = x.subspan(r * width, width);
    auto normal = [&](int64_t j) { return (row[j] - mean[r]) * rstd[r]; };
    double sum = 0, dot = 0;
    for (int64_t j = 0; j < width; ++j) {
      sum += g[j] * w[j];
      dot += g[j] * w[j] * normal(j);
      out.dw[j] += g[j] * normal(j);
      out.db[j] += g[j];
    }
    for (int64_t j = 0; j < width; ++j) {
      out.dx[r * width + j] = rstd[r] * (g[j] * w[j] - sum / width - normal(j) * dot / width);
    }
  }
  return out;
}

namespace {

// Returns the index into scale and shift for element i of x.
size_t modulating(size_t i, size_t elements, size_t width, size_t modulations) {
  const size_t rows_each = elements / modulations;  // elements per modulation
  return i / rows_each * width + i % width;
}

}  // namespace

Norm modulated_rms_norm(View x, View w, View scale, View shift, double eps) {
  Norm out = rms_norm(x, w, eps);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t at = modulating(i, x.size(), w.size(), scale.size() / w.size());
    out.y[i] = out.y[i] * (1 + scale[at]) + shift[at];
  }
  return out;
}

ModulatedNormGradients modulated_rms_norm_backward(View dy, View x, View w, View scale, View rstd) {
  ModulatedNormGradients out{{}, {}, Array(scale.size(), 0.0), Array(scale.size(), 0.0)};
  Array of_norm(dy.begin(), dy.end());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t at = modulating(i, x.size(), w.size(), scale.size() / w.size());
    of_norm[i] *= 1 + scale[at];
    out.dscale[at] += dy[i] * x[i] * rstd[i / w.size()] * w[i % w.size()];
    out.dshift[at] += dy[i];
  }
  NormGradients norm = rms_norm_backward(of_norm, x, w, rstd);
  out.dx = std::move(norm.dx);
  out.dw = std::move(norm.dw);
  return out;
}

namespace {

// Expands numbers per channel to one per element of a batch.
Array spread(View of_channels, int64_t positions) {
  Array out;
  for (double v : of_channels) out.insert(out.end(), positions, v);
  return out;
}

// Returns the part of a batch that belongs to a group.
View of_group(View batch, int64_t row, int64_t groups) {
  const size_t width = batch.size() / groups;
  return batch.subspan(row % groups * width, width);
}

}  // namespace

// A group is normalised like a row of LayerNorm, with a part of the weights.
LayerNorm group_norm(View x, int64_t positions, int64_t groups, View w, View b, double eps) {
  const Array weights = spread(w, positions), biases = spread(b, positions);
  const int64_t width = static_cast<int64_t>(weights.size()) / groups;
  LayerNorm out;
  for (int64_t row = 0; row < static_cast<int64_t>(x.size()) / width; ++row) {
    const LayerNorm one =
        layer_norm(x.subspan(row * width, width), of_group(weights, row, groups), of_group(biases, row, groups), eps);
    out.y.insert(out.y.end(), one.y.begin(), one.y.end());
    out.mean.push_back(one.mean[0]);
    out.rstd.push_back(one.rstd[0]);
  }
  return out;
}

LayerNormGradients group_norm_backward(View dy, View x, int64_t positions, int64_t groups, View w, View mean,
                                       View rstd) {
  const Array weights = spread(w, positions);
  const int64_t width = static_cast<int64_t>(weights.size()) / groups;
  LayerNormGradients out{{}, Array(w.size(), 0.0), Array(w.size(), 0.0)};
  for (int64_t row = 0; row < static_cast<int64_t>(x.size()) / width; ++row) {
    const LayerNormGradients one =
        layer_norm_backward(dy.subspan(row * width, width), x.subspan(row * width, width),
                            of_group(weights, row, groups), mean.subspan(row, 1), rstd.subspan(row, 1));
    out.dx.insert(out.dx.end(), one.dx.begin(), one.dx.end());
    for (int64_t i = 0; i < width; ++i) {
      const int64_t channel = (row % groups * width + i) / positions;
      out.dw[channel] += one.dw[i];
      out.db[channel] += one.db[i];
    }
  }
  return out;
}

PolyNorm poly_norm(View x, int64_t width, View w, double b, double eps) {
  const int64_t rows = x.size() / width;
  PolyNorm out{Array(x.size(), b), Array(rows * 3)};
  for (int64_t r = 0; r < rows; ++r) {
    for (int k = 0; k < 3; ++k) {
      double squares = 0;
      for (double v : x.subspan(r * width, width)) squares += std::pow(v, 2 * (3 - k));
      const double rstd = out.rstd[r * 3 + k] = 1 / std::sqrt(squares / width + eps);
      for (int64_t i = r * width; i < (r + 1) * width; ++i) out.y[i] += w[k] * std::pow(x[i], 3 - k) * rstd;
    }
  }
  return out;
}

LayerNormGradients poly_norm_backward(View dy, View x, int64_t width, View w, View rstd) {
  const int64_t rows = x.size() / width;
  LayerNormGradients out{Array(x.size(), 0.0), Array(3, 0.0), Array(1, 0.0)};
  for (double g : dy) out.db[0] += g;
  for (int64_t r = 0; r < rows; ++r) {
    for (int k = 0; k < 3; ++k) {
      const int p = 3 - k;
      const double of_row = rstd[r * 3 + k];
      double dot = 0;
      for (int64_t i = r * width; i < (r + 1) * width; ++i) dot += dy[i] * std::pow(x[i], p) * of_row;
      out.dw[k] += dot;
      for (int64_t i = r * width; i < (r + 1) * width; ++i) {
        const double normal = std::pow(x[i], p) * of_row;
        out.dx[i] += w[k] * of_row * p * std::pow(x[i], p - 1) * (dy[i] - normal * dot / width);
      }
    }
  }
  return out;
}

Array dyt(View x, double a, View w, View b) {
  Array y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(std::tanh(a * x[i]) * w[i % w.size()] + b[i % w.size()]);
  return y;
}

DytGradients dyt_backward(View dy, View x, double a, View w) {
  DytGradients out{Array(x.size()), Array(w.size(), 0.0), Array(w.size(), 0.0)};
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t column = i % w.size();
    const double t = std::tanh(a * x[i]), d = dy[i] * w[column] * (1 - t * t);
    out.dx[i] = a * d;
    out.da += x[i] * d;
    out.dw[column] += dy[i] * t;
    out.db[column] += dy[i];
  }
  return out;
}

void rotate(std::span<double> x, int64_t batch, int64_t positions, int64_t row, const Rotation& turn,
            double direction) {
  int64_t half = turn.rotated / 2;
  for (int64_t r = 0; r < batch * positions; ++r) {
    for (int64_t i = 0; i < half; ++i) {
      double angle = turn.angle(r % positions, i), c = std::cos(angle), s = direction * std::sin(angle);
      int64_t first = turn.interleaved ? 2 * i : i, second = turn.interleaved ? first + 1 : first + half;
      for (int64_t h = 0; h < turn.heads; ++h) {
        double* head = &x[r * row + h * turn.head_dim];
        double a = head[first], b = head[second];
        head[first] = a * c - b * s;
        head[second] = b * c + a * s;
      }
    }
  }
}

void rope(std::span<double> x, int64_t batch, int64_t positions, int64_t heads, int64_t head_dim, int64_t row,
          double base, double direction) {
  auto angle = [&](int64_t position, int64_t i) { return position * std::pow(base, -2.0 * i / head_dim); };
  rotate(x, batch, positions, row, {heads, head_dim, head_dim, false, angle}, direction);
}

namespace {

// Softmax over the first columns of each row; `columns` gives their number.
template <class Columns>
Array softmax_of(View x, int64_t width, double scale, Columns columns) {
  Array y(x.size(), 0.0);
  for (size_t r = 0; r < x.size() / width; ++r) {
    int64_t n = columns(r);
    View row = x.subspan(r * width, n);
    double highest = *std::max_element(row.begin(), row.end()), total = 0;
    for (int64_t j = 0; j < n; ++j) total += y[r * width + j] = std::exp(scale * (row[j] - highest));
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
    for (int64_t j = 0; j < n; ++j) dx[r * width + j] = scale * y[r * width + j] * (dy[r * width + j] - dot);
  }
  return dx;
}

auto past(int64_t width) {
  return [width](size_t row) { return static_cast<int64_t>(row) % width + 1; };
}
auto all(int64_t width) {
  return [width](size_t) { return width; };
}

}  // namespace

Array causal_softmax(View x, int64_t width, double scale) {
  return softmax_of(x, width, scale, past(width));
}
Array causal_softmax_backward(View dy, View y, int64_t width, double scale) {
  return softmax_gradient(dy, y, width, scale, past(width));
}
Array softmax(View x, int64_t width, double scale) {
  return softmax_of(x, width, scale, all(width));
}
Array softmax_backward(View dy, View y, int64_t width, double scale) {
  return softmax_gradient(dy, y, width, scale, all(width));
}

Array sparsemax(View x, int64_t width) {
  Array y;
  for (size_t r = 0; r < x.size() / width; ++r) {
    const View row = x.subspan(r * width, width);
    double high = *std::max_element(row.begin(), row.end()), low = high - 1;
    for (int halving = 0; halving < 60; ++halving) {
      const double tau = (low + high) / 2;
      double sum = 0;
      for (double v : row) sum += std::max(v - tau, 0.0);
      (sum > 1 ? low : high) = tau;
    }
    for (double v : row) y.push_back(std::max(v - low, 0.0));
  }
  return y;
}

Array sparsemax_backward(View dy, View y, int64_t width) {
  Array dx(y.size(), 0.0);
  for (size_t r = 0; r < y.size(); r += width) {
    double sum = 0, support = 0;
    for (size_t i = r; i < r + width; ++i) sum += y[i] > 0 ? dy[i] : 0, support += y[i] > 0;
    for (size_t i = r; i < r + width; ++i) dx[i] = y[i] > 0 ? dy[i] - sum / support : 0;
  }
  return dx;
}

Array dropout_mask(int64_t n, double p, int64_t seed, int64_t offset) {
  Array mask(n);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t counter = uint64_t(offset) + uint64_t(i / 4);
    uint32_t x[4] = {uint32_t(counter), uint32_t(counter >> 32), 0, 0}, low = uint32_t(seed),
             high = uint32_t(uint64_t(seed) >> 32);
    for (int round = 0; round < 10; ++round, low += 0x9e3779b9, high += 0xbb67ae85) {
      const uint64_t a = uint64_t{0xd2511f53} * x[0], b = uint64_t{0xcd9e8d57} * x[2];
      const uint32_t next[4] = {uint32_t(b >> 32) ^ x[1] ^ low, uint32_t(b), uint32_t(a >> 32) ^ x[3] ^ high,
                                uint32_t(a)};
      std::copy(next, next + 4, x);
    }
    mask[i] = x[i % 4] >= std::floor(p * 0x1p32);
  }
  return mask;
}

Activation silu(double u) {
  double sigmoid = 1 / (1 + std::exp(-u));
  return {u * sigmoid, sigmoid + u * sigmoid * (1 - sigmoid)};
}

Activation gelu(double u) {
  const double k = std::sqrt(2 / std::numbers::pi), t = std::tanh(k * (u + 0.044715 * u * u * u));
  return {u / 2 * (1 + t), (1 + t) / 2 + u / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * u * u)};
}

Activation gelu_erf(double u) {
  const double share = std::erfc(-u / std::numbers::sqrt2) / 2;
  return {u * share, share + u * std::exp(-u * u / 2) / std::sqrt(2 * std::numbers::pi)};
}

Activation relu(double u) {
  return {std::fmax(u, 0), u > 0 ? 1.0 : 0.0};
}

Activation relu_squared(double u) {
  const double positive = std::fmax(u, 0);
  return {positive * positive, 2 * positive};
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
Array geglu(View gate_up, int64_t ffn) {
  return gated(gate_up, ffn, gelu);
}
Array geglu_backward(View dout, View gate_up, int64_t ffn) {
  return gated_gradient(dout, gate_up, ffn, gelu);
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
