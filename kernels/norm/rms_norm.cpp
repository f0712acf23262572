// RMSNorm over rows of H elements. Arithmetic is f32; round_T rounds to T = type.
//
//   ms = mean(x^2), r = 1 / sqrt(ms + eps), w' = offset + weight (1 without a weight)
//   n  = round_T(x r) for llama, x r otherwise
//   y  = round_T(n w'), modulated: round_T(n w' (1 + scale) + shift)
//
//   m = dy w';  dx = round_T(r (m - x r^2 mean(m x)));  dweight = sum over rows of dy n
//
// Bytes moved, with s = sizeof(T): forward 2 n H s; backward 3 n H s and one f32 row of partial
// sums per program.
#include "kernels/norm/rms_norm.h"

#include "kernels/norm/norm_rows.h"
#include "kernels/norm/rms_norm_rows.h"

namespace ligerdsl::kernels {
void rms_norm_forward(KernelBuilder& k, const RmsNormMeta& m) {
  View y_view = k.view("y", m.type, {dyn, m.cols}), sum_view, residual_view;
  if (m.residual) sum_view = k.view("sum", m.type, {dyn, m.cols});
  View x_view = k.view("x", m.type, {dyn, m.cols});
  if (m.residual) residual_view = k.view("residual", m.type, {dyn, m.cols});
  NormWeight weight{.block = m.block};
  if (m.has_weight) weight.view = k.view("weight", m.weight_type, {m.cols});
  View scale, shift;
  if (m.modulated) scale = k.view("scale", m.scale_type, {dyn, m.cols});
  if (m.modulated && m.has_shift) shift = k.view("shift", m.scale_type, {dyn, m.cols});
  View rstd_view;
  if (m.with_rstd) rstd_view = k.view("rstd", f32, {dyn});
  Scalar eps = k.scalar("eps", f32);
  if (m.has_weight && m.has_offset) weight.offset = k.scalar("offset", f32);

  Scalar row = k.program_id(0).to(i64);
  if (m.aligned_blocks) weight.alignment_offset = x_view.alignment_offset({row});
  const auto rows_of = [&](const View& view) { return NormRows(view, m, weight.alignment_offset); };
  const NormRows y = rows_of(y_view);
  std::optional<NormRows> sum_out, residual;
  if (m.residual) sum_out = rows_of(sum_view), residual = rows_of(residual_view);
  const NormInput input(rows_of(x_view), residual);
  // With modulations, a program has one row. The grid counts rows, so 32 bits are enough; a 64-bit
  // division takes about a hundred instructions on a GPU.
  Scalar modulation;
  if (m.modulated) modulation = udiv(k.program_id(0), k.scalar("rows_of_modulation", i64).to(i32));
  const auto modulating = [&](const View& view, ScalarArg column) {
    return view.partition({1, m.block}).load({modulation, column}).to(f32);
  };

  auto rstd_of = [&](const Tile& squares) {  // rstd [rows, 1] from row sums of x^2 [rows]
    Tile rstd = rsqrt(squares * (1.0 / m.cols) + eps);
    if (m.with_rstd) rstd_view.partition({m.rows}).store({row}, rstd);
    return rstd.expand_dims(1);
  };
  auto finish = [&](const Tile& x, const Tile& w, const Tile& rstd, ScalarArg column) {
    if (m.residual) sum_out->store(row, column, x);
    Tile n = normalised(m, x, rstd);
    if (m.has_weight) n = n * weight.widen(w);
    if (m.modulated) {
      const Tile scaled = modulating(scale, column) + 1.0f;
      n = m.has_shift ? fma(n, scaled, modulating(shift, column)) : n * scaled;
    }
    y.store(row, column, n);
  };

  if (!m.looped) {
    Tile x = input.load(row, 0);
    Tile w;
    if (m.has_weight && m.early_weight) w = weight.read(0);
    Tile rstd = rstd_of(sum_products(x, x, 1));
    if (m.has_weight && !m.early_weight) w = weight.read(0);
    finish(x, w, rstd, 0);
    return;
  }
  Scalar blocks = input.blocks(m.block);
  const NormInput::Kept kept = input.keep(row);
  auto [squares] =
      k.for_range(0, blocks, 1, carry(k.zeros({m.rows, m.block}, f32)), [&](Scalar b, Tile acc) {
        Tile x = kept.load(b);
        return carry(fma(x, x, acc));
      });
  Tile rstd = rstd_of(sum(squares, 1));
  // The second pass begins with the last block, which the caches still hold.
  const Resident kept_weight = m.has_weight ? weight.keep() : Resident();
  k.for_range(0, blocks, 1, [&](Scalar i) {
    Scalar b = blocks - 1 - i;
    finish(kept.load(b), m.has_weight ? kept_weight.load(b) : Tile(), rstd, b);
  });
}

void rms_norm_backward(KernelBuilder& k, const RmsNormMeta& m) {
  const bool partial_sums = m.want_d_weight && !m.looped;
  View d_x_view = k.view("d_x", m.type, {dyn, m.cols});
  View partials;
  if (partial_sums) partials = partials_view(k, m, "partials");
  View d_y_view = k.view("d_y", m.type, {dyn, m.cols});
  View x_view = k.view(m.residual ? "sum" : "x", m.type, {dyn, m.cols});
  View d_sum_view;
  if (m.with_d_sum) d_sum_view = k.view("d_sum", m.type, {dyn, m.cols});
  NormWeight weight{.block = m.block};
  if (m.has_weight) weight.view = k.view("weight", m.weight_type, {m.cols});
  std::optional<NormRows> scale;
  if (m.modulated) scale.emplace(k.view("scale", m.scale_type, {dyn, m.cols}), m);
  View rstd_view = k.view("rstd", f32, {dyn});
  if (m.has_weight && m.has_offset) weight.offset = k.scalar("offset", f32);

  // All rows of a program have the same alignment offset as its first row.
  Scalar first;
  if (m.aligned_blocks) {
    first = k.program_id(0);
    weight.alignment_offset = x_view.alignment_offset({first});
  }
  const auto rows_of = [&](const View& view) { return NormRows(view, m, weight.alignment_offset); };
  std::optional<NormRows> d_sum;
  if (m.with_d_sum) d_sum = rows_of(d_sum_view);
  const NormGradient d_x{rows_of(d_x_view), d_sum};
  const NormRows d_y = rows_of(d_y_view), x_rows = rows_of(x_view);
  Scalar cols = x_view.dim(1);
  auto load_rstd = [&](const Scalar& row) {
    return rstd_view.partition({m.rows}).load({row}).expand_dims(1);
  };
  auto gradient = [&](const Tile& x, const Tile& m_tile, const Tile& rstd, const Tile& correction) {
    return fma(x, correction, m_tile * rstd);  // correction = -r^3 mean(m x)
  };
  auto correction_of = [&](const Tile& products,
                           const Tile& rstd) {  // from row sums of m x, [rows], to [rows, 1]
    return (products * (-1.0 / m.cols)).expand_dims(1) * rstd * rstd * rstd;
  };

  if (m.looped) {
    Scalar row = k.program_id(0);
    Tile rstd = load_rstd(row);
    Scalar blocks = cdiv(cols, m.block);
    const Resident kept_d_y = d_y.keep(row), kept_x = x_rows.keep(row);
    auto x_of = [&](const Scalar& b) { return kept_x.load(b).to(f32); };
    Scalar modulation;
    if (m.modulated) modulation = udiv(row, k.scalar("rows_of_modulation", i64).to(i32));
    auto weighted = [&](const Scalar& b) {
      Tile dy = kept_d_y.load(b).to(f32);
      if (m.modulated) dy = dy * (scale->load(modulation, b) + 1.0f);
      return m.has_weight ? dy * weight.load(b) : dy;
    };
    auto [products] =
        k.for_range(0, blocks, 1, carry(k.zeros({m.rows, m.block}, f32)),
                    [&](Scalar b, Tile acc) { return carry(fma(weighted(b), x_of(b), acc)); });
    Tile correction = correction_of(sum(products, 1), rstd);
    k.for_range(0, blocks, 1, [&](Scalar i) {
      Scalar b = blocks - 1 - i;
      d_x.store(row, b, gradient(x_of(b), weighted(b), rstd, correction));
    });
    return;
  }

  // Program p processes row blocks p, p + programs, ... and holds its partial sum of d_weight in
  // registers.
  Tile kept_weight;
  if (m.has_weight && !m.reload_weight) kept_weight = weight.load(0);
  auto backward_rows = [&](const Scalar& row,
                           const Tile& acc) {  // returns acc plus this block's part of d_weight
    Tile x = x_rows.load(row, 0);
    Tile dy = d_y.load(row, 0);
    Tile rstd = load_rstd(row);
    Tile m_tile = !m.has_weight ? dy : dy * (m.reload_weight ? weight.load(0) : kept_weight);
    d_x.store(row, 0, gradient(x, m_tile, rstd, correction_of(sum_products(m_tile, x, 1), rstd)));
    return partial_sums ? fma(dy, normalised(m, x, rstd), acc) : acc;
  };
  if (!m.aligned_blocks) first = k.program_id(0);
  if (!partial_sums) {
    backward_rows(first, Tile());
    return;
  }
  auto [d_weight] =
      k.for_range(first, cdiv(x_view.dim(0), m.rows), programs_of(k, m), pipelined(m.stages),
                  carry(k.zeros({m.rows, m.block}, f32)),
                  [&](Scalar row, Tile acc) { return carry(backward_rows(row, acc)); });
  partials.partition({squeeze, m.block})
      .store({first, 0}, sum(d_weight, 0), {.alignment_offset = weight.alignment_offset});
}

void rms_norm_d_weight(KernelBuilder& k, const RmsNormMeta& m) {
  View partials = k.view("partials", f32, {dyn, m.cols});
  const NormRows d_y(k.view("d_y", m.type, {dyn, m.cols}), m);
  View x_view = k.view(m.residual ? "sum" : "x", m.type, {dyn, m.cols});
  View rstd_view = k.view("rstd", f32, {dyn});

  const NormRows x_rows(x_view, m);
  Scalar blocks = cdiv(x_view.dim(1), m.block).to(i32);
  Scalar column = k.program_id(0) % blocks, part = k.program_id(0) / blocks;
  auto [d_weight] =
      k.for_range(part, cdiv(x_view.dim(0), m.rows), partials.dim(0), pipelined(m.stages),
                  carry(k.zeros({m.rows, m.block}, f32)), [&](Scalar row, Tile acc) {
                    Tile rstd = rstd_view.partition({m.rows}).load({row}).expand_dims(1);
                    Tile n = normalised(m, x_rows.load(row, column), rstd);
                    return carry(fma(d_y.load(row, column), n, acc));
                  });
  partials.partition({squeeze, m.block}).store({part, column}, sum(d_weight, 0));
}

}  // namespace ligerdsl::kernels
