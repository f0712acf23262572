#include "kernels/optimizer/adamw_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(adamw_step) {
  if (call.has("skip") && call["skip"][0] != 0)
    return {{"param", {call["param"]}}, {"m", {call["m"]}}, {"v", {call["v"]}}, {"param_copy", {call["param_copy"]}}};
  const double clip = call.has("clip_factor") ? call["clip_factor"][0] : 1;
  const double lr = call.has("device_lr") ? call["device_lr"][0] : call.number("lr");
  const auto step = static_cast<int64_t>(call.has("device_step") ? call["device_step"][0] : call.number("step"));
  const auto s = adamw_reference({call["param"], call["m"], call["v"]}, call["grad"], clip, lr, call.number("beta1"),
                                 call.number("beta2"), call.number("eps"), call.number("weight_decay"), step);
  return {{"param", {s.p}}, {"m", {s.m}}, {"v", {s.v}}, {"param_copy", {s.p}}};
}

}  // namespace ligerdsl::reference
