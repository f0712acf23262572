#include <algorithm>
#include <limits>

#include "check_table.h"

namespace train {

void check_optimiser(CheckTable& t) {
  const int64_t n = ParameterLayout(t.c).total;
  auto p = t.random({n}, Type::f32), g = t.random({n}, Type::f32, 0, 1e-2),
       m = t.random({n}, Type::f32, 0, 1e-2), v = t.random({n}, Type::f32, 1e-4, 1e-5);
  Tensor norm = t.f32({1}), factor = t.f32({1}), nonfinite = t.ops.allocate(Type::i32, {1}),
         steps = t.ops.allocate(Type::i64, {1}), skipped = t.ops.allocate(Type::i64, {1}),
         copy = t.ops.allocate(Type::bf16, {n});
  const int64_t steps_before = 5, skipped_before = 3;
  t.ops.upload(steps, &steps_before);
  t.ops.upload(skipped, &skipped_before);
  t.ops.global_norm(norm, factor, g.tensor, 1, nonfinite, steps, skipped);
  const double size = oracle::norm(g.values);
  t.add("norm", norm, {size}, t.f32_scalar);
  t.add("clip_factor", factor, {std::min(1.0, 1 / (size + 1e-6))}, t.f32_scalar);
  t.add("nonfinite", nonfinite, {0}, t.exact);
  t.add("steps", steps, {6}, t.exact);
  t.add("skipped", skipped, {3}, t.exact);

  const Ops::AdamW settings{3e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 7};  // f32, as the kernel reads them
  t.ops.adamw(p.tensor, copy, g.tensor, m.tensor, v.tensor, factor, {}, settings);
  oracle::adamw(p.values, g.values, m.values, v.values,
                {settings.lr, settings.beta1, settings.beta2, settings.eps, settings.weight_decay,
                 fetch(t.ops, factor)[0], settings.step});
  t.add("param", p.tensor, p.values, t.f32_elementwise);
  t.add("m", m.tensor, m.values, t.f32_elementwise);
  t.add("v", v.tensor, v.values, t.f32_elementwise);
  t.add("param_copy", copy, p.values, t.bf16_elementwise);

  t.variant("an infinity among them");
  fill(t.ops, g.tensor.view({1}, n / 2), {std::numeric_limits<double>::infinity()});
  t.ops.global_norm(norm, factor, g.tensor, 1, nonfinite, steps, skipped);
  t.add("nonfinite", nonfinite, {1}, t.exact);
  t.add("steps", steps, {6}, t.exact);
  t.add("skipped", skipped, {4}, t.exact);
  const oracle::Array before[] = {fetch(t.ops, p.tensor), fetch(t.ops, m.tensor),
                                  fetch(t.ops, v.tensor), fetch(t.ops, copy)};
  t.ops.adamw(p.tensor, copy, g.tensor, m.tensor, v.tensor, factor, nonfinite, settings);
  t.add("param", p.tensor, before[0], t.exact);
  t.add("m", m.tensor, before[1], t.exact);
  t.add("v", v.tensor, before[2], t.exact);
  t.add("param_copy", copy, before[3], t.exact);
  t.variant("");
}

}  // namespace train
