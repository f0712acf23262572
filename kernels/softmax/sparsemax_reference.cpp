// float64 sparsemax over [n, h], by sorting, and its gradient.
#include <algorithm>
#include <cstdint>
#include <functional>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

Values sparsemax_reference(const Values& x, int64_t n, int64_t h) {
  Values y(n * h);
  for (int64_t i = 0; i < n; ++i) {
    const auto row = x.begin() + i * h;
    Values sorted(row, row + h);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double top = sorted[0];
    double sum = 0, tau = 0;
    for (int64_t j = 0; j < h; ++j) {
      sum += sorted[j] - top;
      const auto k = static_cast<double>(j + 1);
      if (1 + k * (sorted[j] - top) <= sum) break;
      tau = (sum - 1) / k;
    }
    for (int64_t j = 0; j < h; ++j) y[i * h + j] = std::max(row[j] - top - tau, 0.0);
  }
  return y;
}

Values sparsemax_gradient_reference(const Values& dy, const Values& y, int64_t n, int64_t h) {
  Values dx(n * h, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0, support = 0;
    for (int64_t j = i * h; j < (i + 1) * h; ++j) {
      if (y[j] > 0) sum += dy[j], support += 1;
    }
    for (int64_t j = i * h; j < (i + 1) * h; ++j) {
      if (y[j] > 0) dx[j] = dy[j] - sum / support;
    }
  }
  return dx;
}

}  // namespace

LIGERDSL_REFERENCE(sparsemax_forward) {
  return {{"y", {sparsemax_reference(call["x"], call.size("N"), call.size("H"))}}};
}

LIGERDSL_REFERENCE(sparsemax_backward) {
  return {{"d_x",
           {sparsemax_gradient_reference(call["d_y"], call["y"], call.size("N"), call.size("H"))}}};
}

}  // namespace ligerdsl::reference
