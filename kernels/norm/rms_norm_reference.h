// float64 RMSNorm of [n, h], and its gradients.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

struct RmsNormResult {
  Values y, rstd;
};

// `w` may be empty.
inline RmsNormResult rms_norm_reference(const Values& x, const Values& w, int64_t n, int64_t h,
                                        double eps, double offset) {
  RmsNormResult out{Values(n * h), Values(n)};
  for (int64_t i = 0; i < n; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < h; ++j) squares += x[i * h + j] * x[i * h + j];
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(h) + eps);
    out.rstd[i] = r;
    for (int64_t j = 0; j < h; ++j)
      out.y[i * h + j] = x[i * h + j] * r * (w.empty() ? 1.0 : offset + w[j]);
  }
  return out;
}

struct RmsNormGradient {
  Values dx, dw;
};

// Returns the gradients from the forward's rstd. `ds` is added to dx unless it is empty.
inline RmsNormGradient rms_norm_gradient_reference(const Values& dy, const Values& x,
                                                   const Values& w, const Values& ds,
                                                   const Values& rstd, int64_t n, int64_t h,
                                                   double offset) {
  RmsNormGradient out{Values(n * h), Values(h, 0.0)};
  for (int64_t i = 0; i < n; ++i) {
    const double r = rstd[i];
    double inner = 0;
    for (int64_t j = 0; j < h; ++j)
      inner += dy[i * h + j] * (w.empty() ? 1.0 : offset + w[j]) * x[i * h + j];
    for (int64_t j = 0; j < h; ++j) {
      const int64_t e = i * h + j;
      const double m = dy[e] * (w.empty() ? 1.0 : offset + w[j]);
      out.dx[e] =
          r * (m - r * r / static_cast<double>(h) * x[e] * inner) + (ds.empty() ? 0.0 : ds[e]);
      out.dw[j] += dy[e] * x[e] * r;
    }
  }
  return out;
}

inline RmsNormGradient rms_norm_gradient_reference(const Values& dy, const Values& x,
                                                   const Values& w, const Values& ds, int64_t n,
                                                   int64_t h, double eps, double offset) {
  return rms_norm_gradient_reference(dy, x, w, ds, rms_norm_reference(x, w, n, h, eps, offset).rstd,
                                     n, h, offset);
}

}  // namespace ligerdsl::reference
