#include "kernels/fused_linear/logit_divergence_reference.h"

#include <cmath>

#include "kernels/core/reference.h"
#include "kernels/fused_linear/linear_loss_reference.h"

namespace ligerdsl::reference {

namespace {

Values absolute(Values values) {
  for (double& value : values) value = std::fabs(value);
  return values;
}

double norm_of(const Values& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

}  // namespace

LIGERDSL_REFERENCE(fused_linear_jsd) {
  const int64_t n = call.size("N"), v = call.size("V");
  const double temperature = call.number("temperature");
  const auto r = logit_divergence_reference(
      logits_of(call["x"], call["weight"], n, v, call.size("H")),
      logits_of(call["target_x"], call["target_weight"], n, v, call.size("T")),
      divergence_case(call, DivergenceKind::jsd), temperature == 0 ? 1 : temperature);
  Expected expected = {{"loss", {Values{r.loss}, false, call.type("x")}}};
  add_gradients(call, r.d_logits, &expected);
  const OperandGradients terms =
      operand_gradients(call, r.d_logits_terms, absolute(call["x"]), absolute(call["weight"]));
  expected["d_x"].norm = norm_of(terms.d_x);
  if (call.has("d_weight")) expected["d_weight"].norm = norm_of(terms.d_weight);
  return expected;
}

}  // namespace ligerdsl::reference
