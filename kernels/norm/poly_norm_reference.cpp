#include "kernels/norm/poly_norm_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(poly_norm_forward) {
  const auto r =
      poly_norm_reference(call["x"], call["weight"], call["bias"], call.size("N"), call.size("H"), call.number("eps"));
  return {{"y", {r.y}}, {"rstd", {r.rstd}}};
}

LIGERDSL_REFERENCE(poly_norm_backward) {
  const auto g = poly_norm_gradient_reference(call["d_y"], call["x"], call["weight"], call["rstd"], call.size("N"),
                                              call.size("H"));
  Expected expected = {{"d_x", {g.dx}}};
  if (call.has("d_weight")) expected["d_weight"] = call.over_rows("d_weight", g.dw);
  if (call.has("d_bias")) expected["d_bias"] = call.over_rows("d_bias", g.db);
  return expected;
}

}  // namespace ligerdsl::reference
