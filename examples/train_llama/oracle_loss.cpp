// Cross-entropy with its statistics.
#include <algorithm>
#include <cmath>

#include "oracle.h"

namespace train::oracle {
namespace {

double weight(const LossSettings& s, int64_t label) {
  return s.class_weight.empty() ? 1 : s.class_weight[label];
}

struct Totals {
  double rows = 0, weights = 0;  // sum of w over the labels that are not ignored
};

Totals count(std::span<const int64_t> labels, const LossSettings& s) {
  Totals t;
  for (int64_t label : labels) {
    if (label == s.ignored) continue;
    t.rows += 1;
    t.weights += weight(s, label);
  }
  return t;
}

double capped(double logit, const LossSettings& s) {
  return s.softcap > 0 ? s.softcap * std::tanh(logit / s.softcap) : logit;
}

}  // namespace

Loss cross_entropy(View logits, std::span<const int64_t> labels, int64_t vocab,
                   const LossSettings& s) {
  const int64_t rows = labels.size();
  const Totals totals = count(labels, s);
  Loss out{
      0, 0, 0, Array(logits.size(), 0.0), Array(rows, 0.0), Array(rows, -1.0), Array(rows, 0.0)};
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[r] == s.ignored) continue;
    Array z;
    for (double logit : logits.subspan(r * vocab, vocab))
      z.push_back(capped(logit, s) / s.temperature);
    const auto best = std::max_element(z.begin(), z.end());
    double total = 0;
    for (double v : z) total += std::exp(v - *best);
    out.lse[r] = *best + std::log(total);
    out.predictions[r] = best - z.begin();
    out.accuracy += (best - z.begin() == labels[r]) / totals.rows;
    out.z_loss += s.lse_square_scale * out.lse[r] * out.lse[r] / totals.rows;

    auto target = [&](int64_t j) {
      return weight(s, j) * (s.smoothing / vocab + (j == labels[r] ? 1 - s.smoothing : 0));
    };
    for (double v : z) out.entropy[r] += std::exp(v - out.lse[r]) * (out.lse[r] - v);
    const double d_entropy = s.d_entropy.empty() ? 0 : s.d_entropy[r];
    double targets = 0;
    for (int64_t j = 0; j < vocab; ++j) {
      out.loss += target(j) * (*best - z[j] + std::log(total)) / totals.weights;
      targets += target(j);
    }
    for (int64_t j = 0; j < vocab; ++j) {
      const double p = std::exp(z[j] - *best) / total,
                   of_cap = s.softcap > 0 ? s.temperature * z[j] / s.softcap : 0;
      double d = (targets * p - target(j)) / totals.weights +
                 2 * s.lse_square_scale * out.lse[r] * p / totals.rows;
      d -= d_entropy * p * (z[j] - out.lse[r] + out.entropy[r]);
      out.dlogits[r * vocab + j] = d * (1 - of_cap * of_cap) / s.temperature;
    }
  }
  out.loss += out.z_loss;
  return out;
}

LinearLoss linear_cross_entropy(View x, View w, View b, std::span<const int64_t> labels,
                                const LossSettings& s) {
  const int64_t rows = labels.size(), vocab = b.size(), width = w.size() / vocab;
  Array logits = matmul(x, w, rows, vocab, width, false, true);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] += b[i % vocab];
  LinearLoss out{cross_entropy(logits, labels, vocab, s), logits, {}, {}, Array(vocab, 0.0)};
  const Array& d = out.loss.dlogits;
  out.dx = matmul(d, w, rows, width, vocab, false, false);
  out.dw = matmul(d, x, vocab, width, rows, true, false);
  for (size_t i = 0; i < d.size(); ++i) out.db[i % vocab] += d[i];
  return out;
}

}  // namespace train::oracle
