#include "check_table.h"

namespace train {
namespace {

void rms_norm(CheckTable& t) {
  const double eps = t.c.norm_eps;
  const int64_t rows = t.rows, width = t.c.width;
  auto x = t.random({rows, width}), residual = t.random({rows, width}), dy = t.random({rows, width}),
       dsum = t.random({rows, width}), w = t.random({width}, t.type, 1, 0.2);
  Tensor y = t.like(x.tensor), sum = t.like(x.tensor), dx = t.like(x.tensor), rstd = t.f32({rows}), dw = t.f32({width});

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
  oracle::Array seen = fetch(t.ops, sum);  // the input of the norm is the rounded sum
  norm = oracle::rms_norm(seen, w.values, eps);
  t.add("y", y, norm.y, t.elementwise);
  t.add("rstd", rstd, norm.rstd, t.f32_elementwise);
  g = oracle::rms_norm_backward(dy.values, seen, w.values, norm.rstd);
  oracle::Array expected = oracle::add(g.dx, dsum.values);
  t.ops.add_rms_norm_backward(dsum.tensor, dw, dy.tensor, dsum.tensor, sum, w.tensor, rstd);
  t.add("d_x", dsum.tensor, expected, t.elementwise);
  t.add("d_weight", dw, g.dw, t.reduction);
}

void layer_norm(CheckTable& t) {
  const double eps = t.c.norm_eps;
  const int64_t rows = t.rows, width = t.c.width;
  auto x = t.random({rows, width}, t.type, 0.5), dy = t.random({rows, width}), w = t.random({width}, t.type, 1, 0.2),
       b = t.random({width}), residual = t.random({rows, width}), dsum = t.random({rows, width});
  Tensor y = t.like(x.tensor), sum = t.like(x.tensor), dx = t.like(x.tensor), mean = t.f32({rows}),
         rstd = t.f32({rows}), dw = t.f32({width}), db = t.f32({width});

  t.ops.layer_norm(y, mean, rstd, x.tensor, w.tensor, b.tensor, eps);
  oracle::LayerNorm norm = oracle::layer_norm(x.values, w.values, b.values, eps);
  t.add("y", y, norm.y, t.elementwise);
  t.add("mean", mean, norm.mean, t.f32_elementwise);
  t.add("rstd", rstd, norm.rstd, t.f32_elementwise);
  t.ops.layer_norm_backward(dx, dw, db, dy.tensor, x.tensor, w.tensor, mean, rstd);
  oracle::LayerNormGradients g = oracle::layer_norm_backward(dy.values, x.values, w.values, norm.mean, norm.rstd);
  t.add("d_x", dx, g.dx, t.elementwise);
  t.add("d_weight", dw, g.dw, t.reduction);
  t.add("d_bias", db, g.db, t.reduction);

  t.ops.add_layer_norm(y, sum, mean, rstd, x.tensor, residual.tensor, w.tensor, b.tensor, eps);
  t.add("sum", sum, oracle::add(x.values, residual.values), t.elementwise);
  oracle::Array seen = fetch(t.ops, sum);  // the input of the norm is the rounded sum
  norm = oracle::layer_norm(seen, w.values, b.values, eps);
  t.add("y", y, norm.y, t.elementwise);
  t.add("mean", mean, norm.mean, t.f32_elementwise);
  t.add("rstd", rstd, norm.rstd, t.f32_elementwise);
  g = oracle::layer_norm_backward(dy.values, seen, w.values, norm.mean, norm.rstd);
  oracle::Array expected = oracle::add(g.dx, dsum.values);
  t.ops.add_layer_norm_backward({dsum.tensor, dw, db}, dy.tensor, dsum.tensor, sum, w.tensor, mean, rstd);
  t.add("d_x", dsum.tensor, expected, t.elementwise);
  t.add("d_weight", dw, g.dw, t.reduction);
  t.add("d_bias", db, g.db, t.reduction);
}

// Two modulations with equally many rows, or one.
void modulated_rms_norm(CheckTable& t) {
  const int64_t rows = t.rows, width = t.c.width, count = rows % 2 == 0 ? 2 : 1;
  auto x = t.random({rows, width}), dy = t.random({rows, width}), w = t.random({width}, t.type, 1, 0.2),
       scale = t.random({count, width}, t.type, 0, 0.3), shift = t.random({count, width});
  Tensor y = t.like(x.tensor), dx = t.like(x.tensor), rstd = t.f32({rows}), dw = t.f32({width}),
         dscale = t.f32({count, width}), dshift = t.f32({count, width});

  t.ops.modulated_rms_norm(y, rstd, x.tensor, w.tensor, scale.tensor, shift.tensor, t.c.norm_eps);
  const oracle::Norm norm = oracle::modulated_rms_norm(x.values, w.values, scale.values, shift.values, t.c.norm_eps);
  t.add("y", y, norm.y, t.elementwise);
  t.add("rstd", rstd, norm.rstd, t.f32_elementwise);
  t.ops.modulated_rms_norm_backward(dx, dw, dscale, dshift, dy.tensor, x.tensor, w.tensor, scale.tensor, rstd);
  const oracle::ModulatedNormGradients g =
      oracle::modulated_rms_norm_backward(dy.values, x.values, w.values, scale.values, norm.rstd);
  t.add("d_x", dx, g.dx, t.elementwise);
  t.add("d_weight", dw, g.dw, t.reduction);
  t.add("d_scale", dscale, g.dscale, t.reduction);
  t.add("d_shift", dshift, g.dshift, t.reduction);
}

// A row's columns are channels of three positions, or of one if 3 does not divide them; two groups,
// or one.
void group_norm(CheckTable& t) {
  const int64_t batches = t.rows, positions = t.c.width % 3 == 0 ? 3 : 1, channels = t.c.width / positions,
                groups = channels % 2 == 0 ? 2 : 1;
  auto x = t.random({batches, channels, positions}, t.type, 0.5), dy = t.random({batches, channels, positions}),
       w = t.random({channels}, t.type, 1, 0.2), b = t.random({channels});
  const auto like_x = [&] { return t.like(x.tensor).view({batches, channels, positions}); };
  Tensor y = like_x(), dx = like_x(), mean = t.f32({batches, groups}), rstd = t.f32({batches, groups}),
         dw = t.f32({channels}), db = t.f32({channels});

  t.ops.group_norm(y, mean, rstd, x.tensor, w.tensor, b.tensor, t.c.norm_eps);
  const oracle::LayerNorm norm = oracle::group_norm(x.values, positions, groups, w.values, b.values, t.c.norm_eps);
  t.add("y", y, norm.y, t.elementwise);
  t.add("mean", mean, norm.mean, t.f32_elementwise);
  t.add("rstd", rstd, norm.rstd, t.f32_elementwise);
  t.ops.group_norm_backward({dx, dw, db}, dy.tensor, x.tensor, w.tensor, mean, rstd);
  const oracle::LayerNormGradients g =
      oracle::group_norm_backward(dy.values, x.values, positions, groups, w.values, norm.mean, norm.rstd);
  t.add("d_x", dx, g.dx, t.elementwise);
  t.add("d_weight", dw, g.dw, t.reduction);
  t.add("d_bias", db, g.db, t.reduction);
}

void poly_norm(CheckTable& t) {
  const int64_t rows = t.rows, width = t.c.width;
  auto x = t.random({rows, width}), dy = t.random({rows, width}), w = t.random({3}, t.type, 0.3, 0.1),
       b = t.random({1}, t.type, 1, 0.1);
  Tensor y = t.like(x.tensor), dx = t.like(x.tensor), rstd = t.f32({rows, 3}), dw = t.f32({3}), db = t.f32({1});

  t.ops.poly_norm(y, rstd, x.tensor, w.tensor, b.tensor, t.c.norm_eps);
  const oracle::PolyNorm norm = oracle::poly_norm(x.values, width, w.values, b.values[0], t.c.norm_eps);
  t.add("y", y, norm.y, t.elementwise);
  t.add("rstd", rstd, norm.rstd, t.f32_elementwise);
  t.ops.poly_norm_backward({dx, dw, db}, dy.tensor, x.tensor, w.tensor, rstd);
  const oracle::LayerNormGradients g = oracle::poly_norm_backward(dy.values, x.values, width, w.values, norm.rstd);
  t.add("d_x", dx, g.dx, t.elementwise);
  t.add("d_weight", dw, g.dw, t.reduction);
  t.add("d_bias", db, g.db, t.reduction);
}

void dyt(CheckTable& t) {
  const int64_t rows = t.rows, width = t.c.width;
  auto x = t.random({rows, width}), dy = t.random({rows, width}), alpha = t.random({1}, t.type, 0.5, 0.1),
       w = t.random({width}, t.type, 1, 0.2), b = t.random({width});
  Tensor y = t.like(x.tensor), dx = t.like(x.tensor), da = t.f32({1}), dw = t.f32({width}), db = t.f32({width});

  t.ops.dyt(y, x.tensor, alpha.tensor, w.tensor, b.tensor);
  t.add("y", y, oracle::dyt(x.values, alpha.values[0], w.values, b.values), t.elementwise);
  t.ops.dyt_backward({dx, dw, db}, da, dy.tensor, x.tensor, alpha.tensor, w.tensor);
  const oracle::DytGradients g = oracle::dyt_backward(dy.values, x.values, alpha.values[0], w.values);
  t.add("d_x", dx, g.dx, t.elementwise);
  t.add("d_alpha", da, {g.da}, t.reduction);
  t.add("d_weight", dw, g.dw, t.reduction);
  t.add("d_bias", db, g.db, t.reduction);
}

}  // namespace

void check_norms(CheckTable& t) {
  rms_norm(t);
  layer_norm(t);
  modulated_rms_norm(t);
  group_norm(t);
  poly_norm(t);
  dyt(t);
}

}  // namespace train
