// Gradient of one element of a row, with the names of cross_entropy.cpp and p_c = e^(z_c - lse):
//
//   d_c = p_c (t + r) - s w_c - [c = y] t
//
//   t = (1-a) w_y / S,  s = a / (V S)
//   r = 2 lse_square_scale lse / n + s W
//
//   with the upstream gradient h of the entropy E:  d_c -= h p_c (z_c - lse + E)
//   d_c *= (1 - (z_c / softcap)^2) / temperature, with z_c before the division by temperature
//
// [c = y] is 1 for the label's class, else 0. Without class weights w_c = 1 and W = V. All terms
// without h are multiplied by d_loss and, with token scaling, by p_y. 1/S and 1/n are 1 unless the
// reduction is mean.
//
// lse is one f32 number here, so p_c has a relative error of about |lse| 2^-23. This is enough for
// gradients that become rounded operands of matmuls.
//
// Bytes moved: 2 n columns sizeof(type). Each element takes one exponential.
#include "kernels/cross_entropy/cross_entropy_columns.h"

#include <numbers>

#include "kernels/core/index_view.h"
#include "kernels/core/record.h"
#include "kernels/core/softcap.h"
#include "kernels/core/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

struct ColumnArguments {
  View logits, labels, lse, label_logit, bias, weight, column_weight, d_loss, entropy, d_entropy,
      counts, error;
  Scalar first_row, ignore_index, first_column, label_smoothing, lse_square_scale, softcap,
      temperature;

  ColumnArguments(KernelBuilder& k, const CrossEntropyColumnsMeta& m) {
    logits = k.view("logits", m.type, {dyn, dyn});
    labels = index_view(k, "labels", m.label_type);
    lse = k.view("lse", f32, {dyn});
    if (m.token_scaling) label_logit = k.view("label_logit", f32, {dyn});
    if (m.has_bias) bias = k.view("bias", m.bias_type, {dyn});
    if (m.has_weight) weight = k.view("weight", m.weight_type, {m.classes});
    if (m.has_weight && m.smoothing) column_weight = k.view("column_weight", m.weight_type, {dyn});
    if (m.with_d_loss) d_loss = k.view("d_loss", m.d_loss_type, {dyn});
    if (m.with_d_entropy) entropy = k.view("entropy", f32, {dyn});
    if (m.with_d_entropy) d_entropy = k.view("d_entropy", f32, {dyn});
    if (m.reduction == Reduction::mean || (m.has_weight && m.smoothing))
      counts = k.view("counts", f32, {4});
    if (m.reports) error = k.view("error", i64, {1});
    if (m.reports) first_row = k.scalar("first_row", i64);
    ignore_index = k.scalar("ignore_index", i64);
    first_column = k.scalar("first_column", i64);
    if (m.smoothing) label_smoothing = k.scalar("label_smoothing", f32);
    if (m.lse_square) lse_square_scale = k.scalar("lse_square_scale", f32);
    if (m.softcap) softcap = k.scalar("softcap", f32);
    if (m.tempered) temperature = k.scalar("temperature", f32);
  }
};

// Finite lower bound for log p, so that p log p is 0 if p is 0. No f32 > 0 has a lower logarithm.
constexpr double kLeastLogarithm = -104;

// Coefficients in d_c: `power` = t + r of p_c, `smooth` = s of w_c, `target` = t of [c = y].
struct Coefficients {
  Scalar power, smooth, target;
};

Coefficients coefficients_of(KernelBuilder& k, const CrossEntropyColumnsMeta& m,
                             const ColumnArguments& args, const Scalar& row, const Scalar& label,
                             const Scalar& lse) {
  const bool mean = m.reduction == Reduction::mean;
  Scalar loss_scale = mean ? args.counts.load({1}) : k.constant(1.0f, f32);
  Scalar zeta_scale = mean ? args.counts.load({0}) : k.constant(1.0f, f32);
  if (m.with_d_loss) {
    Scalar d_loss =
        (m.reduction == Reduction::none ? args.d_loss.load({row}) : args.d_loss.load({0})).to(f32);
    loss_scale = loss_scale * d_loss;
    zeta_scale = zeta_scale * d_loss;
  }
  if (m.token_scaling) {
    Scalar p = fast_exp2((args.label_logit.load({row}) - lse) * std::numbers::log2e);
    loss_scale = loss_scale * p;
    zeta_scale = zeta_scale * p;
  }
  Coefficients f;
  f.target = m.smoothing ? (1.0f - args.label_smoothing) * loss_scale : loss_scale;
  if (m.has_weight) f.target = f.target * args.weight.load({label}).to(f32);
  f.power = f.target;
  if (m.lse_square) f.power = f.power + 2.0f * args.lse_square_scale * lse * zeta_scale;
  if (m.smoothing) {
    f.smooth = args.label_smoothing / static_cast<float>(m.classes) * loss_scale;
    f.power = f.power +
              (m.has_weight ? f.smooth * args.counts.load({2}) : args.label_smoothing * loss_scale);
  }
  return f;
}

}  // namespace

