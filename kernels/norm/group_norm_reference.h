// float64 GroupNorm of [n, channels, positions], and its gradients.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/core/reference_values.h"
#include "kernels/norm/layer_norm_reference.h"

namespace ligerdsl::reference {

struct GroupNormShape {
  int64_t n, channels, groups, positions;
  int64_t group() const { return channels / groups * positions; }  // elements of a group
};

// mean, rstd [n, groups]. `b` empty: 0.
inline LayerNormResult group_norm_reference(const Values& x, const Values& w, const Values& b, const GroupNormShape& s,
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
inline LayerNormGradient group_norm_gradient_reference(const Values& dy, const Values& x, const Values& w,
                                                       const Values& mean, const Values& rstd,
                                                       const GroupNormShape& s) {
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

}  // namespace ligerdsl::reference
