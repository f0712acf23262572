// Softmax, and losses of logits: cross-entropy and divergences.
#include <utility>

#include "kernels/oracle/cross_entropy.h"
#include "kernels/oracle/divergence.h"
#include "kernels/oracle/softmax.h"
#include "kernels/oracle/sparsemax.h"
#include "kernels/oracle/vocab_parallel_cross_entropy.h"
#include "lib/cli/oracle/formulas.h"
#include "lib/cli/oracle/loss_cases.h"

namespace ligerdsl::cli {

namespace {

Expected softmax(const Call& c, bool backward) {
  const int64_t n = c.size("N"), h = c.size("H");
  const auto queries = static_cast<int64_t>(c.flag("causal") ? c.number("n_queries") : 0);
  const double scale = c.number("scale", 1);
  if (!backward) return {{"y", {oracle::softmax_oracle(c["x"], n, h, scale, queries)}}};
  return {{"d_x", {oracle::softmax_gradient_oracle(c["d_y"], c["y"], n, h, scale, queries)}}};
}

Expected sparsemax_forward(const Call& c) {
  return {{"y", {oracle::sparsemax_oracle(c["x"], c.size("N"), c.size("H"))}}};
}

Expected sparsemax_backward(const Call& c) {
  return {{"d_x", {oracle::sparsemax_gradient_oracle(c["d_y"], c["y"], c.size("N"), c.size("H"))}}};
}

Expected cross_entropy(const Call& c) {
  const auto r = oracle::cross_entropy_oracle(c["logits"], c.integers("labels"), cross_entropy_case(c));
  return {{"loss", {r.loss}},      {"z_loss", {r.z_loss}},           {"accuracy", {r.accuracy}},
          {"lse", {r.lse}},        {"predictions", {r.predictions}}, {"d_logits", {r.d_logits}},
          {"entropy", {r.entropy}}};
}

Expected vocab_parallel_partials(const Call& c) {
  return {{"partials",
           {oracle::vocab_parallel_partials_oracle(c["logits"], c.integers("labels"), vocab_parallel_case(c))}}};
}

Expected vocab_parallel_cross_entropy(const Call& c) {
  auto r = oracle::vocab_parallel_oracle(c["partials"], c["logits"], c.integers("labels"), vocab_parallel_case(c));
  return {{"loss", {std::move(r.loss)}}, {"d_logits", {std::move(r.d_logits)}}};
}

Expected divergence(const Call& c, oracle::DivergenceKind kind) {
  auto r = oracle::divergence_oracle(c["input"], c["target"], divergence_case(c, kind));
  return {{"loss", {std::move(r.loss)}}, {"d_input", {std::move(r.d_input)}}};
}

Expected kl_div(const Call& c) {
  return divergence(c, c.flag("log_target") ? oracle::DivergenceKind::kl_log_target : oracle::DivergenceKind::kl);
}

Expected target_counts(const Call& c) {
  const auto ignored = static_cast<int64_t>(c.number("ignore_index"));
  return {{"counts", {oracle::counts_oracle(c.integers("labels"), ignored, c["class_weight"])}}};
}

}  // namespace

Formulas loss_formulas() {
  return {{"softmax_forward", [](const Call& c) { return softmax(c, false); }},
          {"softmax_backward", [](const Call& c) { return softmax(c, true); }},
          {"sparsemax_forward", sparsemax_forward},
          {"sparsemax_backward", sparsemax_backward},
          {"cross_entropy", cross_entropy},
          {"cross_entropy_backward", [](const Call& c) { return scaled(c, "d_logits", "d_logits", "d_loss", "V"); }},
          {"vocab_parallel_cross_entropy_partials", vocab_parallel_partials},
          {"vocab_parallel_cross_entropy", vocab_parallel_cross_entropy},
          {"kl_div", kl_div},
          {"jsd", [](const Call& c) { return divergence(c, oracle::DivergenceKind::jsd); }},
          {"tvd", [](const Call& c) { return divergence(c, oracle::DivergenceKind::tvd); }},
          {"target_counts", target_counts}};
}

}  // namespace ligerdsl::cli
