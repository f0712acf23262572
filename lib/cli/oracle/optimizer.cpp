// The step of AdamW, and the norm that clips its gradients.
#include <cmath>

#include "kernels/oracle/elementwise.h"
#include "lib/cli/oracle/formulas.h"

namespace ligerdsl::cli {

namespace {

Expected adamw_step(const Call& c) {
  if (c.has("skip") && c["skip"][0] != 0)
    return {{"param", {c["param"]}}, {"m", {c["m"]}}, {"v", {c["v"]}}, {"param_copy", {c["param_copy"]}}};
  const double clip = c.has("clip_factor") ? c["clip_factor"][0] : 1;
  const double lr = c.has("device_lr") ? c["device_lr"][0] : c.number("lr");
  const auto step = static_cast<int64_t>(c.has("device_step") ? c["device_step"][0] : c.number("step"));
  const auto s = oracle::adamw_oracle({c["param"], c["m"], c["v"]}, c["grad"], clip, lr, c.number("beta1"),
                                      c.number("beta2"), c.number("eps"), c.number("weight_decay"), step);
  return {{"param", {s.p}}, {"m", {s.m}}, {"v", {s.v}}, {"param_copy", {s.p}}};
}

Expected global_norm(const Call& c) {
  double squares = 0;
  for (const auto& [name, bytes] : c.tensors) {
    if (!name.starts_with("tensors[")) continue;
    for (const double value : c[name]) squares += value * value;
  }
  const double norm = std::sqrt(squares);
  const double factor = std::fmin(1.0, c.number("max_norm") / (norm + 1e-6));
  const double nonfinite = std::isfinite(norm) ? 0 : 1;
  Expected expected{{"norm", {{norm}}}, {"clip_factor", {{factor}}}, {"nonfinite", {{nonfinite}}}};
  if (c.has("steps")) expected["steps"] = {{c["steps"][0] + 1 - nonfinite}};
  if (c.has("skipped")) expected["skipped"] = {{c["skipped"][0] + nonfinite}};
  return expected;
}

}  // namespace

Formulas optimizer_formulas() {
  return {{"adamw_step", adamw_step}, {"global_norm", global_norm}};
}

}  // namespace ligerdsl::cli
