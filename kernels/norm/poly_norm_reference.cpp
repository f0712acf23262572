// float64 PolyNorm of [n, h], and its gradients.
#include <cmath>
#include <cstdint>

#include "kernels/core/reference.h"
#include "kernels/norm/rms_norm_reference.h"

namespace ligerdsl::reference {

namespace {

struct PolyNormResult {
  Values y, rstd;  // rstd [n, 3] of x^3, x^2, x
};

// `w` has the weights of x^3, x^2 and x; `b` has one element.
PolyNormResult poly_norm_reference(const Values& x, const Values& w, const Values& b, int64_t n,
                                   int64_t h, double eps) {
  PolyNormResult out{Values(n * h, b[0]), Values(n * 3)};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t p = 0; p < 3; ++p) {
      const auto power = [&](int64_t j) {
        return std::pow(x[i * h + j], static_cast<double>(3 - p));
      };
      double squares = 0;
      for (int64_t j = 0; j < h; ++j) squares += power(j) * power(j);
      const double r = 1.0 / std::sqrt(squares / static_cast<double>(h) + eps);
      out.rstd[i * 3 + p] = r;
      for (int64_t j = 0; j < h; ++j) out.y[i * h + j] += w[p] * power(j) * r;
    }
  }
  return out;
}

struct PolyNormGradient {
  Values dx, dw, db;
};

// Returns the gradients from the forward's rstd. Each power x^p is normalised as in RMSNorm, so d_x
// is RMSNorm's gradient times the derivative of x^p.
PolyNormGradient poly_norm_gradient_reference(const Values& dy, const Values& x, const Values& w,
                                              const Values& rstd, int64_t n, int64_t h) {
  PolyNormGradient out{Values(n * h, 0.0), Values(3, 0.0), Values(1, 0.0)};
  for (const double d : dy) out.db[0] += d;
  for (int64_t p = 0; p < 3; ++p) {
    const double e = static_cast<double>(3 - p);
    Values u(n * h), scaled(dy), r(n);
    for (size_t i = 0; i < u.size(); ++i) u[i] = std::pow(x[i], e), scaled[i] *= w[p];
    for (int64_t i = 0; i < n; ++i) r[i] = rstd[i * 3 + p];
    const Values du = rms_norm_gradient_reference(scaled, u, {}, {}, r, n, h, 0).dx;
    for (size_t i = 0; i < u.size(); ++i) {
      out.dx[i] += du[i] * e * std::pow(x[i], e - 1);
      out.dw[p] += dy[i] * u[i] * r[i / h];
    }
  }
  return out;
}

}  // namespace

LIGERDSL_REFERENCE(poly_norm_forward) {
  const auto r = poly_norm_reference(call["x"], call["weight"], call["bias"], call.size("N"),
                                     call.size("H"), call.number("eps"));
  return {{"y", {r.y}}, {"rstd", {r.rstd}}};
}

LIGERDSL_REFERENCE(poly_norm_backward) {
  const auto g = poly_norm_gradient_reference(call["d_y"], call["x"], call["weight"], call["rstd"],
                                              call.size("N"), call.size("H"));
  Expected expected = {{"d_x", {g.dx}}};
  if (call.has("d_weight")) expected["d_weight"] = call.over_rows("d_weight", g.dw);
  if (call.has("d_bias")) expected["d_bias"] = call.over_rows("d_bias", g.db);
  return expected;
}

}  // namespace ligerdsl::reference
