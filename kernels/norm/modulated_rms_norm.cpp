// Backward of a modulated RMSNorm. Arithmetic is f32; round_T rounds to T = type. Row i belongs to
// segment k of the rows, with scale s_k and shift h_k. rms_norm.cpp defines n, r and w'.
//
//   y = round_T(n w' (1 + s) + h)
//
//   m = dy (1 + s) w';  dx = round_T(r (m - x r^2 mean(m x)))
//   p_k = sum over the rows of segment k of dy n
//   ds_k = w' p_k, dweight = sum over k of (1 + s_k) p_k
//   dh_k = sum over the rows of segment k of dy
//
// p_k serves both weight and scale. Bytes moved, with s = sizeof(T): 3 n H s, or 5 n H s if no
// program holds a row, plus partial sums in f32. For each of its modulations a program stores two
// rows of partial sums. With several modulations, it stores a third row for the weight.
#include "kernels/norm/modulated_rms_norm.h"

#include <vector>

#include "kernels/norm/norm_rows.h"
#include "kernels/norm/rms_norm_rows.h"

namespace ligerdsl::kernels {
namespace {

struct ModulatedRow {
  Scalar row;
  Tile x, d_y, rstd, gradient_y, along;
};

}  // namespace

void modulated_rms_norm_backward(KernelBuilder& k, const ModulatedRmsNormMeta& m) {
  struct Tiling {
    int64_t rows, block;
  } const tiling{1, m.block};
  std::optional<NormRows> d_x;
  if (!m.without_d_x) d_x.emplace(k.view("d_x", m.type, {dyn, m.cols}), tiling);
  View weight_partials, scale_partials, shift_partials;
  if (m.want_d_weight) weight_partials = k.view("weight_partials", f32, {dyn, m.cols});
  if (m.want_d_scale) scale_partials = k.view("scale_partials", f32, {dyn, dyn, m.cols});
  if (m.want_d_shift) shift_partials = k.view("shift_partials", f32, {dyn, dyn, m.cols});
  const NormRows d_y(k.view("d_y", m.type, {dyn, m.cols}), tiling),
      x_rows(k.view("x", m.type, {dyn, m.cols}), tiling);
  NormWeight weight{.block = m.block};
  if (m.has_weight) weight.view = k.view("weight", m.weight_type, {m.cols});
  const NormRows scale(k.view("scale", m.scale_type, {dyn, m.cols}), tiling);
  View rstd_view = k.view("rstd", f32, {dyn});
  if (m.has_weight && m.has_offset) weight.offset = k.scalar("offset", f32);

  const int64_t blocks = ceil_div(m.cols, m.block);
  const Scalar column = k.program_id(0) % static_cast<int32_t>(blocks);
  const Scalar first = (k.program_id(0) / static_cast<int32_t>(blocks)).to(i64);
  const Scalar programs = (k.num_programs(0) / static_cast<int32_t>(blocks)).to(i64);
  const Scalar rows_each = x_rows.tiles.view().dim(0) / m.modulations;
  const Scalar parts = m.shared ? programs / m.modulations : k.constant(1, i64);
  const Tile zeros = k.zeros({1, m.block}, f32);

  // Sums over the rows of a part, [1, block]. An unwanted sum stays 0.
  const auto of_part = [&](const Scalar& part) {
    const Scalar modulation = part / parts, begin = modulation * rows_each;
    const Tile scaled = scale.load(modulation, column) + 1.0f;
    const Tile factor = m.has_weight ? scaled * weight.load(column) : scaled;
    const Scalar end = begin + rows_each, step = parts * m.rows_per_iteration;
    auto [products, sum_d_y] = k.for_range(
        begin + part % parts, end, step, pipelined(m.stages), carry(zeros, zeros),
        [&](Scalar first, Tile products, Tile sum_d_y) {
          // The rows of one iteration share the waits for memory and for reductions. A
          // row outside of the part loads 0 and stores nothing.
          std::vector<ModulatedRow> rows;
          for (int64_t i = 0; i < m.rows_per_iteration; ++i) {
            Scalar row = first;
            if (i > 0)
              row = where(first + parts * i < end, first + parts * i, x_rows.tiles.view().dim(0));
            rows.push_back({row, x_rows.load(row, column), d_y.load(row, column),
                            rstd_view.partition({1}).load({row}).expand_dims(1)});
          }
          if (d_x) {
            for (ModulatedRow& r : rows) r.gradient_y = r.d_y * factor;
            for (ModulatedRow& r : rows)
              r.along = (sum_products(r.gradient_y, r.x, 1) * (-1.0 / m.cols)).expand_dims(1) *
                        r.rstd * r.rstd * r.rstd;
            for (const ModulatedRow& r : rows)
              d_x->store(r.row, 0, fma(r.x, r.along, r.gradient_y * r.rstd));
          }
          for (const ModulatedRow& r : rows) {
            if (m.want_products()) products = fma(r.d_y, normalised(m, r.x, r.rstd), products);
            if (m.want_d_shift) sum_d_y = sum_d_y + r.d_y;
          }
          return carry(products, sum_d_y);
        });
    const auto keep_part = [&](const View& of, const Tile& sums) {
      of.partition({squeeze, 1, m.block}).store({modulation, part % parts, column}, sums);
    };
    if (m.want_d_scale) keep_part(scale_partials, products);
    if (m.want_d_shift) keep_part(shift_partials, sum_d_y);
    return products * scaled;
  };
  const auto keep = [&](const Tile& d_weight) {
    if (m.want_d_weight) weight_partials.partition({1, m.block}).store({first, column}, d_weight);
  };
  if (m.shared) return keep(of_part(first));
  auto [d_weight] = k.for_range(first, k.constant(m.modulations, i64), programs, carry(zeros),
                                [&](Scalar part, Tile sum) {
                                  const Tile more = of_part(part);
                                  return carry(m.want_d_weight ? sum + more : sum);
                                });
  keep(d_weight);
}

}  // namespace ligerdsl::kernels
