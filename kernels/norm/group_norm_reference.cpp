#include "kernels/norm/group_norm_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

GroupNormShape group_norm_shape(const ReferenceCall& call) {
  return {call.size("N"), call.size("C"), call.size("K"), call.size("S")};
}

}  // namespace

LIGERDSL_REFERENCE(group_norm_forward) {
  const auto r =
      group_norm_reference(call["x"], call["weight"], call["bias"], group_norm_shape(call), call.number("eps"));
  return {{"y", {r.y}}, {"mean", {r.mean}}, {"rstd", {r.rstd}}};
}

LIGERDSL_REFERENCE(group_norm_backward) {
  const auto g = group_norm_gradient_reference(call["d_y"], call["x"], call["weight"], call["mean"], call["rstd"],
                                               group_norm_shape(call));
  Expected expected = {{"d_x", {g.dx}}};
  if (call.has("d_weight")) expected["d_weight"] = call.over_rows("d_weight", g.dw);
  if (call.has("d_bias")) expected["d_bias"] = call.over_rows("d_bias", g.db);
  return expected;
}

}  // namespace ligerdsl::reference
