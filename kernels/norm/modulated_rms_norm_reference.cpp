#include "kernels/norm/modulated_rms_norm_reference.h"

#include "kernels/core/reference.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(modulated_rms_norm_forward) {
  const auto r = modulated_rms_norm_reference(call["x"], call["weight"], call["scale"], call["shift"], call.size("N"),
                                              call.size("H"), call.number("eps"), call.number("offset"));
  // The shift may cancel most of an element, but not the rounding of what it is added to.
  const bool rounds = call.option("casting") == LIGERDSL_CASTING_LLAMA && call.has("shift");
  return {{"y", {r.y, rounds, call.type("y")}}, {"rstd", {r.rstd}}};
}

LIGERDSL_REFERENCE(modulated_rms_norm_backward) {
  const auto g =
      modulated_rms_norm_gradient_reference(call["d_y"], call["x"], call["weight"], call["scale"], call["rstd"],
                                            call.size("N"), call.size("H"), call.number("offset"));
  Expected expected = {{"d_x", {g.dx}}};
  const DType terms = call.option("casting") == LIGERDSL_CASTING_LLAMA ? call.type("x") : DType::f32;
  if (call.has("d_weight")) expected["d_weight"] = call.over_rows("d_weight", g.dw, terms);
  if (call.has("d_scale")) expected["d_scale"] = call.over_rows("d_scale", g.d_scale, terms);
  if (call.has("d_shift")) expected["d_shift"] = call.over_rows("d_shift", g.d_shift);
  return expected;
}

}  // namespace ligerdsl::reference
