// Dynamic tanh over rows of H elements. Arithmetic is f32; round_T rounds to T = type.
//
//   t = tanh(alpha x);  y = round_T(weight t + bias)
//
//   g = dy (1 - t^2);  dx = round_T(alpha weight g);  dalpha = sum of x weight g
//   dweight = sum over rows of dy t;  dbias = sum over rows of dy
//
// Bytes moved, with s = sizeof(T): forward 2 n H s; backward 3 n H s, and 8 H per part for partial
// sums. While memory reads and writes one 16-bit element, there is time for about 25 instructions.
// Therefore tanh uses one exponential and one division.
#include "kernels/norm/dyt.h"

#include "kernels/core/program_tile.h"
#include "kernels/norm/norm_rows.h"

namespace ligerdsl::kernels {
namespace {

// tanh z = sign(z) (1 - 2 r), 1 - tanh^2 z = 4 r (1 - r), r = 1 / (1 + e^(2 |z|)). The slope loses
// no digits to cancellation. For |z| < 1/16, where 1 - 2 r loses digits, tanh is the first two
// terms of its series. At |z| = 1/16 both forms have a relative error of 3e-6.
struct TanhAt {
  Tile z, r;

  TanhAt(const Scalar& alpha, const Tile& x) : z(x * alpha) {
    constexpr float kTwoLog2E = 2.8853900817779268f;
    r = fast_div(1.0f, fast_exp2(abs(z) * kTwoLog2E) + 1.0f);
  }
  Tile value() const {
    const Tile far = fma(r, -2.0f, 1.0f), near = fma(z * z * z, -1.0f / 3, z);
    return where(abs(z) < 0.0625f, near, where(z < 0.0f, -far, far));
  }
  Tile quarter_slope() const { return fma(-r, r, r); }
};

// Returns one block of columns of a parameter as a [1, block] tile.
Tile columns_of(const View& view, const DytMeta& m, ScalarArg column) {
  return view.partition({m.block}).load({column}).to(f32).expand_dims(0);
}

}  // namespace

void dyt_forward(KernelBuilder& k, const DytMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  const Scalar alpha = k.view("alpha", m.weight_type, {1}).load({0}).to(f32);
  View weight = k.view("weight", m.weight_type, {m.cols});
  View bias;
  if (!m.without_bias) bias = k.view("bias", m.weight_type, {m.cols});

  const ProgramTile at(k, x, m);
  const Tile w = columns_of(weight, m, at.column());
  const Tile added = m.without_bias ? Tile() : columns_of(bias, m, at.column());
  const Tile t = TanhAt(alpha, at.load(x)).value();
  at.store(y, m.without_bias ? t * w : fma(t, w, added));
}

// The order of the additions is fixed. If m.lanes is set, row r of the accumulator adds rows r, r +
// rows, ... of the part in order, and the rows of the accumulator are summed after the loop.
// Otherwise the rows of each tile are summed first.
void dyt_backward(KernelBuilder& k, const DytMeta& m) {
  std::optional<NormRows> d_x;
  if (!m.without_d_x) d_x.emplace(k.view("d_x", m.type, {dyn, m.cols}), m);
  View alpha_partials, weight_partials, bias_partials;
  if (m.want_d_alpha) alpha_partials = k.view("alpha_partials", f32, {dyn, 1});
  if (m.want_d_weight) weight_partials = k.view("weight_partials", f32, {dyn, m.cols});
  if (m.want_d_bias) bias_partials = k.view("bias_partials", f32, {dyn, m.cols});
  const NormRows d_y(k.view("d_y", m.type, {dyn, m.cols}), m),
      x_rows(k.view("x", m.type, {dyn, m.cols}), m);
  const Scalar alpha = k.view("alpha", m.weight_type, {1}).load({0}).to(f32);
  View weight = k.view("weight", m.weight_type, {m.cols});

  const View rows = x_rows.tiles.view();
  Scalar blocks = cdiv(rows.dim(1), m.block).to(i32);
  Scalar column = k.program_id(0) % blocks, part = k.program_id(0) / blocks;
  const Tile w = columns_of(weight, m, column) * 4.0f,
             slope = w * alpha;  // 4, because g uses a quarter of the slope
  const auto added = [&](const Tile& sums, const Tile& more) {
    return m.lanes ? sums + more : sums + sum(more, 0);
  };
  const auto product = [&](const Tile& sums, const Tile& a, const Tile& b) {
    return m.lanes ? fma(a, b, sums) : sums + sum_products(a, b, 0);
  };
  const Tile zeros = m.lanes ? k.zeros({m.rows, m.block}, f32) : k.zeros({m.block}, f32);
  // Column sums of dy t, dy and g x. An unwanted sum stays 0.
  auto [d_weight, d_bias, d_alpha] = k.for_range(
      part, cdiv(rows.dim(0), m.rows), k.num_programs(0) / blocks, pipelined(m.stages),
      carry(zeros, zeros, zeros), [&](Scalar row, Tile d_weight, Tile d_bias, Tile d_alpha) {
        const Tile x = x_rows.load(row, column), dy = d_y.load(row, column);
        const TanhAt tanh(alpha, x);
        const Tile g = dy * tanh.quarter_slope();
        if (d_x) d_x->store(row, column, g * slope);
        return carry(m.want_d_weight ? product(d_weight, dy, tanh.value()) : d_weight,
                     m.want_d_bias ? added(d_bias, dy) : d_bias,
                     m.want_d_alpha ? product(d_alpha, g, x) : d_alpha);
      });
  // All reductions come before the first store, so that one exchange serves all of them.
  const auto of_columns = [&](const Tile& sums) { return m.lanes ? sum(sums, 0) : sums; };
  const Tile of_weight = of_columns(d_weight), of_bias = of_columns(d_bias);
  const Scalar of_alpha = sum((m.lanes ? d_alpha : d_alpha.expand_dims(0)) * w);
  if (m.want_d_weight)
    weight_partials.partition({squeeze, m.block}).store({part, column}, of_weight);
  if (m.want_d_bias) bias_partials.partition({squeeze, m.block}).store({part, column}, of_bias);
  if (m.want_d_alpha) alpha_partials.store({k.program_id(0), 0}, of_alpha);
}

}  // namespace ligerdsl::kernels
