// float64 RMSNorm, LayerNorm and PolyNorm over [n, h], GroupNorm over [n, channels, positions].
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

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

// Row i has row i / (n / k) of scale and shift [k, h]. `shift` empty: 0.
inline RmsNormResult modulated_rms_norm_oracle(const Values& x, const Values& w, const Values& scale,
                                               const Values& shift, int64_t n, int64_t h, double eps, double offset) {
  RmsNormResult out = rms_norm_oracle(x, w, n, h, eps, offset);
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
inline ModulatedRmsNormGradient modulated_rms_norm_gradient_oracle(const Values& dy, const Values& x, const Values& w,
                                                                   const Values& scale, const Values& rstd, int64_t n,
                                                                   int64_t h, double offset) {
  ModulatedRmsNormGradient out{{}, {}, Values(scale.size(), 0.0), Values(scale.size(), 0.0)};
  const int64_t rows = n * h / static_cast<int64_t>(scale.size());
  Values of_norm(dy);
  for (int64_t e = 0; e < n * h; ++e) {
    const int64_t at = e / h / rows * h + e % h;
    of_norm[e] *= 1 + scale[at];
    out.d_scale[at] += dy[e] * x[e] * rstd[e / h] * (w.empty() ? 1.0 : offset + w[e % h]);
    out.d_shift[at] += dy[e];
  }
  RmsNormGradient norm = rms_norm_gradient_oracle(of_norm, x, w, {}, rstd, n, h, offset);
  out.dx = std::move(norm.dx);
  out.dw = std::move(norm.dw);
  return out;
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

struct GroupNormShape {
  int64_t n, channels, groups, positions;
  int64_t group() const { return channels / groups * positions; }  // elements of a group
};

// mean, rstd [n, groups]. `b` empty: 0.
inline LayerNormResult group_norm_oracle(const Values& x, const Values& w, const Values& b, const GroupNormShape& s,
                                         double eps) {
  LayerNormResult out{Values(x.size()), Values(s.n * s.groups), Values(s.n * s.groups)};
  const auto size = static_cast<double>(s.group());
  for (int64_t g = 0; g < s.n * s.groups; ++g) {
    const int64_t first = g * s.group();
    double total = 0, squares = 0;
    for (int64_t i = first; i < first + s.group(); ++i) total += x[i];
    const double mean = total / size;
    for (int64_t i = first; i < first + s.group(); ++i) squares += (x[i] - mean) * (x[i] - mean);
    out.mean[g] = mean;
    out.rstd[g] = 1.0 / std::sqrt(squares / size + eps);
    for (int64_t i = first; i < first + s.group(); ++i) {
      const int64_t c = i / s.positions % s.channels;
      out.y[i] = (x[i] - mean) * out.rstd[g] * w[c] + (b.empty() ? 0.0 : b[c]);
    }
  }
  return out;
}

// From the forward's mean and rstd.
inline LayerNormGradient group_norm_gradient_oracle(const Values& dy, const Values& x, const Values& w,
                                                    const Values& mean, const Values& rstd, const GroupNormShape& s) {
  LayerNormGradient out{Values(x.size()), Values(s.channels, 0.0), Values(s.channels, 0.0)};
  for (int64_t g = 0; g < s.n * s.groups; ++g) {
    const int64_t first = g * s.group();
    const auto normalised = [&](int64_t i) { return (x[i] - mean[g]) * rstd[g]; };
    double inner = 0, total = 0;
    for (int64_t i = first; i < first + s.group(); ++i) {
      const int64_t c = i / s.positions % s.channels;
      inner += normalised(i) * dy[i] * w[c];
      total += dy[i] * w[c];
      out.dw[c] += dy[i] * normalised(i);
      out.db[c] += dy[i];
    }
    for (int64_t i = first; i < first + s.group(); ++i)
      out.dx[i] = rstd[g] * (dy[i] * w[i / s.positions % s.channels] -
                             (normalised(i) * inner + total) / static_cast<double>(s.group()));
  }
  return out;
}

struct PolyNormResult {
  Values y, rstd;  // rstd [n, 3], of x^3, x^2, x
};

// `w`: of x^3, x^2, x; `b`: one element.
inline PolyNormResult poly_norm_oracle(const Values& x, const Values& w, const Values& b, int64_t n, int64_t h,
                                       double eps) {
  PolyNormResult out{Values(n * h, b[0]), Values(n * 3)};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t p = 0; p < 3; ++p) {
      const auto power = [&](int64_t j) { return std::pow(x[i * h + j], static_cast<double>(3 - p)); };
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

// From the forward's rstd: each power's norm as RMSNorm's, and the power's derivative.
inline PolyNormGradient poly_norm_gradient_oracle(const Values& dy, const Values& x, const Values& w,
                                                  const Values& rstd, int64_t n, int64_t h) {
  PolyNormGradient out{Values(n * h, 0.0), Values(3, 0.0), Values(1, 0.0)};
  for (const double d : dy) out.db[0] += d;
  for (int64_t p = 0; p < 3; ++p) {
    const double e = static_cast<double>(3 - p);
    Values u(n * h), scaled(dy), r(n);
    for (size_t i = 0; i < u.size(); ++i) u[i] = std::pow(x[i], e), scaled[i] *= w[p];
    for (int64_t i = 0; i < n; ++i) r[i] = rstd[i * 3 + p];
    const Values du = rms_norm_gradient_oracle(scaled, u, {}, {}, r, n, h, 0).dx;
    for (size_t i = 0; i < u.size(); ++i) {
      out.dx[i] += du[i] * e * std::pow(x[i], e - 1);
      out.dw[p] += dy[i] * u[i] * r[i / h];
    }
  }
  return out;
}

}  // namespace ligerdsl::oracle
