// float64 step of AdamW.
#include <cmath>
#include <cstdint>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

struct AdamwState {
  Values p, m, v;
};

AdamwState adamw_reference(AdamwState s, const Values& g, double clip, double lr, double beta1,
                           double beta2, double eps, double weight_decay, int64_t step) {
  const double bias1 = 1.0 - std::pow(beta1, static_cast<double>(step));
  const double bias2 = 1.0 - std::pow(beta2, static_cast<double>(step));
  for (size_t i = 0; i < g.size(); ++i) {
    const double gradient = g[i] * clip;
    s.m[i] = beta1 * s.m[i] + (1.0 - beta1) * gradient;
    s.v[i] = beta2 * s.v[i] + (1.0 - beta2) * gradient * gradient;
    s.p[i] -= lr * ((s.m[i] / bias1) / (std::sqrt(s.v[i] / bias2) + eps) + weight_decay * s.p[i]);
  }
  return s;
}

}  // namespace

LIGERDSL_REFERENCE(adamw_step) {
  if (call.has("skip") && call["skip"][0] != 0)
    return {{"param", {call["param"]}},
            {"m", {call["m"]}},
            {"v", {call["v"]}},
            {"param_copy", {call["param_copy"]}}};
  const double clip = call.has("clip_factor") ? call["clip_factor"][0] : 1;
  const double lr = call.has("device_lr") ? call["device_lr"][0] : call.number("lr");
  const auto step =
      static_cast<int64_t>(call.has("device_step") ? call["device_step"][0] : call.number("step"));
  const auto s = adamw_reference({call["param"], call["m"], call["v"]}, call["grad"], clip, lr,
                                 call.number("beta1"), call.number("beta2"), call.number("eps"),
                                 call.number("weight_decay"), step);
  return {{"param", {s.p}}, {"m", {s.m}}, {"v", {s.v}}, {"param_copy", {s.p}}};
}

}  // namespace ligerdsl::reference
