#include "kernels/cross_entropy/cross_entropy_reference.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/reference.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::reference {
namespace {

struct Totals {
  double rows = 0, weights = 0, all_weights = 0;
};

Totals count(const std::vector<int64_t>& labels, const CrossEntropyCase& c) {
  Totals t;
  for (double w : c.weight) t.all_weights += w;
  for (int64_t label : labels) {
    if (label == c.ignore_index) continue;
    t.rows += 1;
    if (c.weight.empty()) {
      t.weights += 1;
    } else if (label >= 0 && label < c.classes) {
      t.weights += c.weight[label];
    }
  }
  return t;
}

struct RowResult {
  double loss = 0, zeta = 0, lse = 0;  // before the reduction's scale
  int64_t best = 0;
  double entropy = 0;
  Values d_loss, d_zeta, d_entropy;  // gradients of loss, zeta and entropy
};

RowResult row_reference(const double* x, int64_t row, int64_t label, const CrossEntropyCase& c,
                        const Totals& t) {
  const int64_t v = c.classes;
  const double a = c.smoothing, e = a / static_cast<double>(v);
  Values z(v), p(v);
  RowResult r;
  const double temperature = c.temperature > 0 ? c.temperature : 1;
  for (int64_t j = 0; j < v; ++j)
    z[j] = (c.softcap > 0 ? c.softcap * std::tanh(x[j] / c.softcap) : x[j]) / temperature;
  for (int64_t j = 1; j < v; ++j) {
    if (z[j] > z[r.best]) r.best = j;
  }
  const double top = z[r.best];
  double total = 0;
  for (int64_t j = 0; j < v; ++j) total += std::exp(z[j] - top);
  r.lse = top + std::log(total);
  for (int64_t j = 0; j < v; ++j) {
    p[j] = std::exp(z[j] - top) / total;
    if (p[j] > 0) r.entropy += p[j] * (top - z[j] + std::log(total));
  }

  if (!c.lse.empty()) {
    r.lse = c.lse[row];
    for (int64_t j = 0; j < v; ++j) p[j] = std::exp(z[j] - r.lse);
  }
  if (!c.entropy.empty()) r.entropy = c.entropy[row];

  const bool weighted = !c.weight.empty();
  const double w_label = weighted ? c.weight[label] : 1.0;
  r.loss = (1 - a) * w_label * (top - z[label] + std::log(total));
  if (a > 0) {
    for (int64_t j = 0; j < v; ++j)
      r.loss += e * (weighted ? c.weight[j] : 1.0) * (top - z[j] + std::log(total));
  }
  r.zeta = c.lse_square * r.lse * r.lse;
  r.d_loss.resize(v);
  r.d_zeta.resize(v);
  r.d_entropy.resize(v);
  for (int64_t j = 0; j < v; ++j) {
    const double of_cap = c.softcap > 0 ? z[j] * temperature / c.softcap : 0;
    const double slope = (1 - of_cap * of_cap) / temperature;
    const double hit = j == label ? 1.0 : 0.0;
    r.d_loss[j] = weighted
                      ? w_label * (1 - a) * (p[j] - hit) + e * (t.all_weights * p[j] - c.weight[j])
                      : p[j] - e - (1 - a) * hit;
    r.d_loss[j] *= slope;
    r.d_zeta[j] = 2 * c.lse_square * r.lse * p[j] * slope;
    if (p[j] > 0) r.d_entropy[j] = -p[j] * (std::log(p[j]) + r.entropy) * slope;
  }
  return r;
}

}  // namespace

CrossEntropyResult cross_entropy_reference(const Values& logits, const std::vector<int64_t>& labels,
                                           const CrossEntropyCase& c) {
  const Totals t = count(labels, c);
  const bool mean = c.reduction == Reduce::mean;
  const double loss_factor = mean ? (t.rows > 0 ? 1.0 / t.weights : 0.0) : 1.0;
  const double zeta_factor = mean ? (t.rows > 0 ? 1.0 / t.rows : 0.0) : 1.0;

  CrossEntropyResult out;
  out.d_logits.assign(c.n * c.classes, 0.0);
  out.loss.assign(c.n, 0.0);
  out.z_loss = out.accuracy = out.lse = out.entropy = out.loss;
  out.predictions.assign(c.n, -1.0);
  for (int64_t i = 0; i < c.n; ++i) {
    if (labels[i] == c.ignore_index) continue;
    double* d = &out.d_logits[i * c.classes];
    if (labels[i] < 0 || labels[i] >= c.classes) {
      out.loss[i] = out.z_loss[i] = out.lse[i] = out.entropy[i] = kNan;
      std::fill(d, d + c.classes, kNan);
      continue;
    }
    const RowResult r = row_reference(&logits[i * c.classes], i, labels[i], c, t);
    const double g = c.upstream.size() == 1 ? c.upstream[0] : c.upstream[i];
    out.loss[i] = r.loss * loss_factor + r.zeta * zeta_factor;
    out.z_loss[i] = r.zeta * zeta_factor;
    out.lse[i] = r.lse;
    out.entropy[i] = r.entropy;
    out.accuracy[i] = r.best == labels[i] ? 1.0 : 0.0;
    out.predictions[i] = static_cast<double>(r.best);
    const double h = c.d_entropy.empty() ? 0 : c.d_entropy[i];
    for (int64_t j = 0; j < c.classes; ++j)
      d[j] = g * (r.d_loss[j] * loss_factor + r.d_zeta[j] * zeta_factor) + h * r.d_entropy[j];
  }
  if (c.reduction == Reduce::none) return out;
  auto total = [](Values& values, double factor) {
    double sum = 0;
    for (double value : values) sum += value;
    values = {sum * factor};
  };
  total(out.loss, 1.0);
  total(out.z_loss, 1.0);
  total(out.accuracy, t.rows > 0 ? 1.0 / t.rows : 0.0);
  return out;
}

Reduce reduce_of(const ReferenceCall& call) {
  const int reduction = call.option("reduction", LIGERDSL_REDUCTION_MEAN);
  return reduction == LIGERDSL_REDUCTION_NONE  ? Reduce::none
         : reduction == LIGERDSL_REDUCTION_SUM ? Reduce::sum
                                               : Reduce::mean;
}

CrossEntropyCase cross_entropy_case(const ReferenceCall& call) {
  return {.n = call.size("N"),
          .classes = call.size("V"),
          .ignore_index = call.integer("ignore_index"),
          .smoothing = call.number("label_smoothing"),
          .lse_square = call.number("lse_square_scale"),
          .softcap = call.number("softcap"),
          .weight = call["class_weight"],
          .reduction = reduce_of(call),
          .upstream = call.has("d_loss") ? call["d_loss"] : Values{1.0},
          .temperature = call.number("temperature"),
          .d_entropy = call["d_entropy"]};
}

LIGERDSL_REFERENCE(cross_entropy) {
  const auto r =
      cross_entropy_reference(call["logits"], call.integers("labels"), cross_entropy_case(call));
  return {{"loss", {r.loss}},      {"z_loss", {r.z_loss}},           {"accuracy", {r.accuracy}},
          {"lse", {r.lse}},        {"predictions", {r.predictions}}, {"d_logits", {r.d_logits}},
          {"entropy", {r.entropy}}};
}

LIGERDSL_REFERENCE(cross_entropy_backward) {
  return {{"d_logits", {scaled_rows(call["d_logits"], call["d_loss"], call.size("V"))}}};
}

}  // namespace ligerdsl::reference
