// float64 divergences of rows, from the textbook's sums: no form that is made for a machine's range.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/oracle/cross_entropy.h"
#include "kernels/oracle/values.h"

namespace ligerdsl::oracle {

enum class DivergenceKind { kl, kl_log_target, jsd, tvd };
enum class DivergenceReduce { none, mean, sum, batchmean };

struct DivergenceCase {
  DivergenceKind kind = DivergenceKind::kl;
  int64_t n = 0, cols = 0;
  DivergenceReduce reduction = DivergenceReduce::batchmean;
  double beta = 0.5, eps = 1e-10;
  std::vector<int64_t> labels;  // empty: every row counts
  int64_t ignore_index = -100;
  Values upstream{1.0};  // one value, or one per element when reduction is none
};

struct DivergenceResult {
  Values loss;  // one value, or one per element when reduction is none
  Values d_input;
};

// weight * log, where a weight of 0 counts more than an infinite logarithm.
inline double weighed_log(double weight, double log) {
  return weight == 0 ? 0 : weight * log;
}

// One element's loss and its derivative by x.
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
  return {b * weighed_log(p, y - log_m) + (1 - b) * weighed_log(q, x - log_m), (1 - b) * weighed_log(q, x - log_m)};
}

inline DivergenceResult divergence_oracle(const Values& input, const Values& target, const DivergenceCase& c) {
  double rows = static_cast<double>(c.n);
  if (!c.labels.empty()) rows = counts_oracle(c.labels, c.ignore_index, {})[3];
  double share = 1;
  if (c.reduction == DivergenceReduce::mean) share = rows > 0 ? 1 / (rows * static_cast<double>(c.cols)) : 0;
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

// Of a student's logits against a teacher's: c is of the logarithms of their softmaxes.
struct LogitDivergenceResult {
  double loss = 0;
  Values d_logits;  // of the student
  // Of each of these, the absolute values of the two terms whose difference it is: both are near log 2 where the rows have nothing in
  // common, and then nearly all of them cancels.
  Values d_logits_terms;
};

inline Values log_softmax(const Values& logits, int64_t n, int64_t cols, double temperature) {
  Values out(logits.size());
  for (int64_t i = 0; i < n; ++i) {
    const double* row = logits.data() + i * cols;
    const double top = *std::max_element(row, row + cols);
    double sum = 0;
    for (int64_t j = 0; j < cols; ++j) sum += std::exp((row[j] - top) / temperature);
    for (int64_t j = 0; j < cols; ++j) out[i * cols + j] = (row[j] - top) / temperature - std::log(sum);
  }
  return out;
}

inline LogitDivergenceResult logit_divergence_oracle(const Values& logits, const Values& target_logits,
                                                     const DivergenceCase& c, double temperature) {
  const Values x = log_softmax(logits, c.n, c.cols, temperature);
  const DivergenceResult by_x = divergence_oracle(x, log_softmax(target_logits, c.n, c.cols, temperature), c);
  LogitDivergenceResult out{
      .loss = by_x.loss[0], .d_logits = Values(logits.size()), .d_logits_terms = Values(logits.size())};
  for (int64_t i = 0; i < c.n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < c.cols; ++j) sum += by_x.d_input[i * c.cols + j];
    for (int64_t j = i * c.cols; j < (i + 1) * c.cols; ++j) {
      const double share = std::exp(x[j]) * sum;
      out.d_logits[j] = (by_x.d_input[j] - share) / temperature;
      out.d_logits_terms[j] = (std::fabs(by_x.d_input[j]) + std::fabs(share)) / temperature;
    }
  }
  return out;
}

}  // namespace ligerdsl::oracle
