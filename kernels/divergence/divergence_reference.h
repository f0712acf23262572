// float64 divergences of rows, computed term by term from their definitions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/core/reference_values.h"
#include "kernels/cross_entropy/target_counts_reference.h"

namespace ligerdsl::reference {

class ReferenceCall;

enum class DivergenceKind { kl, kl_log_target, jsd, tvd };
enum class DivergenceReduce { none, mean, sum, batchmean };

struct DivergenceCase {
  DivergenceKind kind = DivergenceKind::kl;
  int64_t n = 0, cols = 0;
  DivergenceReduce reduction = DivergenceReduce::batchmean;
  double beta = 0.5, eps = 1e-10;
  std::vector<int64_t> labels;  // if empty, every row counts
  int64_t ignore_index = -100;
  Values upstream{1.0};  // one value, or one per element when reduction is none
};

struct DivergenceResult {
  Values loss;  // one value, or one per element when reduction is none
  Values d_input;
};

// Returns weight * log, or 0 for weight 0 even if the logarithm is infinite.
inline double weighed_log(double weight, double log) {
  return weight == 0 ? 0 : weight * log;
}

// Returns one element's loss and its derivative with respect to x.
inline std::pair<double, double> divergence_term(const DivergenceCase& c, double x, double y) {
  switch (c.kind) {
    case DivergenceKind::kl:
      return {weighed_log(y, std::log(std::max(y, c.eps)) - x), -y};
    case DivergenceKind::kl_log_target:
      return {weighed_log(std::exp(y), y - x), -std::exp(y)};
    case DivergenceKind::tvd:
      return {std::fabs(x - y) / 2, x > y ? 0.5 : x < y ? -0.5 : 0.0};
    case DivergenceKind::jsd:
      break;
  }
  const double p = std::exp(y), q = std::exp(x), b = c.beta;
  if (b == 0) return {weighed_log(p, y - x), -p};
  if (b == 1) return {weighed_log(q, x - y), weighed_log(q, x - y + 1)};
  const double m = b * p + (1 - b) * q;
  const double log_m = m > 0 ? std::log(m) : 0;
  return {b * weighed_log(p, y - log_m) + (1 - b) * weighed_log(q, x - log_m),
          (1 - b) * weighed_log(q, x - log_m)};
}

inline DivergenceResult divergence_reference(const Values& input, const Values& target,
                                             const DivergenceCase& c) {
  double rows = static_cast<double>(c.n);
  if (!c.labels.empty()) rows = counts_reference(c.labels, c.ignore_index, {})[3];
  double share = 1;
  if (c.reduction == DivergenceReduce::mean)
    share = rows > 0 ? 1 / (rows * static_cast<double>(c.cols)) : 0;
  if (c.reduction == DivergenceReduce::batchmean) share = rows > 0 ? 1 / rows : 0;
  const bool each = c.reduction == DivergenceReduce::none;
  DivergenceResult out{.loss = Values(each ? input.size() : 1), .d_input = Values(input.size())};
  for (size_t i = 0; i < input.size(); ++i) {
    const size_t row = i / static_cast<size_t>(c.cols);
    if (!c.labels.empty() && c.labels[row] == c.ignore_index) continue;
    const auto [loss, slope] = divergence_term(c, input[i], target[i]);
    out.loss[each ? i : 0] += loss * share;
    out.d_input[i] = slope * share * c.upstream[each && c.upstream.size() > 1 ? i : 0];
  }
  return out;
}

// Returns the case of a call.
DivergenceCase divergence_case(const ReferenceCall& call, DivergenceKind kind);

}  // namespace ligerdsl::reference
