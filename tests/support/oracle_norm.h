// float64 RMSNorm over [n, h].
#pragma once

#include <cmath>

#include "tests/support/tensor.h"

namespace ligerdsl::test {

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

// `ds` empty: none; it is added to dx.
inline RmsNormGradient rms_norm_gradient_oracle(const Values& dy, const Values& x, const Values& w, const Values& ds,
                                                int64_t n, int64_t h, double eps, double offset) {
  RmsNormGradient out{Values(n * h), Values(h, 0.0)};
  const RmsNormResult forward = rms_norm_oracle(x, w, n, h, eps, offset);
  for (int64_t i = 0; i < n; ++i) {
    const double r = forward.rstd[i];
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

}  // namespace ligerdsl::test
