// Activation functions, alone and of gated layers, and dropout.
#include <utility>

#include "kernels/oracle/dropout.h"
#include "kernels/oracle/elementwise.h"
#include "lib/cli/oracle/formulas.h"

namespace ligerdsl::cli {

namespace {

oracle::ActivationKind activation_kind(const Call& c) {
  return static_cast<oracle::ActivationKind>(static_cast<int>(c.number("kind")));
}

Expected activation_forward(const Call& c) {
  return {{"y", {oracle::activation_oracle(activation_kind(c), c["x"])}}};
}

Expected activation_backward(const Call& c) {
  Values d_x = oracle::activation_gradient_oracle(activation_kind(c), c["d_y"], c["x"]);
  for (size_t i = 0; c.flag("accumulate") && i < d_x.size(); ++i) d_x[i] += c["d_x"][i];
  return {{"d_x", {std::move(d_x)}}};
}

oracle::DropoutCase dropout_case(const Call& c) {
  const auto integer = [&](const char* name) { return c.op.integer(name, 0); };
  oracle::DropoutCase out{.p = c.number("p"), .seed = integer("seed"), .offset = integer("offset")};
  if (!c.flag("with_device_seed")) return out;
  out.seed = c.integers("device_seed")[0];
  out.offset += c.integers("device_offset")[0];
  return out;
}

Expected dropout_forward(const Call& c) {
  return {{"y", {oracle::dropout_oracle(c["x"], c["residual"], dropout_case(c))}}};
}

Expected dropout_backward(const Call& c) {
  return {{"d_x", {oracle::dropout_oracle(c["d_y"], c.flag("accumulate") ? c["d_x"] : Values(), dropout_case(c))}}};
}

// Half of the columns of rows of 2 f: 0 the gates, 1 the ups.
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

Expected gated(const Call& c, bool silu, bool backward) {
  const int64_t f = c.size("F");
  const bool fused = c.flag("fused") && f > 0;
  const Values gate = fused ? half_of(c["gate_up"], f, 0) : c["gate"];
  const Values up = fused ? half_of(c["gate_up"], f, 1) : c["up"];
  const double gamma = c.number("gate_multiplier", 1), delta = c.number("down_multiplier", 1);
  if (!backward)
    return {{"out", {silu ? oracle::swiglu_oracle(gate, up, gamma, delta) : oracle::geglu_oracle(gate, up)}}};
  const auto g = silu ? oracle::swiglu_gradient_oracle(c["d_out"], gate, up, gamma, delta)
                      : oracle::geglu_gradient_oracle(c["d_out"], gate, up);
  return {{"d_gate", {g.d_gate}}, {"d_up", {g.d_up}}, {"d_gate_up", {fused ? joined(g.d_gate, g.d_up, f) : Values()}}};
}

}  // namespace

Formulas activation_formulas() {
  return {{"activation_forward", activation_forward},
          {"activation_backward", activation_backward},
          {"dropout_forward", dropout_forward},
          {"dropout_backward", dropout_backward},
          {"swiglu_forward", [](const Call& c) { return gated(c, true, false); }},
          {"swiglu_backward", [](const Call& c) { return gated(c, true, true); }},
          {"geglu_forward", [](const Call& c) { return gated(c, false, false); }},
          {"geglu_backward", [](const Call& c) { return gated(c, false, true); }}};
}

}  // namespace ligerdsl::cli
