// float64 LayerNorm of [n, h], and its gradients.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

struct LayerNormResult {
  Values y, mean, rstd;
};

inline LayerNormResult layer_norm_reference(const Values& x, const Values& w, const Values& b,
                                            int64_t n, int64_t h, double eps) {
  LayerNormResult out{Values(n * h), Values(n), Values(n)};
  for (int64_t i = 0; i < n; ++i) {
    double total = 0, squares = 0;
    for (int64_t j = 0; j < h; ++j) total += x[i * h + j];
    const double mean = total / static_cast<double>(h);
    for (int64_t j = 0; j < h; ++j) squares += (x[i * h + j] - mean) * (x[i * h + j] - mean);
    out.mean[i] = mean;
    out.rstd[i] = 1.0 / std::sqrt(squares / static_cast<double>(h) + eps);
    for (int64_t j = 0; j < h; ++j)
      out.y[i * h + j] = (x[i * h + j] - mean) * out.rstd[i] * w[j] + b[j];
  }
  return out;
}

struct LayerNormGradient {
  Values dx, dw, db;
};

// Returns the gradients from the forward's mean and rstd. `ds` is added to dx unless it is empty.
inline LayerNormGradient layer_norm_gradient_reference(const Values& dy, const Values& x,
                                                       const Values& w, const Values& ds,
                                                       const Values& mean, const Values& rstd,
                                                       int64_t n, int64_t h) {
  LayerNormGradient out{Values(n * h), Values(h, 0.0), Values(h, 0.0)};
  for (int64_t i = 0; i < n; ++i) {
    const auto normalised = [&](int64_t j) { return (x[i * h + j] - mean[i]) * rstd[i]; };
    double inner = 0, total = 0;
    for (int64_t j = 0; j < h; ++j) {
      const double q = dy[i * h + j] * w[j];
      inner += normalised(j) * q;
      total += q;
      out.dw[j] += dy[i * h + j] * normalised(j);
      out.db[j] += dy[i * h + j];
    }
    for (int64_t j = 0; j < h; ++j) {
      out.dx[i * h + j] = rstd[i] * (dy[i * h + j] * w[j] -
                                     (normalised(j) * inner + total) / static_cast<double>(h)) +
                          (ds.empty() ? 0.0 : ds[i * h + j]);
    }
  }
  return out;
}

inline LayerNormGradient layer_norm_gradient_reference(const Values& dy, const Values& x,
                                                       const Values& w, const Values& ds, int64_t n,
                                                       int64_t h, double eps) {
  const LayerNormResult forward = layer_norm_reference(x, w, Values(h, 0.0), n, h, eps);
  return layer_norm_gradient_reference(dy, x, w, ds, forward.mean, forward.rstd, n, h);
}

}  // namespace ligerdsl::reference
