// float64 softmax over [n, h] and its gradient.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

// Returns how many columns row i includes: h, or i % queries + h - queries + 1 with a causal mask.
int64_t softmax_limit(int64_t i, int64_t h, int64_t queries) {
  if (queries == 0) return h;
  return std::max<int64_t>(0, std::min(h, i % queries + h - queries + 1));
}

Values softmax_reference(const Values& x, int64_t n, int64_t h, double scale, int64_t queries) {
  Values y(n * h, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t limit = softmax_limit(i, h, queries);
    double top = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t j = 0; j < limit; ++j) top = std::max(top, scale * x[i * h + j]);
    for (int64_t j = 0; j < limit; ++j) total += std::exp(scale * x[i * h + j] - top);
    for (int64_t j = 0; j < limit; ++j) y[i * h + j] = std::exp(scale * x[i * h + j] - top) / total;
  }
  return y;
}

Values softmax_gradient_reference(const Values& dy, const Values& y, int64_t n, int64_t h,
                                  double scale, int64_t queries) {
  Values dx(n * h, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t limit = softmax_limit(i, h, queries);
    double inner = 0;
    for (int64_t j = 0; j < limit; ++j) inner += dy[i * h + j] * y[i * h + j];
    for (int64_t j = 0; j < limit; ++j)
      dx[i * h + j] = scale * y[i * h + j] * (dy[i * h + j] - inner);
  }
  return dx;
}

Expected softmax(const ReferenceCall& call, bool backward) {
  const int64_t n = call.size("N"), h = call.size("H");
  const int64_t queries = call.flag("causal") ? call.integer("n_queries") : 0;
  const double scale = call.number("scale", 1);
  if (!backward) return {{"y", {softmax_reference(call["x"], n, h, scale, queries)}}};
  return {{"d_x", {softmax_gradient_reference(call["d_y"], call["y"], n, h, scale, queries)}}};
}

}  // namespace

LIGERDSL_REFERENCE(softmax_forward) {
  return softmax(call, false);
}

LIGERDSL_REFERENCE(softmax_backward) {
  return softmax(call, true);
}

}  // namespace ligerdsl::reference
