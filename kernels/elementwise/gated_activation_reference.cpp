#include "kernels/elementwise/gated_activation_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

// Returns columns [0, f) of each row for half 0 (gate), or columns [f, 2 f) for half 1 (up).
Values half_of(const Values& both, int64_t f, int64_t half) {
  Values out;
  out.reserve(both.size() / 2);
  for (auto row = both.begin(); row != both.end(); row += 2 * f)
    out.insert(out.end(), row + half * f, row + (half + 1) * f);
  return out;
}

Values joined(const Values& gate, const Values& up, int64_t f) {
  Values out;
  out.reserve(2 * gate.size());
  for (size_t at = 0; at < gate.size(); at += static_cast<size_t>(f)) {
    out.insert(out.end(), &gate[at], &gate[at] + f);
    out.insert(out.end(), &up[at], &up[at] + f);
  }
  return out;
}

Expected gated(const ReferenceCall& call, bool silu, bool backward) {
  const int64_t f = call.size("F");
  const bool fused = call.flag("fused") && f > 0;
  const Values gate = fused ? half_of(call["gate_up"], f, 0) : call["gate"];
  const Values up = fused ? half_of(call["gate_up"], f, 1) : call["up"];
  const double gamma = call.number("gate_multiplier", 1), delta = call.number("down_multiplier", 1);
  if (!backward)
    return {{"out", {silu ? swiglu_reference(gate, up, gamma, delta) : geglu_reference(gate, up)}}};
  const auto g = silu ? swiglu_gradient_reference(call["d_out"], gate, up, gamma, delta)
                      : geglu_gradient_reference(call["d_out"], gate, up);
  return {{"d_gate", {g.d_gate}},
          {"d_up", {g.d_up}},
          {"d_gate_up", {fused ? joined(g.d_gate, g.d_up, f) : Values()}}};
}

}  // namespace

LIGERDSL_REFERENCE(swiglu_forward) {
  return gated(call, true, false);
}

LIGERDSL_REFERENCE(swiglu_backward) {
  return gated(call, true, true);
}

LIGERDSL_REFERENCE(geglu_forward) {
  return gated(call, false, false);
}

LIGERDSL_REFERENCE(geglu_backward) {
  return gated(call, false, true);
}

}  // namespace ligerdsl::reference
