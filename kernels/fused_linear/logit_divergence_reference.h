// float64 divergence of a student's logits from a teacher's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/core/reference_values.h"
#include "kernels/divergence/divergence_reference.h"

namespace ligerdsl::reference {

struct LogitDivergenceResult {
  double loss = 0;
  Values d_logits;  // gradient of the student's logits
  // Sum of the absolute values of each gradient's two terms. If a row's distributions do not
  // overlap, both terms are near log 2 and nearly cancel.
  Values d_logits_terms;
};

inline Values log_softmax(const Values& logits, int64_t n, int64_t cols, double temperature) {
  Values out(logits.size());
  for (int64_t i = 0; i < n; ++i) {
    const double* row = logits.data() + i * cols;
    const double top = *std::max_element(row, row + cols);
    double sum = 0;
    for (int64_t j = 0; j < cols; ++j) sum += std::exp((row[j] - top) / temperature);
    for (int64_t j = 0; j < cols; ++j)
      out[i * cols + j] = (row[j] - top) / temperature - std::log(sum);
  }
  return out;
}

// Returns the divergence of case `c` between the softmaxes of both tensors of logits.
inline LogitDivergenceResult logit_divergence_reference(const Values& logits,
                                                        const Values& target_logits,
                                                        const DivergenceCase& c,
                                                        double temperature) {
  const Values x = log_softmax(logits, c.n, c.cols, temperature);
  const DivergenceResult by_x =
      divergence_reference(x, log_softmax(target_logits, c.n, c.cols, temperature), c);
  LogitDivergenceResult out{.loss = by_x.loss[0],
                            .d_logits = Values(logits.size()),
                            .d_logits_terms = Values(logits.size())};
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

}  // namespace ligerdsl::reference
