// Cross-entropy with its statistics, and divergences.
#include <algorithm>
#include <cmath>

#include "oracle.h"

namespace train::oracle {
namespace {

double weight(const LossSettings& s, int64_t label) {
  return s.class_weight.empty() ? 1 : s.class_weight[label];
}

struct Totals {
  double rows = 0, weights = 0;  // over labels that count
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

Loss cross_entropy(View logits, std::span<const int64_t> labels, int64_t vocab, const LossSettings& s) {
  const int64_t rows = labels.size();
  const Totals totals = count(labels, s);
  Loss out{0, 0, 0, Array(logits.size(), 0.0), Array(rows, 0.0), Array(rows, -1.0), Array(rows, 0.0)};
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[r] == s.ignored) continue;
    Array z;
    for (double logit : logits.subspan(r * vocab, vocab)) z.push_back(capped(logit, s) / s.temperature);
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
      const double p = std::exp(z[j] - *best) / total, of_cap = s.softcap > 0 ? s.temperature * z[j] / s.softcap : 0;
      double d = (targets * p - target(j)) / totals.weights + 2 * s.lse_square_scale * out.lse[r] * p / totals.rows;
      d -= d_entropy * p * (z[j] - out.lse[r] + out.entropy[r]);
      out.dlogits[r * vocab + j] = d * (1 - of_cap * of_cap) / s.temperature;
    }
  }
  out.loss += out.z_loss;
  return out;
}

Array shard_partials(View logits, std::span<const int64_t> labels, int64_t vocab, int64_t first, int64_t classes,
                     int64_t ignored) {
  Array out;
  for (size_t r = 0; r < labels.size(); ++r) {
    const View x = logits.subspan(r * vocab + first, classes);
    const int64_t label = labels[r] - first;
    double top = *std::max_element(x.begin(), x.end()), others = 0, own = 0, below = 0, count = 0;
    for (int64_t j = 0; j < classes; ++j) {
      (j == label ? own : others) += j == label ? x[j] : std::exp(x[j] - top);
      below += x[j] - top;
      count += 1;
    }
    if (labels[r] == ignored) top = others = own = below = count = 0;
    out.insert(out.end(), {top, others, own, below, count});
  }
  return out;
}

Divergence kl_div(double x, double p) {
  return {p * (std::log(p) - x), -p};
}

Divergence jsd(double x, double y, double beta) {
  const double q = std::exp(x), p = std::exp(y), log_m = std::log(beta * p + (1 - beta) * q);
  return {beta * p * (y - log_m) + (1 - beta) * q * (x - log_m), (1 - beta) * q * (x - log_m)};
}

Divergence tvd(double x, double y) {
  return {std::abs(x - y) / 2, x > y ? 0.5 : x < y ? -0.5 : 0};
}

LinearLoss linear_cross_entropy(View x, View w, View b, std::span<const int64_t> labels, const LossSettings& s) {
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

namespace {

// Returns log-softmax of rows with a temperature.
Array log_probabilities(Array logits, int64_t vocab, double temperature) {
  for (auto row = logits.begin(); row != logits.end(); row += vocab) {
    const double top = *std::max_element(row, row + vocab);
    double sum = 0;
    for (int64_t j = 0; j < vocab; ++j) sum += std::exp((row[j] - top) / temperature);
    for (int64_t j = 0; j < vocab; ++j) row[j] = (row[j] - top) / temperature - std::log(sum);
  }
  return logits;
}

}  // namespace

LinearJsd linear_jsd(View x, View w, View y, View u, int64_t rows, int64_t vocab, double beta, double temperature) {
  const int64_t width = w.size() / vocab;
  const Array q = log_probabilities(matmul(x, w, rows, vocab, width, false, true), vocab, temperature);
  const Array p = log_probabilities(matmul(y, u, rows, vocab, u.size() / vocab, false, true), vocab, temperature);
  LinearJsd out;
  Array d(q.size());
  for (int64_t r = 0; r < rows; ++r) {
    double slopes = 0;
    for (int64_t i = r * vocab; i < (r + 1) * vocab; ++i) {
      const Divergence term = jsd(q[i], p[i], beta);
      out.loss += term.value / rows;
      d[i] = term.slope;
      slopes += term.slope;
    }
    for (int64_t i = r * vocab; i < (r + 1) * vocab; ++i)
      d[i] = (d[i] - std::exp(q[i]) * slopes) / (temperature * rows);
  }
  out.dx = matmul(d, w, rows, width, vocab, false, false);
  out.dw = matmul(d, x, vocab, width, rows, true, false);
  return out;
}

Array target_counts(std::span<const int64_t> labels, const LossSettings& s) {
  const Totals totals = count(labels, s);
  double all = 0;
  for (double w : s.class_weight) all += w;
  return {1 / totals.rows, 1 / totals.weights, all, totals.rows};
}

}  // namespace train::oracle