void cross_entropy_columns(KernelBuilder& k, const CrossEntropyColumnsMeta& m) {
  const ColumnArguments args(k, m);
  const Shape shape{m.block};
  Scalar blocks = cdiv(args.logits.dim(1), m.block).to(i32);
  Scalar row = k.program_id(0) / blocks, b = k.program_id(0) % blocks;
  Scalar label = args.labels.load({row}).to(i64);
  Scalar ignored = label == args.ignore_index;
  Scalar is_class = label >= 0 && label < m.classes;
  Scalar counted = !ignored && is_class;
  if (m.reports) {
    Scalar row_of_batch = row.to(i64) + args.first_row;
    atomic_max(args.error.ptr(), kErrorBase - row_of_batch, !ignored && !is_class && b == 0);
  }
  Scalar lse = args.lse.load({row});
  const Coefficients f =
      coefficients_of(k, m, args, row, where(counted, label, k.constant(0, i64)), lse);

  auto tiles = args.logits.partition({squeeze, m.block});
  Tile z = tiles.load({row, b}).to(f32);
  if (m.has_bias) z = z + args.bias.partition(shape).load({b}).to(f32);
  Tile slope;
  if (m.softcap) {
    const Softcap softcap(args.softcap, m.quick_softcap, m.type);
    z = softcap(z);
    slope = softcap.slope(z);
  }
  Scalar rate;
  if (m.tempered) rate = 1.0f / args.temperature;
  if (m.tempered) z = z * rate;
  Tile d = fast_exp2(fma(z, std::numbers::log2e, -lse * std::numbers::log2e));
  if (m.with_d_entropy) {
    Scalar h = args.d_entropy.load({row});
    Tile log_p = max(z - lse, kLeastLogarithm);
    d = d * (f.power - h * (log_p + args.entropy.load({row})));
  } else {
    d = d * f.power;
  }
  if (m.smoothing)
    d = d - (m.has_weight ? args.column_weight.partition(shape).load({b}).to(f32) * f.smooth
                          : k.full(shape, f.smooth, f32));
  Tile column = b * m.block + k.arange(m.block);
  d = where(column == (label - args.first_column).to(i32), d - f.target, d);
  if (m.softcap) d = d * slope;
  if (m.tempered) d = d * rate;
  Scalar fill = where(ignored, k.constant(0.0f, f32), std::numeric_limits<float>::quiet_NaN());
  tiles.store({row, b}, where(counted, d, fill).to(m.type));
}

void cross_entropy_label_logit(KernelBuilder& k, const CrossEntropyOptions& m) {
  View label_logit = k.view("label_logit", f32, {dyn});
  View logits = k.view("logits", m.type, {dyn, m.classes});
  View labels = index_view(k, "labels", m.label_type);
  View bias;
  if (m.has_bias) bias = k.view("bias", m.bias_type, {m.classes});
  Scalar softcap;
  if (m.softcap) softcap = k.scalar("softcap", f32);
  Scalar temperature;
  if (m.tempered) temperature = k.scalar("temperature", f32);

  Scalar row = k.program_id(0);
  Scalar label = labels.load({row}).to(i64);
  Scalar is_class = label >= 0 && label < m.classes;
  Scalar column = where(is_class, label, k.constant(0, i64));
  Scalar z = logits.load({row, column}).to(f32);
  if (m.has_bias) z = z + bias.load({column}).to(f32);
  if (m.softcap) z = Softcap(softcap)(z);
  if (m.tempered) z = z / temperature;
  label_logit.store({row}, where(is_class, z, 0.0f));
}

CrossEntropyColumns cross_entropy_columns(const Machine& machine,
                                          const CrossEntropyOptions& options, bool reports) {
  CrossEntropyColumnsMeta meta{options};
  meta.reports = reports;
  const bool gpu = machine.is_gpu();
  meta.block = gpu ? 256 * vector_width(options.type) : 1024;
  CrossEntropyColumns columns;
  columns.block = meta.block;
  columns.step =
      record_step("cross_entropy_columns", options.type, &cross_entropy_columns, meta,
                  library_launch(Size::rows(), warps_for(meta.block, options.type, 1, 8)));
  return columns;
}

Step cross_entropy_label_logit(const Machine&, const CrossEntropyOptions& options) {
  return record_step("cross_entropy_label_logit", options.type, &cross_entropy_label_logit, options,
                     library_launch(Size::rows(), 1));
}

}  // namespace ligerdsl::kernels
