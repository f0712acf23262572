#include "kernels/norm/rms_norm_reference.h"

#include <utility>

#include "kernels/core/reference.h"
#include "kernels/norm/fused_add_norm_reference.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::reference {

namespace {

Expected forward(const ReferenceCall& call, const Values& x) {
  const auto r = rms_norm_reference(x, call["weight"], call.size("N"), call.size("H"),
                                    call.number("eps"), call.number("offset"));
  return {{"y", {r.y}}, {"rstd", {r.rstd}}};
}

Expected backward(const ReferenceCall& call, const char* x) {
  const auto g =
      rms_norm_gradient_reference(call["d_y"], call[x], call["weight"], call["d_sum"], call["rstd"],
                                  call.size("N"), call.size("H"), call.number("offset"));
  Expected expected = {{"d_x", {g.dx}}};
  const bool rounds_terms = call.option("casting") == LIGERDSL_CASTING_LLAMA;
  if (call.has("d_weight"))
    expected["d_weight"] =
        call.over_rows("d_weight", g.dw, rounds_terms ? call.type(x) : DType::f32);
  return expected;
}

}  // namespace

LIGERDSL_REFERENCE(rms_norm_forward) {
  return forward(call, call["x"]);
}

LIGERDSL_REFERENCE(rms_norm_backward) {
  return backward(call, "x");
}

LIGERDSL_REFERENCE(fused_add_rms_norm_forward) {
  Values sum = fused_sum(call);
  Expected expected = forward(call, sum);
  expected["sum"] = {std::move(sum)};
  return expected;
}

LIGERDSL_REFERENCE(fused_add_rms_norm_backward) {
  return backward(call, "sum");
}

}  // namespace ligerdsl::reference
