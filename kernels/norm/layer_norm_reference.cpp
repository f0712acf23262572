#include "kernels/norm/layer_norm_reference.h"

#include <utility>

#include "kernels/core/reference.h"
#include "kernels/norm/fused_add_norm_reference.h"

namespace ligerdsl::reference {

namespace {

Expected forward(const ReferenceCall& call, const Values& x) {
  const Values bias = call.has("bias") ? call["bias"] : Values(static_cast<size_t>(call.size("H")));
  const auto r = layer_norm_reference(x, call["weight"], bias, call.size("N"), call.size("H"),
                                      call.number("eps"));
  return {{"y", {r.y}}, {"mean", {r.mean}}, {"rstd", {r.rstd}}};
}

Expected backward(const ReferenceCall& call, const char* x) {
  const auto g =
      layer_norm_gradient_reference(call["d_y"], call[x], call["weight"], call["d_sum"],
                                    call["mean"], call["rstd"], call.size("N"), call.size("H"));
  Expected expected = {{"d_x", {g.dx}}};
  if (call.has("d_weight")) expected["d_weight"] = call.over_rows("d_weight", g.dw);
  if (call.has("d_bias")) expected["d_bias"] = call.over_rows("d_bias", g.db);
  return expected;
}

}  // namespace

LIGERDSL_REFERENCE(layer_norm_forward) {
  return forward(call, call["x"]);
}

LIGERDSL_REFERENCE(layer_norm_backward) {
  return backward(call, "x");
}

LIGERDSL_REFERENCE(fused_add_layer_norm_forward) {
  Values sum = fused_sum(call);
  Expected expected = forward(call, sum);
  expected["sum"] = {std::move(sum)};
  return expected;
}

LIGERDSL_REFERENCE(fused_add_layer_norm_backward) {
  return backward(call, "sum");
}

}  // namespace ligerdsl::reference
