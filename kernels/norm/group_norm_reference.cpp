// float64 GroupNorm of [n, channels, positions], and its gradients.
#include <cmath>
#include <cstdint>

#include "kernels/core/reference.h"
#include "kernels/norm/layer_norm_reference.h"

namespace ligerdsl::reference {

namespace {

struct GroupNormShape {
  int64_t n, channels, groups, positions;
  int64_t group() const { return channels / groups * positions; }  // elements of a group
};

// mean and rstd are [n, groups]. An empty `b` is 0.
LayerNormResult group_norm_reference(const Values& x, const Values& w, const Values& b,
                                     const GroupNormShape& s, double eps) {
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

// Returns the gradients from the forward's mean and rstd.
LayerNormGradient group_norm_gradient_reference(const Values& dy, const Values& x, const Values& w,
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

GroupNormShape group_norm_shape(const ReferenceCall& call) {
  return {call.size("N"), call.size("C"), call.size("K"), call.size("S")};
}

}  // namespace

LIGERDSL_REFERENCE(group_norm_forward) {
  const auto r = group_norm_reference(call["x"], call["weight"], call["bias"],
                                      group_norm_shape(call), call.number("eps"));
  return {{"y", {r.y}}, {"mean", {r.mean}}, {"rstd", {r.rstd}}};
}

LIGERDSL_REFERENCE(group_norm_backward) {
  const auto g = group_norm_gradient_reference(call["d_y"], call["x"], call["weight"], call["mean"],
                                               call["rstd"], group_norm_shape(call));
  Expected expected = {{"d_x", {g.dx}}};
  if (call.has("d_weight")) expected["d_weight"] = call.over_rows("d_weight", g.dw);
  if (call.has("d_bias")) expected["d_bias"] = call.over_rows("d_bias", g.db);
  return expected;
}

}  // namespace ligerdsl::reference
