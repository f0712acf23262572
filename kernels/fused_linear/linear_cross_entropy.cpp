// Cross-entropy of logits z = x w^T, computed in the epilogue of one matmul. z includes bias,
// softcap and temperature, y is a row's label, and base is initially z_y log2(e) + 40:
//
//   e_c = 2^(z_c log2(e) - base),  others = sum of e_c over c != y
//   total = others + 2^(z_y log2(e) - base)
//
// The loss follows from (base, others) as in cross_entropy.cpp. Without entropies, its gradient is
//
//   d_c = f e_c for c != y,  d_y = f g
//   f = (t + r) / total,  f g = (r e_y - t others) / total
//
// cross_entropy_columns.cpp defines t and r. Smoothing subtracts a term from every d_c
// (linear_smoothing.h). With g stored in place of e_y: d_x = f (e w), d_w = e^T (f x).
//
// A softmax normally subtracts the row's maximum, which is not known before the matmul. The label's
// logit is known, so base comes from it. Powers are out of range if an exponent exceeds
// kMostExponent. A step after the matmul finds such rows. All their tiles are then recomputed
// relative to the row's largest logit, which overwrites any infinite value.
//
// Flop: 2 n V H per matmul. Bytes besides the matmul's: 8 n V / tile_n written and read, 2 n H s.
#include "kernels/fused_linear/linear_cross_entropy.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "kernels/core/index_view.h"
#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "kernels/cross_entropy/cross_entropy_results.h"
#include "kernels/fused_linear/linear_logits.h"
#include "kernels/matmul/matmul_tiles.h"
#include "kernels/matmul/row_tiles.h"

namespace ligerdsl::kernels {
namespace {

// Exponents of 2. The label's power is 2^-kBelow. If u is at most 86 above the label's, the power
// is at most 2^kMostExponent, so sums over 2^18 classes and their inverses are well inside f32's
// range. A factor keeps all digits for upstream gradients down to 2^-62 / n.
constexpr double kBelow = 40, kMostExponent = 86 - kBelow;
constexpr int64_t kFlags = 1024;  // rows whose flag one iteration reads

struct Meta : CrossEntropyMeta {
  MatmulMeta lm_head;
  DType given = bf16;  // dtype of the caller's weight
  int64_t cols = 4096;
  bool anchors = true;
  bool recomputes = false;
  bool in_blocks = false;

  bool bests() const { return with_accuracy || with_predictions; }
};

// Statistics per row of x and tile of columns: [n, tiles of columns].
struct TileStatistics {
  View sums, tops, bests, deviations, moments;

