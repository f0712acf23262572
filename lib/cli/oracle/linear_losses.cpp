// Losses whose logits are a product that they make themselves.
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/oracle/cross_entropy.h"
#include "kernels/oracle/divergence.h"
#include "lib/cli/oracle/formulas.h"
#include "lib/cli/oracle/loss_cases.h"

namespace ligerdsl::cli {

namespace {

// Losses of rows weighed by the probability of their label, which is taken as a constant.
void scale_by_tokens(const oracle::CrossEntropyCase& which, const Values& logits, const std::vector<int64_t>& labels,
                     oracle::CrossEntropyResult* result) {
  oracle::CrossEntropyCase each = which;
  each.reduction = oracle::Reduce::none;
  const auto rows = oracle::cross_entropy_oracle(logits, labels, each);
  const bool none = which.reduction == oracle::Reduce::none;
  const double valid = oracle::counts_oracle(labels, which.ignore_index, which.weight)[3];
  const double inverse = oracle::counts_oracle(labels, which.ignore_index, which.weight)[1];
  const bool mean = which.reduction == oracle::Reduce::mean;
  result->loss.assign(none ? labels.size() : 1, 0.0);
  result->z_loss = result->loss;
  oracle::CrossEntropyCase losses = which;
  losses.d_entropy.clear();
  const Values of_losses = oracle::cross_entropy_oracle(logits, labels, losses).d_logits;
  for (size_t i = 0; i < labels.size(); ++i) {
    double p = 0;
    if (labels[i] != which.ignore_index && labels[i] >= 0 && labels[i] < which.classes) {
      const double x = logits[i * static_cast<size_t>(which.classes) + static_cast<size_t>(labels[i])];
      const double z = which.softcap > 0 ? which.softcap * std::tanh(x / which.softcap) : x;
      p = std::exp(z / (which.temperature > 0 ? which.temperature : 1) - rows.lse[i]);
    } else if (labels[i] != which.ignore_index) {
      p = kNan;
    }
    const double zeta = rows.z_loss[i] * (mean && valid > 0 ? 1 / valid : 1);
    const double loss = (rows.loss[i] - rows.z_loss[i]) * (mean ? inverse : 1) + zeta;
    result->loss[none ? i : 0] += p * loss;
    result->z_loss[none ? i : 0] += p * zeta;
    for (int64_t j = 0; j < which.classes; ++j) {
      const size_t at = i * static_cast<size_t>(which.classes) + static_cast<size_t>(j);
      result->d_logits[at] += (p - 1) * of_losses[at];
    }
  }
}

// x w^T of rows of h elements.
Values logits_of(const Values& x, const Values& w, int64_t n, int64_t v, int64_t h) {
  Values logits(n * v, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < v; ++j) {
      for (int64_t k = 0; k < h; ++k) logits[i * v + j] += x[i * h + k] * w[j * h + k];
    }
  }
  return logits;
}

// d w and d^T x of d [n, v]: what a gradient of x w^T makes of both.
struct FactorGradients {
  Values d_x, d_weight;
};

FactorGradients factor_gradients(const Call& c, const Values& d, const Values& x, const Values& weight) {
  const int64_t n = c.size("N"), v = c.size("V"), h = c.size("H");
  FactorGradients out{Values(n * h, 0.0), Values(v * h, 0.0)};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < v; ++j)
      for (int64_t k = 0; k < h; ++k) {
        out.d_x[i * h + k] += d[i * v + j] * weight[j * h + k];
        out.d_weight[j * h + k] += d[i * v + j] * x[i * h + k];
      }
  return out;
}

void add_gradients(const Call& c, const Values& d, Expected* expected) {
  FactorGradients g = factor_gradients(c, d, c["x"], c["weight"]);
  const DType type = c.type("x");  // of the logits and their gradient on a GPU
  (*expected)["d_x"] = {std::move(g.d_x), true, type};
  if (c.has("d_weight")) (*expected)["d_weight"] = c.over_rows("d_weight", std::move(g.d_weight), type);
}

Values absolute(Values values) {
  for (double& value : values) value = std::fabs(value);
  return values;
}

double norm_of(const Values& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// And its backward, whose results are gradients alone.
Expected fused_linear_cross_entropy(const Call& c, const Values& lse, const Values& entropy) {
  const int64_t n = c.size("N"), v = c.size("V");
  Values logits = logits_of(c["x"], c["weight"], n, v, c.size("H"));
  for (int64_t i = 0; c.has("bias") && i < n * v; ++i) logits[i] += c["bias"][i % v];
  auto which = cross_entropy_case(c);
  which.lse = lse;
  which.entropy = entropy;
  auto r = oracle::cross_entropy_oracle(logits, c.integers("labels"), which);
  if (c.flag("use_token_scaling")) scale_by_tokens(which, logits, c.integers("labels"), &r);
  Values d_bias(v, 0.0);
  for (int64_t i = 0; i < n * v; ++i) d_bias[i % v] += r.d_logits[i];
  const DType type = c.type("x");
  Expected expected = {{"lse", {r.lse, false, type}},       {"loss", {r.loss, false, type}},
                       {"z_loss", {r.z_loss, false, type}}, {"accuracy", {r.accuracy}},
                       {"predictions", {r.predictions}},    {"entropy", {r.entropy, false, type}}};
  add_gradients(c, r.d_logits, &expected);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", d_bias, type);
  return expected;
}

Expected fused_linear_jsd(const Call& c) {
  const int64_t n = c.size("N"), v = c.size("V");
  const double temperature = c.number("temperature");
  const auto r = oracle::logit_divergence_oracle(logits_of(c["x"], c["weight"], n, v, c.size("H")),
                                                 logits_of(c["target_x"], c["target_weight"], n, v, c.size("T")),
                                                 divergence_case(c, oracle::DivergenceKind::jsd),
                                                 temperature == 0 ? 1 : temperature);
  Expected expected = {{"loss", {Values{r.loss}, false, c.type("x")}}};
  add_gradients(c, r.d_logits, &expected);
  const FactorGradients terms = factor_gradients(c, r.d_logits_terms, absolute(c["x"]), absolute(c["weight"]));
  expected["d_x"].norm = norm_of(terms.d_x);
  if (c.has("d_weight")) expected["d_weight"].norm = norm_of(terms.d_weight);
  return expected;
}

}  // namespace

Formulas linear_loss_formulas() {
  return {{"fused_linear_cross_entropy", [](const Call& c) { return fused_linear_cross_entropy(c, {}, {}); }},
          {"fused_linear_cross_entropy_backward",
           [](const Call& c) { return fused_linear_cross_entropy(c, c["lse"], c["entropy"]); }},
          {"fused_linear_jsd", fused_linear_jsd}};
}

}  // namespace ligerdsl::cli
