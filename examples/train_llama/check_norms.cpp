#include "check_table.h"

namespace train {
namespace {

void rms_norm(CheckTable& t) {
  const double eps = t.c.norm_eps;
  const int64_t rows = t.rows, width = t.c.width;
  auto x = t.random({rows, width}), residual = t.random({rows, width}),
       dy = t.random({rows, width}), dsum = t.random({rows, width}),
       w = t.random({width}, t.type, 1, 0.2);
  Tensor y = t.like(x.tensor), sum = t.like(x.tensor), dx = t.like(x.tensor), rstd = t.f32({rows}),
         dw = t.f32({width});

  t.ops.rms_norm(y, rstd, x.tensor, w.tensor, eps);
  oracle::Norm norm = oracle::rms_norm(x.values, w.values, eps);
  t.add("y", y, norm.y, t.elementwise);
  t.add("rstd", rstd, norm.rstd, t.f32_elementwise);
  t.ops.rms_norm_backward(dx, dw, dy.tensor, x.tensor, w.tensor, rstd);
  oracle::NormGradients g = oracle::rms_norm_backward(dy.values, x.values, w.values, norm.rstd);
  t.add("d_x", dx, g.dx, t.elementwise);
  t.add("d_weight", dw, g.dw, t.reduction);

  t.ops.add_rms_norm(y, sum, rstd, x.tensor, residual.tensor, w.tensor, eps);
  t.add("sum", sum, oracle::add(x.values, residual.values), t.elementwise);
  oracle::Array seen = fetch(t.ops, sum);  // the kernel normalises the rounded sum
  norm = oracle::rms_norm(seen, w.values, eps);
  t.add("y", y, norm.y, t.elementwise);
  t.add("rstd", rstd, norm.rstd, t.f32_elementwise);
  g = oracle::rms_norm_backward(dy.values, seen, w.values, norm.rstd);
  oracle::Array expected = oracle::add(g.dx, dsum.values);
  t.ops.add_rms_norm_backward(dsum.tensor, dw, dy.tensor, dsum.tensor, sum, w.tensor, rstd);
  t.add("d_x", dsum.tensor, expected, t.elementwise);
  t.add("d_weight", dw, g.dw, t.reduction);
}

}  // namespace

void check_norms(CheckTable& t) {
  rms_norm(t);
}

}  // namespace train