  TileStatistics(KernelBuilder& k, const Meta& m) {
    sums = k.view("sums", f32, {dyn, dyn});
    tops = k.view("tops", f32, {dyn, dyn});
    if (m.bests()) bests = k.view("bests", i32, {dyn, dyn});
    if (m.smoothing) deviations = k.view("deviations", f32, {dyn, dyn});
    if (m.entropies()) moments = k.view("moments", f32, {dyn, dyn});
  }
};

void label_logits(KernelBuilder& k, const Meta& m) {
  const View label_logit = k.view("label_logit", f32, {dyn});
  View base;
  if (m.anchors) base = k.view("base", f32, {dyn});
  const View x = k.view("x", m.type, {dyn, m.cols}),
             weight = k.view("weight", m.given, {m.classes, m.cols});
  const View labels = index_view(k, "labels", m.label_type);
  View bias;
  if (m.has_bias) bias = k.view("bias", m.bias_type, {m.classes});
  const Scalar ignore_index = k.scalar("ignore_index", i64);
  const LinearLogits logits(k, m);

  const Scalar row = k.program_id(0), label = labels.load({row}).to(i64);
  const Scalar counted = label != ignore_index && label >= 0 && label < m.classes;
  const Scalar column = where(counted, label, k.constant(0, i64));
  const Partition of_x = x.partition({squeeze, m.block}),
                  of_weight = weight.partition({squeeze, m.block});
  const auto [lanes] =
      k.for_range(0, cdiv(x.dim(1), m.block), 1, carry(k.zeros({m.block}, f32)),
                  [&](const Scalar& b, const Tile& lanes) {
                    return carry(fma(of_x.load({row, b}).to(f32),
                                     of_weight.load({column, b}).to(m.type).to(f32), lanes));
                  });
  Scalar total = sum(lanes);
  if (m.has_bias) total = total + bias.load({column}).to(f32);
  const Scalar z = logits.z(total);
  label_logit.store({row}, where(counted, z, 0.0f));
  if (!m.anchors) return;
  const Scalar anchor = where(z > -INFINITY, fma(z, std::numbers::log2e, kBelow), 0.0f);
  base.store({row}, where(counted, anchor, k.constant(kBelow, f32)));
}

void exponentials(KernelBuilder& k, const Meta& m) {
  const MatmulMeta& p = m.lm_head;
  View e;
  std::optional<ColumnBlocks> blocks;
  if (m.with_gradient)
    e = k.view("e", m.type, m.in_blocks ? Shape{dyn, dyn, dyn} : Shape{dyn, dyn});
  if (m.with_gradient && m.in_blocks) blocks.emplace(k);
  const TileStatistics numbers(k, m);
  const View x = k.view("x", m.type, {dyn, dyn}), weight = k.view("weight", m.type, {dyn, dyn});
  const View base = k.view("base", f32, {dyn});
  const CountedTiles counted(k, p.tile_m);
  View again;
  if (m.recomputes) again = k.view("again", i32, {dyn});
  const View labels = index_view(k, "labels", m.label_type);
  View bias;
  View column_weight, label_logit;
  if (m.has_bias) bias = k.view("bias", m.bias_type, {dyn});
  if (m.smoothing) label_logit = k.view("label_logit", f32, {dyn});
  if (m.smoothing && m.has_weight) column_weight = k.view("column_weight", m.weight_type, {dyn});
  const Scalar first_column = k.scalar("first_column", i64);
  const LinearLogits logits(k, m);

  const Scalar columns = weight.dim(0);
  const MatmulTiles tiles(k, p, x, weight, counted.rows(), columns);
  // Epilogue of a tile. Its exponentials are stored in the row tile `place` of e.
  const auto finish = [&](const MatmulTiles::Place& tile, const Scalar& place, Tile acc) {
    const auto along_rows = [&](const View& view) {
      return view.partition({p.tile_m}).load({tile.row});
    };
    const auto along_columns = [&](const View& view) {
      return view.partition({p.tile_n}).load({tile.column}).to(f32).expand_dims(0);
    };
    const auto store = [&](const View& numbers, const Tile& of_rows) {
      numbers.partition({p.tile_m, squeeze}).store({tile.row, tile.column}, of_rows);
    };
    if (m.has_bias) acc = acc + along_columns(bias);
    const Tile column = (k.arange(p.tile_n) + tile.column.to(i32) * p.tile_n).expand_dims(0);
    const Tile inside = column < columns.to(i32), all = logits.z(acc);
    const Tile z = k.if_((tile.column + 1) * p.tile_n <= columns, [&] { return all; },
                         [&] { return where(inside, all, -INFINITY); });
    const Tile top = reduce_max(z, 1);
    store(numbers.tops, top);
    if (m.bests()) {
      const Tile best = reduce_min(where(z == top.expand_dims(1), column, INT32_MAX), 1);
      store(numbers.bests, best + first_column.to(i32));
    }
    if (m.smoothing) {
      Tile deviation = where(inside, z - along_rows(label_logit).expand_dims(1), 0.0f);
      if (m.has_weight) deviation = deviation * along_columns(column_weight);
      store(numbers.deviations, sum(deviation, 1));
    }
    const Tile from = along_rows(base).expand_dims(1), u = base_2(z, -from), made = fast_exp2(u);
    if (m.with_gradient) {
      Tile gradient = m.softcap ? made * logits.slope((u + from) * std::numbers::ln2) : made;
      // Zeros past the last class, because the next matmul reads whole blocks.
      if (m.softcap && m.in_blocks) gradient = where(inside, gradient, 0.0f);
      const Tile stored = gradient.to(m.type);
      if (m.in_blocks)
        e.partition({squeeze, p.tile_m, p.tile_n})
            .store(blocks->at(place, tile.column, p.tile_n), stored,
                   {.tensor_copies = p.tensor_stores});
      else
        e.partition({p.tile_m, p.tile_n})
            .store({place, tile.column}, stored, {.tensor_copies = p.tensor_stores});
    }
    const Tile is_label =
                   column == (along_rows(labels).to(i64) - first_column).to(i32).expand_dims(1),
               others = where(is_label, 0.0f, made);
    store(numbers.sums, sum(others, 1));
    // Recomputes the exponents from the powers, because keeping both in registers would spill.
    if (m.entropies()) store(numbers.moments, sum(others * finite_exponent(log2(made)), 1));
  };
  const auto tile_of = [&](const MatmulTiles::Place& at) {
    return MatmulTiles::Place{counted.tile(counted.place(at.row)), at.column, {}};
  };
  const auto make = [&](const MatmulTiles::Place& at) {
    const MatmulTiles::Place tile = tile_of(at);
    finish(tile, counted.place(at.row), tiles.accumulate(tile));
  };
  if (!m.recomputes) {
    if (p.persistent) return tiles.each_place(make);
    return k.if_(k.program_id(0) < tiles.count(), [&] { tiles.each_place(make); });
  }
  // Usually no flag is set. So each program first reads all flags and ends if none is set.
  const Partition flags = again.partition({kFlags});
  const auto [any] = k.for_range(
      0, cdiv(again.dim(0), kFlags), 1, carry(k.zeros({kFlags}, i32)),
      [&](const Scalar& b, const Tile& any) { return carry(max(any, flags.load({b}))); });
  const auto recompute = [&](const MatmulTiles::Place& at) {
    k.if_(reduce_max(again.partition({p.tile_m}).load({tile_of(at).row})) > 0, [&] { make(at); });
  };
  k.if_(reduce_max(any) > 0, [&] { tiles.each_place(recompute); });
}

void overflows(KernelBuilder& k, const Meta& m) {
  const View base = k.view("base", f32, {dyn}), again = k.view("again", i32, {dyn}),
             tops = k.view("tops", f32, {dyn, dyn}), places = k.view("places", i32, {dyn});
  const Scalar row = k.program_id(0);
  const Partition tiles = tops.partition({squeeze, m.block});
  const auto [lanes] = k.for_range(
      0, RowOfTile(places, row, m.lm_head.tile_m).blocks(k, tops, m.block), 1,
      carry(k.full({m.block}, -INFINITY, f32)), [&](const Scalar& b, const Tile& lanes) {
        return carry(max(lanes, tiles.load({row, b}, {.pad = -INFINITY})));
      });
  const Scalar top = reduce_max(lanes), old = base.load({row}),
               u = fma(top, std::numbers::log2e, -old);
  // Only a label logit of -inf, for which the base is 0, can make all powers too small.
  const Scalar missed = u > kMostExponent || (old == 0.0f && u < -kMostExponent && top > -INFINITY);
  base.store({row}, where(missed, top * std::numbers::log2e, old));
  again.store({row}, missed.to(i32));
}

// Combines the statistics of a row's tiles, in `blocks` blocks. The caller sets the base.
CrossEntropyRowSums row_sums(KernelBuilder& k, const Meta& m, const TileStatistics& numbers,
                             const Scalar& row, const Scalar& blocks) {
  const Tile zeros = k.zeros({m.block}, f32);
  // Accumulators of unused options stay constant, so the compiler removes them.
  const auto [others, deviations, moments, tops, bests] = k.for_range(
      0, blocks, 1,
      carry(zeros, zeros, zeros, k.full({m.block}, -INFINITY, f32),
            k.full({m.block}, INT32_MAX, i32)),
      [&](const Scalar& b, Tile others, Tile deviations, Tile moments, Tile tops, Tile bests) {
        const auto more = [&](const View& view) {
          return view.partition({squeeze, m.block}).load({row, b});
        };
        others = others + more(numbers.sums);
        if (m.smoothing) deviations = deviations + more(numbers.deviations);
        if (m.entropies()) moments = moments + more(numbers.moments);
        if (m.bests()) {
          const Tile top = numbers.tops.partition({squeeze, m.block})
                               .load({row, b}, {.pad = -INFINITY}),
                     best = more(numbers.bests),
                     better = top > tops || (top == tops && best < bests);
          tops = where(better, top, tops);
          bests = where(better, best, bests);
        }
        return carry(others, deviations, moments, tops, bests);
      });
  CrossEntropyRowSums found;
  found.others = sum(others);
  if (m.smoothing) found.deviation = sum(deviations);
  if (m.entropies()) found.moment = sum(moments);
  if (m.bests()) found.best = reduce_min(where(tops == reduce_max(tops), bests, INT32_MAX));
  return found;
}

// Stored exponentials e: one matrix d_logits [n, V], or column blocks, of which the first has its
// own memory. Arguments: d_logits, or e_first [n, columns], e_others [blocks, n, 2^block_shift],
// block_shift i32.
class StoredRows {
 public:
  StoredRows(KernelBuilder& k, const Meta& m, const View& d_logits) : k_(k), m_(m) {
    if (m.in_blocks) blocks_.emplace(k);
    first_ = m.in_blocks ? k.view("e_first", m.type, {dyn, dyn}) : d_logits;
    if (m.in_blocks) others_ = k.view("e_others", m.type, {dyn, dyn, dyn});
  }

