#include "kernels/norm/dyt_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(dyt_forward) {
  return {{"y", {dyt_reference(call["x"], call["alpha"][0], call["weight"], call["bias"])}}};
}

LIGERDSL_REFERENCE(dyt_backward) {
  const auto g = dyt_gradient_reference(call["d_y"], call["x"], call["alpha"][0], call["weight"]);
  Expected expected = {{"d_x", {g.d_x}}};
  if (call.has("d_alpha")) expected["d_alpha"] = call.over_rows("d_alpha", g.d_alpha);
  if (call.has("d_weight")) expected["d_weight"] = call.over_rows("d_weight", g.d_weight);
  if (call.has("d_bias")) expected["d_bias"] = call.over_rows("d_bias", g.d_bias);
  return expected;
}

}  // namespace ligerdsl::reference
