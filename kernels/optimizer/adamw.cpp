// AdamW in f32 arithmetic. Each stored value is rounded once:
//
//   g' = clip g;  m = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2
//   p = p - lr ((m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p)
//
// The kernel reads and writes parameter, m and v, reads the gradient and writes the copy.
#include "kernels/optimizer/adamw.h"

#include <optional>

#include "kernels/core/error_flag.h"

namespace ligerdsl::kernels {
namespace {

// Returns 1 - beta^t. For small t and beta near 1 the subtraction would lose digits. There it uses
// the series of -(e^u - 1) with u = t log(beta); the first omitted term is below 3e-7 of the
// result.
Scalar one_minus_power(const Scalar& beta, const Scalar& t) {
  Scalar u = t * log(beta);
  Scalar series = u / 7.0f + 1.0f;
  for (int n = 6; n >= 2; --n) series = series * u / static_cast<float>(n) + 1.0f;
  return where(u > -0.5f, -u * series, 1.0f - exp(u));
}

}  // namespace

void adamw(KernelBuilder& k, const AdamwMeta& meta) {
  View parameter = k.view("parameter", meta.type, {dyn});
  View m_view = k.view("m", f32, {dyn});
  View v_view = k.view("v", f32, {dyn});
  View copy;
  if (meta.with_copy) copy = k.view("copy", meta.copy_type, {dyn});
  View gradient = k.view("gradient", meta.gradient_type, {dyn});
  View clip, skip, lr_view, step, error;
  if (meta.with_clip) clip = k.view("clip", f32, {1});
  if (meta.with_skip) skip = k.view("skip", meta.skip_type, {1});
  Scalar lr, bias1, bias2;
  if (meta.device_step) {
    lr_view = k.view("lr", f32, {1});
    step = k.view("step", i64, {1});
    error = k.view("error", i64, {1});
  } else {
    lr = k.scalar("lr", f32);
    bias1 = k.scalar("bias1", f32);
    bias2 = k.scalar("bias2", f32);
  }
  Scalar beta1 = k.scalar("beta1", f32), beta2 = k.scalar("beta2", f32);
  Scalar eps = k.scalar("eps", f32), weight_decay = k.scalar("weight_decay", f32);

  std::optional<Scalar> stores;  // true if the step stores results; empty: it always does
  if (meta.with_skip) stores = skip.load({0}) == 0;
  if (meta.device_step) {
    lr = lr_view.load({0});
    const Scalar given = step.load({0}), counts = given >= 1;
    atomic_max(error.ptr(), kErrorBase, stores ? *stores && !counts : !counts);
    stores = stores ? *stores && counts : counts;
    const Scalar t = given.to(f32);
    bias1 = 1.0f / one_minus_power(beta1, t);
    bias2 = rsqrt(one_minus_power(beta2, t));
  }
  Scalar i = k.program_id(0);
  const Shape shape{meta.block};
  // Blocks begin at vector boundaries of m, because the moments have most of the bytes.
  const Scalar offset = m_view.alignment_offset({});
  const auto load = [&](const View& view) {
    return view.partition(shape).load({i}, {.alignment_offset = offset});
  };
  Tile g = load(gradient).to(f32);
  if (meta.with_clip) g = g * clip.load({0});
  Tile m = fma(load(m_view), beta1, (1.0f - beta1) * g);
  Tile v = fma(load(v_view), beta2, (1.0f - beta2) * g * g);
  Tile p = load(parameter).to(f32);
  Tile update = fma(p, weight_decay, fast_div(m * bias1, fma(fast_sqrt(v), bias2, eps)));
  Tile next = fma(update, -lr, p);
  const auto store_to = [&](const View& view, const Tile& tile) {
    view.partition(shape).store({i}, tile, {.alignment_offset = offset});
  };
  const auto store = [&] {
    store_to(m_view, m);
    store_to(v_view, v);
    store_to(parameter, next.to(meta.type));
    if (meta.with_copy) store_to(copy, next.to(meta.copy_type));
  };
  // A skipped step stores nothing. Multiplying the update by 0 is not enough: 0 times infinity is
  // NaN.
  if (stores)
    k.if_(*stores, store);
  else
    store();
}

}  // namespace ligerdsl::kernels
