// float64 RMSNorm with a scale and a shift of groups of rows, and its gradients.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/core/reference_values.h"
#include "kernels/norm/rms_norm_reference.h"

namespace ligerdsl::reference {

// Row i has row i / (n / k) of scale and shift [k, h]. `shift` empty: 0.
inline RmsNormResult modulated_rms_norm_reference(const Values& x, const Values& w, const Values& scale,
                                                  const Values& shift, int64_t n, int64_t h, double eps,
                                                  double offset) {
  RmsNormResult out = rms_norm_reference(x, w, n, h, eps, offset);
  const int64_t rows = n * h / static_cast<int64_t>(scale.size());
  for (int64_t e = 0; e < n * h; ++e) {
    const int64_t at = e / h / rows * h + e % h;
    out.y[e] = out.y[e] * (1 + scale[at]) + (shift.empty() ? 0.0 : shift[at]);
  }
  return out;
}

struct ModulatedRmsNormGradient {
  Values dx, dw, d_scale, d_shift;
};

// From the forward's rstd.
inline ModulatedRmsNormGradient modulated_rms_norm_gradient_reference(const Values& dy, const Values& x,
                                                                      const Values& w, const Values& scale,
                                                                      const Values& rstd, int64_t n, int64_t h,
                                                                      double offset) {
  ModulatedRmsNormGradient out{{}, {}, Values(scale.size(), 0.0), Values(scale.size(), 0.0)};
  const int64_t rows = n * h / static_cast<int64_t>(scale.size());
  Values of_norm(dy);
  for (int64_t e = 0; e < n * h; ++e) {
    const int64_t at = e / h / rows * h + e % h;
    of_norm[e] *= 1 + scale[at];
    out.d_scale[at] += dy[e] * x[e] * rstd[e / h] * (w.empty() ? 1.0 : offset + w[e % h]);
    out.d_shift[at] += dy[e];
  }
  RmsNormGradient norm = rms_norm_gradient_reference(of_norm, x, w, {}, rstd, n, h, offset);
  out.dx = std::move(norm.dx);
  out.dw = std::move(norm.dw);
  return out;
}

}  // namespace ligerdsl::reference
