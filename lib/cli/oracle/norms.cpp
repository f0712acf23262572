// RMSNorm, LayerNorm and their relatives, DyT among them.
#include <utility>

#include "interpreter/convert.h"
#include "kernels/oracle/elementwise.h"
#include "kernels/oracle/norm.h"
#include "lib/cli/oracle/formulas.h"

namespace ligerdsl::cli {

namespace {

Expected rms_norm_forward(const Call& c, const Values& x) {
  const auto r = oracle::rms_norm_oracle(x, c["weight"], c.size("N"), c.size("H"), c.number("eps"), c.number("offset"));
  return {{"y", {r.y}}, {"rstd", {r.rstd}}};
}

// A norm of the sum that is made first.
template <Expected (*norm)(const Call&, const Values&)>
Expected fused_add_forward(const Call& c) {
  Values sum = c["x"];
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = interpreter::round_to(c.type("sum"), sum[i] + c["residual"][i]);
  Expected expected = norm(c, sum);
  expected["sum"] = {std::move(sum)};
  return expected;
}

Expected rms_norm_backward(const Call& c, const char* x) {
  const auto g = oracle::rms_norm_gradient_oracle(c["d_y"], c[x], c["weight"], c["d_sum"], c["rstd"], c.size("N"),
                                                  c.size("H"), c.number("offset"));
  Expected expected = {{"d_x", {g.dx}}};
  const bool rounds_terms = c.option("casting") == LIGERDSL_CASTING_LLAMA;
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw, rounds_terms ? c.type(x) : DType::f32);
  return expected;
}

Expected modulated_rms_norm_forward(const Call& c) {
  const auto r = oracle::modulated_rms_norm_oracle(c["x"], c["weight"], c["scale"], c["shift"], c.size("N"),
                                                   c.size("H"), c.number("eps"), c.number("offset"));
  // Beside a shift, what casting rounds may be much of an element that is small.
  const bool rounds = c.option("casting") == LIGERDSL_CASTING_LLAMA && c.has("shift");
  return {{"y", {r.y, rounds, c.type("y")}}, {"rstd", {r.rstd}}};
}

Expected modulated_rms_norm_backward(const Call& c) {
  const auto g = oracle::modulated_rms_norm_gradient_oracle(c["d_y"], c["x"], c["weight"], c["scale"], c["rstd"],
                                                            c.size("N"), c.size("H"), c.number("offset"));
  Expected expected = {{"d_x", {g.dx}}};
  const DType terms = c.option("casting") == LIGERDSL_CASTING_LLAMA ? c.type("x") : DType::f32;
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw, terms);
  if (c.has("d_scale")) expected["d_scale"] = c.over_rows("d_scale", g.d_scale, terms);
  if (c.has("d_shift")) expected["d_shift"] = c.over_rows("d_shift", g.d_shift);
  return expected;
}

Expected layer_norm_forward(const Call& c, const Values& x) {
  const Values bias = c.has("bias") ? c["bias"] : Values(static_cast<size_t>(c.size("H")));
  const auto r = oracle::layer_norm_oracle(x, c["weight"], bias, c.size("N"), c.size("H"), c.number("eps"));
  return {{"y", {r.y}}, {"mean", {r.mean}}, {"rstd", {r.rstd}}};
}

Expected layer_norm_backward(const Call& c, const char* x) {
  const auto g = oracle::layer_norm_gradient_oracle(c["d_y"], c[x], c["weight"], c["d_sum"], c["mean"], c["rstd"],
                                                    c.size("N"), c.size("H"));
  Expected expected = {{"d_x", {g.dx}}};
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", g.db);
  return expected;
}

oracle::GroupNormShape group_norm_shape(const Call& c) {
  return {c.size("N"), c.size("C"), c.size("K"), c.size("S")};
}

Expected group_norm_forward(const Call& c) {
  const auto r = oracle::group_norm_oracle(c["x"], c["weight"], c["bias"], group_norm_shape(c), c.number("eps"));
  return {{"y", {r.y}}, {"mean", {r.mean}}, {"rstd", {r.rstd}}};
}

Expected group_norm_backward(const Call& c) {
  const auto g =
      oracle::group_norm_gradient_oracle(c["d_y"], c["x"], c["weight"], c["mean"], c["rstd"], group_norm_shape(c));
  Expected expected = {{"d_x", {g.dx}}};
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", g.db);
  return expected;
}

Expected poly_norm_forward(const Call& c) {
  const auto r = oracle::poly_norm_oracle(c["x"], c["weight"], c["bias"], c.size("N"), c.size("H"), c.number("eps"));
  return {{"y", {r.y}}, {"rstd", {r.rstd}}};
}

Expected poly_norm_backward(const Call& c) {
  const auto g = oracle::poly_norm_gradient_oracle(c["d_y"], c["x"], c["weight"], c["rstd"], c.size("N"), c.size("H"));
  Expected expected = {{"d_x", {g.dx}}};
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", g.db);
  return expected;
}

Expected dyt_forward(const Call& c) {
  return {{"y", {oracle::dyt_oracle(c["x"], c["alpha"][0], c["weight"], c["bias"])}}};
}

Expected dyt_backward(const Call& c) {
  const auto g = oracle::dyt_gradient_oracle(c["d_y"], c["x"], c["alpha"][0], c["weight"]);
  Expected expected = {{"d_x", {g.d_x}}};
  if (c.has("d_alpha")) expected["d_alpha"] = c.over_rows("d_alpha", g.d_alpha);
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.d_weight);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", g.d_bias);
  return expected;
}

}  // namespace

Formulas norm_formulas() {
  return {{"rms_norm_forward", [](const Call& c) { return rms_norm_forward(c, c["x"]); }},
          {"rms_norm_backward", [](const Call& c) { return rms_norm_backward(c, "x"); }},
          {"fused_add_rms_norm_forward", fused_add_forward<rms_norm_forward>},
          {"fused_add_rms_norm_backward", [](const Call& c) { return rms_norm_backward(c, "sum"); }},
          {"modulated_rms_norm_forward", modulated_rms_norm_forward},
          {"modulated_rms_norm_backward", modulated_rms_norm_backward},
          {"layer_norm_forward", [](const Call& c) { return layer_norm_forward(c, c["x"]); }},
          {"layer_norm_backward", [](const Call& c) { return layer_norm_backward(c, "x"); }},
          {"fused_add_layer_norm_forward", fused_add_forward<layer_norm_forward>},
          {"fused_add_layer_norm_backward", [](const Call& c) { return layer_norm_backward(c, "sum"); }},
          {"group_norm_forward", group_norm_forward},
          {"group_norm_backward", group_norm_backward},
          {"poly_norm_forward", poly_norm_forward},
          {"poly_norm_backward", poly_norm_backward},
          {"dyt_forward", dyt_forward},
          {"dyt_backward", dyt_backward}};
}

}  // namespace ligerdsl::cli
