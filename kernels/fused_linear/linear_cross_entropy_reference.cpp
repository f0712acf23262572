#include <cmath>
#include <utility>
#include <vector>

#include "kernels/core/reference.h"
#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "kernels/cross_entropy/target_counts_reference.h"
#include "kernels/fused_linear/linear_loss_reference.h"

namespace ligerdsl::reference {

namespace {

// Multiplies each row's losses by its label's probability, which is a constant in the gradients.
void scale_by_tokens(const CrossEntropyCase& which, const Values& logits,
                     const std::vector<int64_t>& labels, CrossEntropyResult* result) {
  CrossEntropyCase each = which;
  each.reduction = Reduce::none;
  const auto rows = cross_entropy_reference(logits, labels, each);
  const bool none = which.reduction == Reduce::none;
  const double valid = counts_reference(labels, which.ignore_index, which.weight)[3];
  const double inverse = counts_reference(labels, which.ignore_index, which.weight)[1];
  const bool mean = which.reduction == Reduce::mean;
  result->loss.assign(none ? labels.size() : 1, 0.0);
  result->z_loss = result->loss;
  CrossEntropyCase losses = which;
  losses.d_entropy.clear();
  const Values of_losses = cross_entropy_reference(logits, labels, losses).d_logits;
  for (size_t i = 0; i < labels.size(); ++i) {
    double p = 0;
    if (labels[i] != which.ignore_index && labels[i] >= 0 && labels[i] < which.classes) {
      const double x =
          logits[i * static_cast<size_t>(which.classes) + static_cast<size_t>(labels[i])];
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

// Returns the expected outputs of the forward or the backward operation. `lse` and `entropy` are
// the forward's results for the backward operation, else empty.
Expected fused_linear_cross_entropy(const ReferenceCall& call, const Values& lse,
                                    const Values& entropy) {
  const int64_t n = call.size("N"), v = call.size("V");
  Values logits = logits_of(call["x"], call["weight"], n, v, call.size("H"));
  for (int64_t i = 0; call.has("bias") && i < n * v; ++i) logits[i] += call["bias"][i % v];
  auto which = cross_entropy_case(call);
  which.lse = lse;
  which.entropy = entropy;
  auto r = cross_entropy_reference(logits, call.integers("labels"), which);
  if (call.flag("use_token_scaling")) scale_by_tokens(which, logits, call.integers("labels"), &r);
  Values d_bias(v, 0.0);
  for (int64_t i = 0; i < n * v; ++i) d_bias[i % v] += r.d_logits[i];
  const DType type = call.type("x");
  Expected expected = {{"lse", {r.lse, false, type}},       {"loss", {r.loss, false, type}},
                       {"z_loss", {r.z_loss, false, type}}, {"accuracy", {r.accuracy}},
                       {"predictions", {r.predictions}},    {"entropy", {r.entropy, false, type}}};
  add_gradients(call, r.d_logits, &expected);
  if (call.has("d_bias")) expected["d_bias"] = call.over_rows("d_bias", d_bias, type);
  return expected;
}

}  // namespace

LIGERDSL_REFERENCE(fused_linear_cross_entropy) {
  return fused_linear_cross_entropy(call, {}, {});
}

LIGERDSL_REFERENCE(fused_linear_cross_entropy_backward) {
  return fused_linear_cross_entropy(call, call["lse"], call["entropy"]);
}

}  // namespace ligerdsl::reference
