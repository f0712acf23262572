// float64 RMSNorm and LayerNorm over [n, h].
#pragma once

#include <cmath>

#include "kernels/oracle/values.h"

namespace ligerdsl::oracle {

struct RmsNormResult {
  Values y, rstd;
};

// `w` empty: no weight.
inline RmsNormResult rms_norm_oracle(const Values& x, const Values& w, int64_t n, int64_t h, double eps,
                                     double offset) {
  RmsNormResult out{Values(n * h), Values(n)};
  for (int64_t i = 0; i < n; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < h; ++j) squares += x[i * h + j] * x[i * h + j];
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(h) + eps);
    out.rstd[i] = r;
    for (int64_t j = 0; j < h; ++j) out.y[i * h + j] = x[i * h + j] * r * (w.empty() ? 1.0 : offset + w[j]);
  }
  return out;
}

struct RmsNormGradient {
  Values dx, dw;
};

// From the forward's rstd. `ds` empty: none; it is added to dx.
inline RmsNormGradient rms_norm_gradient_oracle(const Values& dy, const Values& x, const Values& w, const Values& ds,
                                                const Values& rstd, int64_t n, int64_t h, double offset) {
  RmsNormGradient out{Values(n * h), Values(h, 0.0)};
  for (int64_t i = 0; i < n; ++i) {
    const double r = rstd[i];
    double inner = 0;
    for (int64_t j = 0; j < h; ++j) inner += dy[i * h + j] * (w.empty() ? 1.0 : offset + w[j]) * x[i * h + j];
    for (int64_t j = 0; j < h; ++j) {
      const int64_t e = i * h + j;
      const double m = dy[e] * (w.empty() ? 1.0 : offset + w[j]);
      out.dx[e] = r * (m - r * r / static_cast<double>(h) * x[e] * inner) + (ds.empty() ? 0.0 : ds[e]);
      out.dw[j] += dy[e] * x[e] * r;
    }
  }
  return out;
}

inline RmsNormGradient rms_norm_gradient_oracle(const Values& dy, const Values& x, const Values& w, const Values& ds,
                                                int64_t n, int64_t h, double eps, double offset) {
  return rms_norm_gradient_oracle(dy, x, w, ds, rms_norm_oracle(x, w, n, h, eps, offset).rstd, n, h, offset);
}

struct LayerNormResult {
  Values y, mean, rstd;
};

inline LayerNormResult layer_norm_oracle(const Values& x, const Values& w, const Values& b, int64_t n, int64_t h,
                                         double eps) {
  LayerNormResult out{Values(n * h), Values(n), Values(n)};
  for (int64_t i = 0; i < n; ++i) {
    double total = 0, squares = 0;
    for (int64_t j = 0; j < h; ++j) total += x[i * h + j];
    const double mean = total / static_cast<double>(h);
    for (int64_t j = 0; j < h; ++j) squares += (x[i * h + j] - mean) * (x[i * h + j] - mean);
    out.mean[i] = mean;
    out.rstd[i] = 1.0 / std::sqrt(squares / static_cast<double>(h) + eps);
    for (int64_t j = 0; j < h; ++j) out.y[i * h + j] = (x[i * h + j] - mean) * out.rstd[i] * w[j] + b[j];
  }
  return out;
}

struct LayerNormGradient {
  Values dx, dw, db;
};

// From the forward's mean and rstd. `ds` empty: none; it is added to dx.
inline LayerNormGradient layer_norm_gradient_oracle(const Values& dy, const Values& x, const Values& w,
                                                    const Values& ds, const Values& mean, const Values& rstd, int64_t n,
                                                    int64_t h) {
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
      out.dx[i * h + j] = rstd[i] * (dy[i * h + j] * w[j] - (normalised(j) * inner + total) / static_cast<double>(h)) +
                          (ds.empty() ? 0.0 : ds[i * h + j]);
    }
  }
  return out;
}

inline LayerNormGradient layer_norm_gradient_oracle(const Values& dy, const Values& x, const Values& w,
                                                    const Values& ds, int64_t n, int64_t h, double eps) {
  const LayerNormResult forward = layer_norm_oracle(x, w, Values(h, 0.0), n, h, eps);
  return layer_norm_gradient_oracle(dy, x, w, ds, forward.mean, forward.rstd, n, h);
}

}  // namespace ligerdsl::oracle
