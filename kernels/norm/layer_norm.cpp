// LayerNorm over rows of H elements. Arithmetic is f32; round_T rounds to T = type.
//
//   mu = mean(x), v = mean((x - mu)^2), r = 1 / sqrt(v + eps)
//   y = round_T((x - mu) r weight + bias)
//
//   n = (x - mu) r, q = dy weight;  dx = round_T(r (q - n mean(n q) - mean(q)))
//   dweight = sum over rows of dy n;  dbias = sum over rows of dy
//
// The forward computes its statistics in one reduction (moments.h). Bytes moved, with s =
// sizeof(T): forward 2 n H s; backward 3 n H s and two f32 rows of partial sums per program.
#include "kernels/norm/layer_norm.h"

#include "kernels/norm/centred_rows.h"
#include "kernels/norm/norm_rows.h"

namespace ligerdsl::kernels {
namespace {

// Returns one block of columns of weight or bias as a [1, block] tile.
Tile columns_of(const View& view, const LayerNormMeta& m, ScalarArg column,
                const Scalar& alignment_offset = {}) {
  return view.partition({m.block})
      .load({column}, {.alignment_offset = alignment_offset})
      .to(f32)
      .expand_dims(0);
}

// Returns weight or bias as a resident row, which all rows of a CTA share.
Resident keep_columns(const View& view, const LayerNormMeta& m, const Scalar& alignment_offset) {
  return view.partition({m.block}).resident({}, {.alignment_offset = alignment_offset});
}
Tile columns_of(const Resident& kept, const Scalar& column) {
  return kept.load(column).to(f32).expand_dims(0);
}

// Statistics of the forward that the backward reads, as [rows, 1].
struct Statistics {
  View mean, rstd;
  Statistics(KernelBuilder& k)
      : mean(k.view("mean", f32, {dyn})), rstd(k.view("rstd", f32, {dyn})) {}
  Tile mean_of(const LayerNormMeta& m, const Scalar& row) const { return load(mean, m, row); }
  Tile rstd_of(const LayerNormMeta& m, const Scalar& row) const { return load(rstd, m, row); }

