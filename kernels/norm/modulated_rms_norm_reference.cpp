// float64 RMSNorm with one scale and shift per segment of rows, and its gradients.
#include <cstdint>
#include <utility>

#include "kernels/core/reference.h"
#include "kernels/norm/rms_norm_reference.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::reference {

namespace {

// Row i uses row i / (n / k) of scale and shift [k, h]. An empty `shift` is 0.
RmsNormResult modulated_rms_norm_reference(const Values& x, const Values& w, const Values& scale,
                                           const Values& shift, int64_t n, int64_t h, double eps,
                                           double offset) {
  RmsNormResult out = rms_norm_reference(x, w, n, h, eps, offset);
  const int64_t rows = n * h / static_cast<int64_t>(scale.size());
  for (int64_t e = 0; e < n * h; ++e) {
    const int64_t at = e / h / rows * h + e % h;
    out.y[e] = out.y[e] * (1 + scale[at]) + (shift.empty() ? 0.0 : shift[at]);
  }
  return out;
}

struct ModulatedRmsNormGradient {
  Values dx, dw, d_scale, d_shift;
};

// Returns the gradients from the forward's rstd.
ModulatedRmsNormGradient modulated_rms_norm_gradient_reference(const Values& dy, const Values& x,
                                                               const Values& w, const Values& scale,
                                                               const Values& rstd, int64_t n,
                                                               int64_t h, double offset) {
  ModulatedRmsNormGradient out{{}, {}, Values(scale.size(), 0.0), Values(scale.size(), 0.0)};
  const int64_t rows = n * h / static_cast<int64_t>(scale.size());
  Values of_norm(dy);
  for (int64_t e = 0; e < n * h; ++e) {
    const int64_t at = e / h / rows * h + e % h;
    of_norm[e] *= 1 + scale[at];
    out.d_scale[at] += dy[e] * x[e] * rstd[e / h] * (w.empty() ? 1.0 : offset + w[e % h]);
    out.d_shift[at] += dy[e];
  }
  RmsNormGradient norm = rms_norm_gradient_reference(of_norm, x, w, {}, rstd, n, h, offset);
  out.dx = std::move(norm.dx);
  out.dw = std::move(norm.dw);
  return out;
}

}  // namespace

LIGERDSL_REFERENCE(modulated_rms_norm_forward) {
  const auto r = modulated_rms_norm_reference(call["x"], call["weight"], call["scale"],
                                              call["shift"], call.size("N"), call.size("H"),
                                              call.number("eps"), call.number("offset"));
  // The shift may cancel most of an element, but not its rounding error.
  const bool rounds = call.option("casting") == LIGERDSL_CASTING_LLAMA && call.has("shift");
  return {{"y", {r.y, rounds, call.type("y")}}, {"rstd", {r.rstd}}};
}

LIGERDSL_REFERENCE(modulated_rms_norm_backward) {
  const auto g = modulated_rms_norm_gradient_reference(call["d_y"], call["x"], call["weight"],
                                                       call["scale"], call["rstd"], call.size("N"),
                                                       call.size("H"), call.number("offset"));
  Expected expected = {{"d_x", {g.dx}}};
  const DType terms =
      call.option("casting") == LIGERDSL_CASTING_LLAMA ? call.type("x") : DType::f32;
  if (call.has("d_weight")) expected["d_weight"] = call.over_rows("d_weight", g.dw, terms);
  if (call.has("d_scale")) expected["d_scale"] = call.over_rows("d_scale", g.d_scale, terms);
  if (call.has("d_shift")) expected["d_shift"] = call.over_rows("d_shift", g.d_shift);
  return expected;
}

}  // namespace ligerdsl::reference