  void store(const Scalar& row, const Scalar& column, const Scalar& value) const {
    if (!blocks_) return first_.store({row, column}, value);
    const Scalar width = blocks_->width();
    k_.if_(
        column < width,
        [&] {
          first_.store({row, column}, value);
        },
        [&] { others_.store(blocks_->at(row, column - width), value); });
  }
  void clear(const Scalar& row) const {
    const Tile zeros = k_.zeros({m_.block}, m_.type);
    const Partition first = first_.partition({squeeze, m_.block});
    k_.for_range(0, cdiv(first_.dim(1), m_.block), 1, [&](const Scalar& b) {
      first.store({row, b}, zeros);
    });
    if (!blocks_) return;
    const Partition others = others_.partition({squeeze, squeeze, m_.block});
    k_.for_range(0, others_.dim(0), 1, [&](const Scalar& other) {
      k_.for_range(0, cdiv(others_.dim(2), m_.block), 1, [&](const Scalar& b) {
        others.store({other, row, b}, zeros);
      });
    });
  }

 private:
  KernelBuilder& k_;
  const Meta& m_;
  std::optional<ColumnBlocks> blocks_;
  View first_, others_;
};

// Computes a row's results and its factor, and replaces the label's element of e.
void rows(KernelBuilder& k, const Meta& m) {
  const CrossEntropyArguments args(k, m);
  const TileStatistics numbers(k, m);
  const View base = k.view("base", f32, {dyn}), label_logit = k.view("label_logit", f32, {dyn}),
             places = k.view("places", i32, {dyn});
  View factor, smooth;
  if (m.with_gradient && m.smoothing) smooth = k.view("smooth", f32, {dyn});
  if (m.with_gradient) factor = k.view("factor", f32, {dyn});
  std::optional<StoredRows> stored;
  if (m.with_gradient) stored.emplace(k, m, args.d_logits);

  const Scalar row = k.program_id(0), label = args.labels.load({row}).to(i64);
  const Scalar ignored = label == args.ignore_index,
               counted = !ignored && label >= 0 && label < m.classes;
  const RowOfTile of_tile(places, row, m.lm_head.tile_m);
  const Scalar place = of_tile.place;
  const CrossEntropyRowSums found =
      row_sums(k, m, numbers, row, of_tile.blocks(k, numbers.sums, m.block));
  const Scalar others = found.others;

  const auto store_gradient = [&](const Scalar& f, const Scalar& of_all) {
    factor.store({place}, f);
    if (m.smoothing) smooth.store({row}, of_all);
  };
  const auto count = [&] {
    Scalar rate;
    if (m.tempered) rate = 1.0f / args.temperature;
    // If the label's logit is not far below the others, a base at the label's logit is more
    // accurate: small values keep all their digits.
    const Scalar near = others < 0x1p-20f, shift = where(near, k.constant(kBelow, f32), 0.0f),
                 scale = where(near, k.constant(std::exp2(kBelow), f32), 1.0f);
    CrossEntropyRowSums sums = found;
    sums.base = base.load({row}) - shift;
    sums.others = others * scale;
    if (m.entropies()) sums.moment = fma(others, shift, found.moment) * scale;
    const Scalar z = label_logit.load({row});
    const CrossEntropyResults results(
        k, m, args, {OneRow(row), label, k.constant(m.classes, i32), z, z, rate}, sums);
    results.store();
    if (!m.with_gradient) return;
    const CrossEntropyResults::Coefficients c = results.coefficients();
    // With a z-loss, the factor c.power of all elements but the label's may be nearly 0. Then
    // 2^-110 of the label's gradient replaces it, so that the division below stays finite. The
    // smoothing term of all classes is left out of the label's gradient, because the matmuls add
    // it.
    Scalar label_gradient = c.label;
    if (m.smoothing)
      label_gradient =
          label_gradient + (m.has_weight ? args.weight.load({label}).to(f32) * c.smooth : c.smooth);
    const Scalar least = abs(label_gradient) * 0x1p-110f,
                 of_sums = where(abs(c.power) < least, least, c.power), power = of_sums * scale;
    Scalar label_power = where(power == 0.0f, 0.0f, label_gradient / power);
    if (m.softcap) {
      const Scalar t = (m.tempered ? z * args.temperature : z) / args.softcap;
      label_power = label_power * fma(-t, t, 1.0f);
    }
    stored->store(place, label, label_power.to(m.type));
    store_gradient(power, m.smoothing ? -c.smooth : Scalar());
  };
  const auto fill = [&] {
    CrossEntropyMeta results = m;
    results.with_gradient = false;
    const Scalar f = fill_row(k, results, args, nullptr, row, ignored);
    if (!m.with_gradient) return;
    store_gradient(f, f);
    // The row's factor is 0, but 0 times NaN or infinity is NaN. So a row is cleared if its sum
    // `others` is not finite. The label's element, which `others` excludes, is always cleared.
    k.if_(ignored && of_tile.tile.counts, [&] {
      k.if_(label >= 0 && label < m.classes,
            [&] { stored->store(place, label, k.constant(0, m.type)); });
      k.if_(!(others < INFINITY), [&] { stored->clear(place); });
    });
  };
  k.if_(counted, count, fill);
}

// A row with a factor of 0 becomes 0, even if x is not finite.
void scaled_x(KernelBuilder& k, const Meta& m) {
  const View scaled = k.view("scaled", m.type, {dyn, m.cols}),
             x = k.view("x", m.type, {dyn, m.cols});
  const View factor = k.view("factor", f32, {dyn}), places = k.view("places", i32, {dyn});
  const Scalar row = k.program_id(0);
  const RowOfTile of_tile(places, row, m.lm_head.tile_m);
  const Scalar f = factor.load({of_tile.place});
  const Partition from = x.partition({squeeze, m.block}), to = scaled.partition({squeeze, m.block});
  k.for_range(0, of_tile.blocks(k, x, m.block), 1, [&](const Scalar& b) {
    to.store({of_tile.place, b},
             where(f == 0.0f, 0.0f, from.load({row, b}).to(f32) * f).to(m.type));
  });
}

}  // namespace

bool has_exponentials(const CrossEntropyOptions& o) {
  const bool row_wise = !o.with_gradient || !(o.with_d_entropy || (o.smoothing && o.softcap));
  return o.type != f16 && row_wise;
}

LinearMatmul linear_matmul(const Machine& machine, const LinearCrossEntropyOptions& o) {
  const MatmulOptions lm_head{.transposes = Transposes::nt,
                              .cols = o.classes,
                              .width = o.cols,
                              .type = o.type,
                              .c_type = o.type,
                              .any_size = true};
  LinearMatmul made{.config = one_cta_product(machine, lm_head)};
  made.config.splits = 1;
  made.meta = matmul_meta(lm_head, made.config);
  return made;
}

namespace {

Meta row_meta(const Machine& machine, const LinearCrossEntropyOptions& o) {
  Meta meta{{o}};
  meta.without_logits = true, meta.without_d_logits = o.in_blocks, meta.in_blocks = o.in_blocks;
  meta.given = o.head_type, meta.cols = o.cols;
  meta.block = std::min<int64_t>(tile_width(o.cols), machine.is_gpu() ? 1024 : 4096);
  return meta;
}

Step row_step(const char* name, void (*build)(KernelBuilder&, const Meta&), const Meta& meta) {
  return record_step(name, meta.type, build, meta,
                     library_launch(Size::rows(), warps_for(meta.block, meta.type, 1, 8)));
}

}  // namespace

Step linear_label_logits(const Machine& machine, const LinearCrossEntropyOptions& o, bool anchors) {
  Meta meta = row_meta(machine, o);
  meta.anchors = anchors;
  return row_step("linear_label_logits", &label_logits, meta);
}

LinearCrossEntropy linear_cross_entropy(const Machine& machine,
                                        const LinearCrossEntropyOptions& o) {
  const LinearMatmul lm_head = linear_matmul(machine, o);
  LinearCrossEntropy made{.config = lm_head.config};
  Meta meta = row_meta(machine, o);
  meta.lm_head = lm_head.meta;
  made.label_logits = linear_label_logits(machine, o, true);
  const Size each = Size::rows();
  made.row_tiles = row_tiles(o.label_type, made.config.tile_m);
  const Size few = min(each, Size(machine.sms));
  made.exponentials =
      record_step("linear_exponentials", o.type, &exponentials, meta,
                  library_launch(made.config.persistent ? few : each, made.config.num_warps));
  Meta again = meta;
  again.recomputes = true;
  // Few rows are recomputed, so the kernel uses simple loads and stores.
  again.lm_head.tensor_copies = again.lm_head.tensor_stores = false;
  again.lm_head.persistent = true;
  made.again = record_step("linear_exponentials_again", o.type, &exponentials, again,
                           library_launch(machine.is_gpu() ? few : each, made.config.num_warps));
  made.overflows = row_step("linear_overflows", &overflows, meta);
  made.rows = row_step("linear_cross_entropy_rows", &rows, meta);
  if (o.scales_x) made.scaled_x = row_step("linear_scaled_x", &scaled_x, meta);
  return made;
}

}  // namespace ligerdsl::kernels