 private:
  static Tile load(const View& view, const LayerNormMeta& m, const Scalar& row) {
    return view.partition({m.rows}).load({row}).expand_dims(1);
  }
};

}  // namespace

void layer_norm_forward(KernelBuilder& k, const LayerNormMeta& m) {
  const View y_view = k.view("y", m.type, {dyn, m.cols});
  View sum_view, residual_view;
  if (m.residual) sum_view = k.view("sum", m.type, {dyn, m.cols});
  const View x_view = k.view("x", m.type, {dyn, m.cols});
  if (m.residual) residual_view = k.view("residual", m.type, {dyn, m.cols});
  View weight = k.view("weight", m.weight_type, {m.cols});
  View bias;
  if (!m.without_bias) bias = k.view("bias", m.weight_type, {m.cols});
  View mean_view, rstd_view;
  if (m.with_mean) mean_view = k.view("mean", f32, {dyn});
  if (m.with_rstd) rstd_view = k.view("rstd", f32, {dyn});
  Scalar eps = k.scalar("eps", f32);

  const Scalar first = k.program_id(0).to(i64);
  Scalar offset;  // alignment offset, the same for all rows of this program
  if (m.aligned_blocks) offset = x_view.alignment_offset({first});
  const NormRows y(y_view, m, offset);
  std::optional<NormRows> sum_out, residual;
  if (m.residual) sum_out.emplace(sum_view, m, offset), residual.emplace(residual_view, m, offset);
  const NormInput input(NormRows(x_view, m, offset), residual);
  Tile w, added;
  const auto load_parameters = [&] {
    if (!m.without_bias) added = columns_of(bias, m, 0, offset);
    w = columns_of(weight, m, 0, offset);
  };
  if (m.loops_over_rows) load_parameters();

  const auto normalise = [&](const Scalar& row) {
    const CentredRows x(k, m, input, row);
    const auto centre = x.centre(eps);
    if (m.with_mean) mean_view.partition({m.rows}).store({row}, centre.mean);
    if (m.with_rstd) rstd_view.partition({m.rows}).store({row}, centre.rstd);

    const typename decltype(x)::Normalised normalised(m, centre);
    auto finish = [&](const Tile& block, ScalarArg b, const Tile& w, const Tile& added) {
      if (m.residual) sum_out->store(row, b, block);
      Tile n = normalised(block);
      y.store(row, b, m.without_bias ? n * w : fma(n, w, added));
    };
    if (!m.looped) {
      if (!m.loops_over_rows) load_parameters();
      return finish(x.block(k.constant(0, i64)), 0, w, added);
    }
    // The second pass begins with the last block, which the caches still hold.
    const Resident kept_weight = keep_columns(weight, m, offset);
    const Resident kept_bias = m.without_bias ? Resident() : keep_columns(bias, m, offset);
    k.for_range(0, x.blocks(), 1, [&](Scalar i) {
      Scalar b = x.blocks() - 1 - i;
      const Tile block = x.block(b), w = columns_of(kept_weight, b);
      finish(block, b, w, m.without_bias ? Tile() : columns_of(kept_bias, b));
    });
  };
  if (!m.loops_over_rows) return normalise(first);
  k.for_range(first, x_view.dim(0), programs_of(k, m).to(i64), pipelined(m.stages), normalise);
}

void layer_norm_backward(KernelBuilder& k, const LayerNormMeta& m) {
  const bool partial_sums = m.want_d_weight && !m.looped;
  const View d_x_view = k.view("d_x", m.type, {dyn, m.cols});
  const ParameterGradients gradients(m.gradients);
  std::vector<View> partials;
  if (partial_sums)
    partials = gradients.partials([&](const char* name) { return partials_view(k, m, name); });
  const View d_y_view = k.view("d_y", m.type, {dyn, m.cols});
  View x_view = k.view(m.residual ? "sum" : "x", m.type, {dyn, m.cols}), d_sum_view;
  if (m.with_d_sum) d_sum_view = k.view("d_sum", m.type, {dyn, m.cols});
  View weight = k.view("weight", m.weight_type, {m.cols});
  const Statistics statistics(k);

  // All rows of a program have the same alignment offset as its first row.
  Scalar first, offset;
  if (m.aligned_blocks) {
    first = k.program_id(0);
    offset = x_view.alignment_offset({first});
  }
  NormGradient d_x{NormRows(d_x_view, m, offset), {}};
  if (m.with_d_sum) d_x.d_sum.emplace(d_sum_view, m, offset);
  const NormRows d_y(d_y_view, m, offset), x(x_view, m, offset);
  Scalar cols = x_view.dim(1);
  auto mean_of = [&](const Tile& sums) { return (sums * (1.0 / m.cols)).expand_dims(1); };

  if (m.looped) {
    Scalar row = k.program_id(0);
    const NormalisedRows normalised(m.type, statistics.mean_of(m, row), statistics.rstd_of(m, row));
    Scalar blocks = cdiv(cols, m.block);
    const Resident kept_x = x.keep(row), kept_d_y = d_y.keep(row);
    auto x_of = [&](const Scalar& b) { return kept_x.load(b).to(f32); };
    auto weighted = [&](const Scalar& b) {
      return kept_d_y.load(b).to(f32) * columns_of(weight, m, b);
    };
    Tile zeros = k.zeros({m.rows, m.block}, f32);
    auto [sum_nq, sum_q] =
        k.for_range(0, blocks, 1, carry(zeros, zeros), [&](Scalar b, Tile sum_nq, Tile sum_q) {
          Tile q = weighted(b);
          return carry(fma(normalised(x_of(b)), q, sum_nq), sum_q + q);
        });
    Tile mean_nq = mean_of(sum(sum_nq, 1)), mean_q = mean_of(sum(sum_q, 1));
    k.for_range(0, blocks, 1, [&](Scalar i) {
      Scalar b = blocks - 1 - i;
      d_x.store(row, b, normalised.gradient(x_of(b), weighted(b), mean_nq, mean_q));
    });
    return;
  }

  // Program p processes row blocks p, p + programs, ... and holds its partial sums of d_weight and
  // d_bias in registers.
  const auto load_weight = [&] { return columns_of(weight, m, 0, offset); };
  Tile kept = m.reload_weight ? Tile() : load_weight();
  struct Read {
    Tile d_y, n;
  };
  auto backward_rows = [&](const Scalar& row) {
    const NormalisedRows normalised(m.type, statistics.mean_of(m, row), statistics.rstd_of(m, row));
    Tile x_rows = x.load(row, 0), n = normalised(x_rows);
    Tile dy = d_y.load(row, 0);
    Tile q = dy * (m.reload_weight ? load_weight() : kept);
    d_x.store(row, 0,
              normalised.gradient(x_rows, q, mean_of(sum_products(n, q, 1)), mean_of(sum(q, 1))));
    return Read{dy, n};
  };
  if (!m.aligned_blocks) first = k.program_id(0);
  if (!partial_sums) {
    backward_rows(first);
    return;
  }
  Tile zeros = k.zeros({m.rows, m.block}, f32);
  const std::vector<Tile> sums =
      sums_over(k, first, cdiv(x_view.dim(0), m.rows), programs_of(k, m), pipelined(m.stages),
                zeros, partials.size(), [&](const Scalar& row, const std::vector<Tile>& sums) {
                  const Read read = backward_rows(row);
                  return gradients.plus(sums, read.d_y, read.n);
                });
  for (size_t i = 0; i < sums.size(); ++i)
    partials[i]
        .partition({squeeze, m.block})
        .store({first, 0}, sum(sums[i], 0), {.alignment_offset = offset});
}

void layer_norm_d_weight(KernelBuilder& k, const LayerNormMeta& m) {
  const ParameterGradients gradients(m.gradients);
  const std::vector<View> partials =
      gradients.partials([&](const char* name) { return partials_view(k, m, name); });
  const NormRows d_y(k.view("d_y", m.type, {dyn, m.cols}), m);
  std::optional<NormRows> x;
  std::optional<Statistics> statistics;
  if (gradients.weight) {
    x.emplace(k.view(m.residual ? "sum" : "x", m.type, {dyn, m.cols}), m);
    statistics.emplace(k);
  }

  const View rows = (x ? *x : d_y).tiles.view();
  Scalar blocks = cdiv(rows.dim(1), m.block).to(i32);
  Scalar column = k.program_id(0) % blocks, part = k.program_id(0) / blocks;
  Tile zeros = k.zeros({m.rows, m.block}, f32);
  const std::vector<Tile> sums =
      sums_over(k, part, cdiv(rows.dim(0), m.rows), partials[0].dim(0), pipelined(m.stages), zeros,
                partials.size(), [&](const Scalar& row, const std::vector<Tile>& sums) {
                  Tile n;
                  if (x) {
                    const NormalisedRows normalised(m.type, statistics->mean_of(m, row),
                                                    statistics->rstd_of(m, row));
                    n = normalised(x->load(row, column));
                  }
                  Tile dy = d_y.load(row, column);
                  return gradients.plus(sums, dy, n);
                });
  for (size_t i = 0; i < sums.size(); ++i)
    partials[i].partition({squeeze, m.block}).store({part, column}, sum(sums[i], 0));
}

}  // namespace ligerdsl::kernels
