// Computes the gradient d_c; cross_entropy_columns.cpp has the formulas and names. d_c is rounded
// once. p_c = 2^((z_c - lse) log2(e)), where z_c - lse is exact if both are nearly equal. So the
// relative error of p_c is about |lse| 2^-23, the error of lse.
//
// Flop 2 n V H. Bytes: n V s and the operands of the matmul, s = sizeof(type).
#include "kernels/fused_linear/linear_cross_entropy_columns.h"

#include <limits>

#include "kernels/core/index_view.h"
#include "kernels/core/record.h"
#include "kernels/fused_linear/linear_logits.h"
#include "kernels/matmul/matmul_tiles.h"

namespace ligerdsl::kernels {
namespace {

struct Meta : CrossEntropyOptions {
  MatmulMeta lm_head;
  bool reports = false;
};

struct Arguments {
  View lse, label_logit, class_weight, d_loss, entropy, d_entropy, counts;
  Scalar label_smoothing, lse_square_scale;

  Arguments(KernelBuilder& k, const Meta& m) {
    lse = k.view("lse", f32, {dyn});
    if (m.token_scaling) label_logit = k.view("label_logit", f32, {dyn});
    if (m.has_weight) class_weight = k.view("class_weight", m.weight_type, {m.classes});
    if (m.with_d_loss) d_loss = k.view("d_loss", m.d_loss_type, {dyn});
    if (m.with_d_entropy) entropy = k.view("entropy", f32, {dyn});
    if (m.with_d_entropy) d_entropy = k.view("d_entropy", f32, {dyn});
    if (m.reduction == Reduction::mean || (m.has_weight && m.smoothing))
      counts = k.view("counts", f32, {4});
    if (m.smoothing) label_smoothing = k.scalar("label_smoothing", f32);
    if (m.lse_square) lse_square_scale = k.scalar("lse_square_scale", f32);
  }
};

// Values per row of a tile: label, lse, and three coefficients: `power` of p_c, `smooth` of w_c (or
// 1), and `target` of the label's element.
struct Rows {
  Tile label, ignored, counted, lse;
  Tile power, smooth, target;
};

Rows rows_of(KernelBuilder& k, const Meta& m, const Arguments& args, const MatmulTiles::Place& tile,
             const Tile& label, const Scalar& ignore_index) {
  const auto along = [&](const View& view) {
    return view.partition({m.lm_head.tile_m}).load({tile.row}).to(f32);
  };
  const auto all = [&](const auto& value) { return k.full({m.lm_head.tile_m}, value, f32); };
  Rows rows{.label = label, .ignored = label == ignore_index, .lse = along(args.lse)};
  const Tile is_class = label >= 0 && label < m.classes;
  rows.counted = !rows.ignored && is_class;
  const bool mean = m.reduction == Reduction::mean;
  Tile loss_scale = mean ? all(args.counts.load({1})) : all(1.0f),
       zeta_scale = mean ? all(args.counts.load({0})) : all(1.0f);
  if (m.with_d_loss) {
    const Tile d_loss =
        m.reduction == Reduction::none ? along(args.d_loss) : all(args.d_loss.load({0}).to(f32));
    loss_scale = loss_scale * d_loss;
    zeta_scale = zeta_scale * d_loss;
  }
  if (m.token_scaling) {
    const Tile p = fast_exp2((along(args.label_logit) - rows.lse) * std::numbers::log2e);
    loss_scale = loss_scale * p;
    zeta_scale = zeta_scale * p;
  }
  rows.target = m.smoothing ? loss_scale * (1.0f - args.label_smoothing) : loss_scale;
  if (m.has_weight)
    rows.target = rows.target * load(args.class_weight.ptr() + label, rows.counted, 0.0f).to(f32);
  rows.power = rows.target;
  if (m.lse_square)
    rows.power = rows.power + rows.lse * zeta_scale * (2.0f * args.lse_square_scale);
  if (m.smoothing) {
    rows.smooth = loss_scale * (args.label_smoothing / static_cast<float>(m.classes));
    rows.power = rows.power + (m.has_weight ? rows.smooth * args.counts.load({2})
                                            : loss_scale * args.label_smoothing);
  }
  return rows;
}

// Reports the first row of the tile whose label is neither a class nor ignore_index.
void report(KernelBuilder& k, const Rows& rows, const MatmulTiles::Place& tile, const View& error,
            const Scalar& first_row) {
  const int64_t count = rows.label.shape()[0];
  const Tile row = k.arange(count).to(i64) + (tile.row.to(i64) * count + first_row);
  const Scalar word =
      reduce_max(where(rows.counted || rows.ignored, k.constant(0, i64), kErrorBase - row));
  atomic_max(error.ptr(), word, word > 0);
}

void gradient(KernelBuilder& k, const Meta& m) {
  const MatmulMeta& p = m.lm_head;
  const View d = k.view("d", m.type, {dyn, dyn});
  const View x = k.view("x", m.type, {dyn, dyn}), weight = k.view("weight", m.type, {dyn, dyn});
  const View labels = index_view(k, "labels", m.label_type);
  View bias, column_weight, error;
  Scalar first_row;
  if (m.has_bias) bias = k.view("bias", m.bias_type, {dyn});
  if (m.has_weight && m.smoothing) column_weight = k.view("column_weight", m.weight_type, {dyn});
  if (m.reports) error = k.view("error", i64, {1});
  if (m.reports) first_row = k.scalar("first_row", i64);
  const Scalar ignore_index = k.scalar("ignore_index", i64),
               first_column = k.scalar("first_column", i64);
  const Arguments args(k, m);
  const LinearLogits logits(k, m);

  const MatmulTiles tiles(k, p, x, weight, x.dim(0), weight.dim(0));
  const MatmulTiles::Place tile = tiles.at(k.program_id(0));
  const auto along_columns = [&](const View& view) {
    return view.partition({p.tile_n}).load({tile.column}).to(f32).expand_dims(0);
  };
  const auto column_of_rows = [](const Tile& t) { return t.expand_dims(1); };
  Tile z = tiles.accumulate(tile, k.constant(0, i64), tiles.k_steps());
  if (m.has_bias) z = z + along_columns(bias);
  z = logits.z(z);
  const Rows rows = rows_of(k, m, args, tile, labels.partition({p.tile_m}).load({tile.row}).to(i64),
                            ignore_index);
  if (m.reports)
    k.if_(tile.column.to(i64) + first_column == 0,
          [&] { report(k, rows, tile, error, first_row); });

  const Tile log_p = z - column_of_rows(rows.lse);
  Tile made = fast_exp2(log_p * std::numbers::log2e);
  if (m.with_d_entropy) {
    // Less than the logarithm of any nonzero f32, and finite, so that 0 * log 0 is 0.
    constexpr double kLeastLogarithm = -104;
    const auto along = [&](const View& view) {
      return view.partition({p.tile_m}).load({tile.row});
    };
    const Tile h = along(args.d_entropy), rest = rows.power - h * along(args.entropy);
    made = made * fma(max(log_p, kLeastLogarithm), -column_of_rows(h), column_of_rows(rest));
  } else {
    made = made * column_of_rows(rows.power);
  }
  if (m.smoothing)
    made = made - (m.has_weight ? along_columns(column_weight) * column_of_rows(rows.smooth)
                                : column_of_rows(rows.smooth));
  const Tile column = (k.arange(p.tile_n) + tile.column.to(i32) * p.tile_n).expand_dims(0);
  made = where(column == column_of_rows((rows.label - first_column).to(i32)),
               made - column_of_rows(rows.target), made);
  if (m.softcap) made = made * logits.slope(z);
  if (m.tempered) made = made * logits.rate();
  const Tile fill =
      where(rows.ignored, 0.0f, k.full({p.tile_m}, std::numeric_limits<float>::quiet_NaN(), f32));
  d.partition({p.tile_m, p.tile_n})
      .store({tile.row, tile.column},
             where(column_of_rows(rows.counted), made, column_of_rows(fill)).to(m.type));
}

}  // namespace

LinearCrossEntropyColumns linear_cross_entropy_columns(const Machine& machine,
                                                       const LinearCrossEntropyOptions& o,
                                                       bool reports) {
  const LinearMatmul lm_head = linear_matmul(machine, o);
  LinearCrossEntropyColumns made{.config = lm_head.config};
  Meta meta{o};
  meta.lm_head = lm_head.meta, meta.reports = reports;
  made.gradient = record_step("linear_cross_entropy_columns", o.type, &gradient, meta,
                              library_launch(Size::rows(), made.config.num_warps));
  if (o.token_scaling) made.label_logits = linear_label_logits(machine, o, false);
  return made;
}

}  // namespace ligerdsl::kernels
