// PolyNorm over rows of H elements. Arithmetic is f32; round_T rounds to T = type.
//
//   r_p = 1 / sqrt(mean(x^2p) + eps), v_p = weight of x^p
//   y = round_T(v_3 r_3 x^3 + v_2 r_2 x^2 + v_1 r_1 x + bias)
//
//   s_p = sum over a row of dy x^p
//   dx = round_T(sum over p of p v_p (r_p x^(p-1) dy - r_p^3 x^(2p-1) s_p / H))
//   dv_p = sum over rows of r_p s_p;  dbias = sum over rows of sum dy
//
// y and dx are polynomials of x with the same coefficients for a whole row, evaluated by Horner's
// rule. A row contributes one number to each parameter gradient, so a program stores four numbers
// and needs no partial sums of columns.
//
// Bytes moved, s = sizeof(T): forward 2 n H s + 12 n; backward 3 n H s + 12 n + 16 per program.
#include "kernels/norm/poly_norm.h"

#include <array>
#include <vector>

#include "kernels/norm/norm_rows.h"

namespace ligerdsl::kernels {
namespace {

constexpr int kPowers = 3;

// Values for x, x^2 and x^3, in this order.
using OfPowers = std::array<Tile, kPowers>;

// Returns the column of x^(power + 1) in rstd, which is also its element in weight.
int64_t place_of(int power) {
  return kPowers - 1 - power;
}

// Weights of x, x^2 and x^3 as f32, loaded before the code waits for a row's reductions.
struct Weights {
  std::array<Scalar, kPowers> of;
  explicit Weights(const View& view) {
    for (int p = 0; p < kPowers; ++p) of[p] = view.load({place_of(p)}).to(f32);
  }
};

// Returns a_0 + a_1 x + a_2 x^2.
Tile polynomial(const Tile& x, const OfPowers& a) {
  return fma(fma(x, a[2], a[1]), x, a[0]);
}

// Returns values [rows] as [rows, 1].
OfPowers of_rows(const OfPowers& sums) {
  return {sums[0].expand_dims(1), sums[1].expand_dims(1), sums[2].expand_dims(1)};
}

// Sums over each row for the gradients.
struct Sums {
  OfPowers products;  // sum of dy x^p for each p
  Tile d_y;           // sum of dy, [rows]; empty if not wanted
};

}  // namespace

void poly_norm_forward(KernelBuilder& k, const PolyNormMeta& m) {
  const NormRows y(k.view("y", m.type, {dyn, m.cols}), m),
      x_rows(k.view("x", m.type, {dyn, m.cols}), m);
  const View weight = k.view("weight", m.weight_type, {kPowers}),
             bias_view = k.view("bias", m.weight_type, {1});
  View rstd_view;
  if (m.with_rstd) rstd_view = k.view("rstd", f32, {dyn, kPowers});
  Scalar eps = k.scalar("eps", f32);

  Scalar row = k.program_id(0).to(i64);
  const Weights weights(weight);
  const Scalar bias = bias_view.load({0}).to(f32);
  // Returns the coefficients of each row's polynomial, [rows, 1], given the row sums of x^2, x^4
  // and x^6.
  const auto coefficients = [&](const OfPowers& sums) {
    OfPowers a;
    for (int p = 0; p < kPowers; ++p) {
      const Tile rstd = rsqrt(sums[p] * (1.0 / m.cols) + eps).expand_dims(1);
      if (m.with_rstd) rstd_view.partition({m.rows, 1}).store({row, place_of(p)}, rstd);
      a[p] = rstd * weights.of[p];
    }
    return a;
  };
  const auto finish = [&](const Tile& x, const OfPowers& a, ScalarArg column) {
    y.store(row, column, fma(polynomial(x, a), x, bias));
  };

  if (!m.looped) {
    const Tile x = x_rows.load(row, 0), square = x * x, cube = square * x;
    finish(x,
           coefficients({sum_products(x, x, 1), sum_products(square, square, 1),
                         sum_products(cube, cube, 1)}),
           0);
    return;
  }
  const Scalar blocks = cdiv(x_rows.tiles.view().dim(1), m.block);
  const Resident kept = x_rows.keep(row);
  const Tile zeros = k.zeros({m.rows, m.block}, f32);
  auto [first, second, third] = k.for_range(
      0, blocks, 1, carry(zeros, zeros, zeros), [&](Scalar b, Tile first, Tile second, Tile third) {
        const Tile x = kept.load(b).to(f32), square = x * x, cube = square * x;
        return carry(fma(x, x, first), fma(square, square, second), fma(cube, cube, third));
      });
  const OfPowers a = coefficients({sum(first, 1), sum(second, 1), sum(third, 1)});
  // The second pass begins with the last block, which the caches still hold.
  k.for_range(0, blocks, 1, [&](Scalar i) {
    Scalar b = blocks - 1 - i;
    finish(kept.load(b).to(f32), a, b);
  });
}

void poly_norm_backward(KernelBuilder& k, const PolyNormMeta& m) {
  const NormRows d_x(k.view("d_x", m.type, {dyn, m.cols}), m);
  View partials;
  if (m.want_sums()) partials = k.view("partials", f32, {dyn, kPowers + 1});
  const NormRows d_y(k.view("d_y", m.type, {dyn, m.cols}), m),
      x_rows(k.view("x", m.type, {dyn, m.cols}), m);
  const View weight = k.view("weight", m.weight_type, {kPowers}),
             rstd_view = k.view("rstd", f32, {dyn, kPowers});

  Scalar row = k.program_id(0).to(i64);
  const Weights weights(weight);
  OfPowers rstd;
  for (int p = 0; p < kPowers; ++p)
    rstd[p] = rstd_view.partition({m.rows, 1}).load({row, place_of(p)});
  // dx = dy slope(x) + x pull(x^2)
  struct Coefficients {
    OfPowers slope, pull;
  };
  const auto coefficients = [&](const Sums& sums) {  // of each row
    OfPowers scaled = of_rows(sums.products);
    Coefficients c;
    for (int p = 0; p < kPowers; ++p) {
      scaled[p] = rstd[p] * scaled[p];
      c.slope[p] = rstd[p] * (weights.of[p] * static_cast<float>(p + 1));
      c.pull[p] = (c.slope[p] * rstd[p]) *
                  (scaled[p] * (-1.0 / m.cols));  // in this order nothing underflows
    }
    std::vector<Scalar> totals;  // computed before any store, so that one exchange serves all
    for (int p = 0; p < kPowers; ++p) totals.push_back(sum(scaled[p]));
    if (m.want_d_bias) totals.push_back(sum(sums.d_y));
    for (int p = 0; m.want_d_weight && p < kPowers; ++p)
      partials.store({row, place_of(p)}, totals[p]);
    if (m.want_d_bias) partials.store({row, kPowers}, totals.back());
    return c;
  };
  const auto gradient = [&](const Tile& x, const Tile& dy, const Coefficients& c) {
    return fma(x, polynomial(x * x, c.pull), dy * polynomial(x, c.slope));
  };

  if (!m.looped) {
    const Tile x = x_rows.load(row, 0), dy = d_y.load(row, 0), square = x * x;
    const Sums sums{
        {sum_products(dy, x, 1), sum_products(dy, square, 1), sum_products(dy * x, square, 1)},
        m.want_d_bias ? sum(dy, 1) : Tile()};
    d_x.store(row, 0, gradient(x, dy, coefficients(sums)));
    return;
  }
  const Scalar blocks = cdiv(x_rows.tiles.view().dim(1), m.block);
  const Resident kept_d_y = d_y.keep(row), kept_x = x_rows.keep(row);
  const Tile zeros = k.zeros({m.rows, m.block}, f32);
  auto [first, second, third, plain] = k.for_range(
      0, blocks, 1, carry(zeros, zeros, zeros, zeros),
      [&](Scalar b, Tile first, Tile second, Tile third, Tile plain) {
        const Tile x = kept_x.load(b).to(f32), dy = kept_d_y.load(b).to(f32), product = dy * x;
        return carry(first + product, fma(product, x, second), fma(product * x, x, third),
                     m.want_d_bias ? plain + dy : plain);
      });
  const Coefficients c = coefficients(
      {{sum(first, 1), sum(second, 1), sum(third, 1)}, m.want_d_bias ? sum(plain, 1) : Tile()});
  k.for_range(0, blocks, 1, [&](Scalar i) {
    Scalar b = blocks - 1 - i;
    d_x.store(row, b, gradient(kept_x.load(b).to(f32), kept_d_y.load(b).to(f32), c));
  });
}

// Row r of the accumulator adds partials r, r + rows, ... in order. The rows of the accumulator are
// summed after the loop.
void poly_norm_reduce(KernelBuilder& k, const PolyNormMeta& m) {
  View partials = k.view("partials", f32, {dyn, kPowers + 1});
  const auto tiles = partials.partition({m.rows, kPowers + 1});
  auto [lanes] = k.for_range(0, cdiv(partials.dim(0), m.rows), 1, pipelined(2),
                             carry(k.zeros({m.rows, kPowers + 1}, f32)), [&](Scalar i, Tile acc) {
                               return carry(acc + tiles.load({i, 0}));
                             });
  const Tile totals = sum(lanes, 0), which = k.arange(kPowers + 1);
  const auto store = [&](const View& out, int64_t at, int element) {
    Scalar total = sum(where(which == element, totals, 0.0f));
    if (m.accumulate) total = total + out.load({at});
    out.store({at}, total.to(m.d_weight_type));
  };
  if (m.want_d_weight) {
    const View d_weight = k.view("d_weight", m.d_weight_type, {kPowers});
    for (int p = 0; p < kPowers; ++p) store(d_weight, p, p);
  }
  if (m.want_d_bias) store(k.view("d_bias", m.d_weight_type, {1}), 0, kPowers);
}

}  // namespace ligerdsl::kernels
