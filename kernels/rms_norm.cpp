// RMSNorm over rows of H elements; arithmetic in f32, T = type.
//
//   ms = mean(x^2), r = 1 / sqrt(ms + eps), w' = offset + weight (1 without a weight)
//   n  = round_T(x r) for llama, x r otherwise;  y = round_T(n w')
//
//   m = dy w';  dx = round_T(r (m - x r^2 mean(m x)));  dweight = sum over rows of dy n
//
// Bytes, s = sizeof(T): forward 2 n H s; backward 3 n H s and one f32 row of partial sums per program.
#include "kernels/rms_norm.h"

#include "kernels/norm_backward.h"
#include "kernels/record.h"
#include "kernels/reduce_partials.h"
#include "kernels/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

// Rows of a 2-D view cut into the kernel's tiles, read as f32.
struct Rows {
  Partition tiles;
  Rows(const View& view, const RmsNormMeta& m) : tiles(view.partition({m.rows, m.block})) {}
  Tile load(const Scalar& row, ScalarArg column) const { return tiles.load({row, column}).to(f32); }
  // One row, to be read twice.
  Resident keep(const Scalar& row) const {
    assume(row < tiles.view().dim(0));  // a program for each row
    return tiles.resident({row});
  }
  void store(const Scalar& row, ScalarArg column, const Tile& value) const {
    tiles.store({row, column}, value.to(tiles.view().dtype()));
  }
};

// The f32 weight w' of one block of columns as a [1, block] tile. What is read early is widened late: it waits in half
// the registers.
struct Weight {
  View view;
  Scalar offset;  // empty: 0
  int64_t block = 0;
  Tile read(ScalarArg column) const { return view.partition({block}).load({column}); }
  // The same for all rows that a CTA takes.
  Resident keep() const { return view.partition({block}).resident({}); }
  Tile widen(const Tile& raw) const { return (offset.empty() ? raw.to(f32) : raw.to(f32) + offset).expand_dims(0); }
  Tile load(ScalarArg column) const { return widen(read(column)); }
};

Tile normalised(const RmsNormMeta& m, const Tile& x, const Tile& rstd) {
  Tile n = x * rstd;
  return m.casting == Casting::llama ? n.to(m.type).to(f32) : n;
}

// The norm's input: x, or round(x + residual).
struct Input {
  Rows x;
  std::optional<Rows> residual;
  DType type;
  Tile load(const Scalar& row, ScalarArg column) const {
    return combined(x.load(row, column), residual ? residual->load(row, column) : Tile());
  }
  Tile combined(const Tile& value, const Tile& added) const {
    return added.empty() ? value : (value + added).to(type).to(f32);
  }
};

}  // namespace

void rms_norm_forward(KernelBuilder& k, const RmsNormMeta& m) {
  Rows y(k.view("y", m.type, {dyn, m.cols}), m);
  std::optional<Rows> sum_out, residual;
  if (m.residual) sum_out.emplace(k.view("sum", m.type, {dyn, m.cols}), m);
  View x_view = k.view("x", m.type, {dyn, m.cols});
  if (m.residual) residual.emplace(k.view("residual", m.type, {dyn, m.cols}), m);
  Weight weight{.block = m.block};
  if (m.has_weight) weight.view = k.view("weight", m.weight_type, {m.cols});
  View rstd_view;
  if (m.with_rstd) rstd_view = k.view("rstd", f32, {dyn});
  Scalar eps = k.scalar("eps", f32);
  if (m.has_weight && m.has_offset) weight.offset = k.scalar("offset", f32);

  const Input input{.x = Rows(x_view, m), .residual = residual, .type = m.type};
  Scalar row = k.program_id(0).to(i64);
  Scalar cols = x_view.dim(1);

  auto rstd_of = [&](const Tile& squares) {  // [rows], sums of x^2 -> [rows, 1]
    Tile rstd = rsqrt(squares * (1.0 / m.cols) + eps);
    if (m.with_rstd) rstd_view.partition({m.rows}).store({row}, rstd);
    return rstd.expand_dims(1);
  };
  auto finish = [&](const Tile& x, const Tile& w, const Tile& rstd, ScalarArg column) {
    if (m.residual) sum_out->store(row, column, x);
    Tile n = normalised(m, x, rstd);
    y.store(row, column, m.has_weight ? n * weight.widen(w) : n);
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
  Scalar blocks = cdiv(cols, m.block);
  const Resident kept_x = input.x.keep(row), kept_residual = residual ? residual->keep(row) : Resident();
  auto block_of = [&](const Scalar& b) {
    return input.combined(kept_x.load(b).to(f32), residual ? kept_residual.load(b).to(f32) : Tile());
  };
  auto [squares] = k.for_range(0, blocks, 1, carry(k.zeros({m.rows, m.block}, f32)), [&](Scalar b, Tile acc) {
    Tile x = block_of(b);
    return carry(fma(x, x, acc));
  });
  Tile rstd = rstd_of(sum(squares, 1));
  // Last block first: it is the one that the caches still hold.
  const Resident kept_weight = m.has_weight ? weight.keep() : Resident();
  k.for_range(0, blocks, 1, [&](Scalar i) {
    Scalar b = blocks - 1 - i;
    finish(block_of(b), m.has_weight ? kept_weight.load(b) : Tile(), rstd, b);
  });
}

void rms_norm_backward(KernelBuilder& k, const RmsNormMeta& m) {
  const bool partial_sums = m.want_d_weight && !m.looped;
  View d_x_view = k.view("d_x", m.type, {dyn, m.cols});
  View partials;
  if (partial_sums) partials = k.view("partials", f32, {dyn, m.cols});
  View d_y_view = k.view("d_y", m.type, {dyn, m.cols});
  View x_view = k.view(m.residual ? "sum" : "x", m.type, {dyn, m.cols});
  std::optional<Rows> d_sum;
  if (m.with_d_sum) d_sum.emplace(k.view("d_sum", m.type, {dyn, m.cols}), m);
  Weight weight{.block = m.block};
  if (m.has_weight) weight.view = k.view("weight", m.weight_type, {m.cols});
  View rstd_view = k.view("rstd", f32, {dyn});
  if (m.has_weight && m.has_offset) weight.offset = k.scalar("offset", f32);

  const Rows d_x(d_x_view, m), d_y(d_y_view, m), x_rows(x_view, m);
  Scalar cols = x_view.dim(1);
  auto load_rstd = [&](const Scalar& row) { return rstd_view.partition({m.rows}).load({row}).expand_dims(1); };
  auto gradient = [&](const Tile& x, const Tile& m_tile, const Tile& rstd, const Tile& correction) {
    return fma(x, correction, m_tile * rstd);  // correction = -r^3 mean(m x)
  };
  auto correction_of = [&](const Tile& products, const Tile& rstd) {  // [rows], sums of m x -> [rows, 1]
    return (products * (-1.0 / m.cols)).expand_dims(1) * rstd * rstd * rstd;
  };
  auto finish = [&](const Scalar& row, ScalarArg column, const Tile& gradient) {
    d_x.store(row, column, m.with_d_sum ? gradient + d_sum->load(row, column) : gradient);
  };

  if (m.looped) {
    Scalar row = k.program_id(0);
    Tile rstd = load_rstd(row);
    Scalar blocks = cdiv(cols, m.block);
    const Resident kept_d_y = d_y.keep(row), kept_x = x_rows.keep(row);
    auto x_of = [&](const Scalar& b) { return kept_x.load(b).to(f32); };
    auto weighted = [&](const Scalar& b) {
      Tile dy = kept_d_y.load(b).to(f32);
      return m.has_weight ? dy * weight.load(b) : dy;
    };
    auto [products] = k.for_range(0, blocks, 1, carry(k.zeros({m.rows, m.block}, f32)),
                                  [&](Scalar b, Tile acc) { return carry(fma(weighted(b), x_of(b), acc)); });
    Tile correction = correction_of(sum(products, 1), rstd);
    k.for_range(0, blocks, 1, [&](Scalar i) {
      Scalar b = blocks - 1 - i;
      finish(row, b, gradient(x_of(b), weighted(b), rstd, correction));
    });
    return;
  }

  // One program takes row blocks p, p + programs, ... and keeps its part of d_weight in registers.
  Tile kept_weight;
  if (m.has_weight && !m.reload_weight) kept_weight = weight.load(0);
  auto backward_rows = [&](const Scalar& row, const Tile& acc) {  // -> acc with this block's part of d_weight
    Tile x = x_rows.load(row, 0);
    Tile dy = d_y.load(row, 0);
    Tile rstd = load_rstd(row);
    Tile m_tile = !m.has_weight ? dy : dy * (m.reload_weight ? weight.load(0) : kept_weight);
    finish(row, 0, gradient(x, m_tile, rstd, correction_of(sum_products(m_tile, x, 1), rstd)));
    return partial_sums ? fma(dy, normalised(m, x, rstd), acc) : acc;
  };
  if (!partial_sums) {
    backward_rows(k.program_id(0), Tile());
    return;
  }
  Scalar first = k.program_id(0);
  auto [d_weight] = k.for_range(first, cdiv(x_view.dim(0), m.rows), k.num_programs(0), pipelined(m.stages),
                                carry(k.zeros({m.rows, m.block}, f32)),
                                [&](Scalar row, Tile acc) { return carry(backward_rows(row, acc)); });
  partials.partition({squeeze, m.block}).store({first, 0}, sum(d_weight, 0));
}

void rms_norm_d_weight(KernelBuilder& k, const RmsNormMeta& m) {
  View partials = k.view("partials", f32, {dyn, m.cols});
  const Rows d_y(k.view("d_y", m.type, {dyn, m.cols}), m);
  View x_view = k.view(m.residual ? "sum" : "x", m.type, {dyn, m.cols});
  View rstd_view = k.view("rstd", f32, {dyn});

  const Rows x_rows(x_view, m);
  Scalar blocks = cdiv(x_view.dim(1), m.block).to(i32);
  Scalar column = k.program_id(0) % blocks, part = k.program_id(0) / blocks;
  auto [d_weight] = k.for_range(part, cdiv(x_view.dim(0), m.rows), partials.dim(0), pipelined(2),
                                carry(k.zeros({m.rows, m.block}, f32)), [&](Scalar row, Tile acc) {
                                  Tile rstd = rstd_view.partition({m.rows}).load({row}).expand_dims(1);
                                  Tile n = normalised(m, x_rows.load(row, column), rstd);
                                  return carry(fma(d_y.load(row, column), n, acc));
                                });
  partials.partition({squeeze, m.block}).store({part, column}, sum(d_weight, 0));
}

namespace {

// 16-byte vectors of a row per thread. Measured on Hopper: two of rows that CTAs of up to 512 threads hold so, 1 to 2 %
// ahead of four (beside a residual only where those are 512); four of wider ones. With an odd factor of the width as
// many as that, and six rather than three where 512 threads would share the row: 180 and 192 us for 11008 columns of
// bf16 (6144 of f32 take 200, at 0.95 of the speed of a copy).
int64_t forward_vectors(const RmsNormOptions& options) {
  const int64_t vectors = tile_width(options.cols) / vector_width(options.type);
  if (vectors == 3 * 512 && !options.residual) return 4;
  const bool odd_factor = (vectors & (vectors - 1)) != 0;
  return odd_factor || vectors == 1024 || (vectors < 1024 && !options.residual) ? 2 : 4;
}

// How rows are shared. Measured on Hopper, 16384 rows of bf16: rows of 40 KiB are the widest that CTAs of 512 threads
// hold, two on an SM. A CTA of 1024 threads has an SM to itself, and nothing overlaps its reduction: 24576 columns take
// 445 us, shared by four CTAs 380; 29568 497 and 453; 32768 532 and 506. Beside a residual registers are as good.
RowParts forward_parts(const Machine& machine, const RmsNormOptions& options) {
  constexpr int64_t kHeldRow = 40 * 1024;
  const RowParts alone;
  if (!options.residual) return alone.of(machine, options.type, options.cols, kHeldRow + 1);
  return options.cols > kResidentWidth ? alone.of(machine, options.type, options.cols, kSharedRow, 2) : alone;
}

}  // namespace

Operation rms_norm_forward(const Machine& machine, const RmsNormOptions& options) {
  RmsNormMeta meta{options};
  const RowParts parts = forward_parts(machine, options);
  meta.looped = parts.shared() || options.cols > kResidentWidth;
  const TileShape tile = row_tile(machine, options.type, meta.looped ? kRowBlock : options.cols,
                                  meta.looped ? 2 : forward_vectors(options));
  meta.rows = meta.looped ? 1 : tile.rows;
  meta.block = tile.cols;
  // Two CTAs of 512 threads share an SM if a thread has 64 registers: four vectors of the row and of the weight.
  const int64_t held = tile.rows * tile.cols / (tile.num_warps * 32 * vector_width(options.type));
  const bool three_ctas = !meta.looped && tile.num_warps == 8 && held >= 6 && !options.residual;
  const bool crowded = tile.num_warps == 32 || (tile.num_warps == 16 && (held > 4 || options.residual)) || three_ctas;
  meta.early_weight = machine.is_gpu() && !crowded;
  if (parts.shared()) meta.block = parts.block;
  Launch launch = library_launch(ceil_div(Size::rows(), meta.rows), tile.num_warps);
  if (!meta.looped && tile.num_warps == 16 && (held <= 4 || !options.residual)) launch.min_ctas_per_sm = 2;
  // 80 registers hold six or seven vectors of the row, and the weight's once the row has been reduced.
  if (three_ctas) launch.min_ctas_per_sm = 3;
  // 32 registers hold two vectors of the row and of a weight of its type: 129 us for 16384 x 8192 of bf16, 131 with 40.
  if (!meta.looped && tile.num_warps == 16 && held == 2 && !options.residual && !options.has_offset &&
      (!options.has_weight || options.weight_type == options.type))
    launch.min_ctas_per_sm = 4;
  return row_operation(record_step(options.residual ? "fused_add_rms_norm_forward" : "rms_norm_forward", options.type,
                                   &rms_norm_forward, meta, std::move(launch), schedule_of(parts)),
                       parts);
}

Operation rms_norm_backward(const Machine& machine, const RmsNormOptions& options) {
  const char* name = options.residual ? "fused_add_rms_norm_backward" : "rms_norm_backward";
  const NormBackwardKernels<RmsNormMeta> kernels{
      .by_rows = {name, &rms_norm_backward},
      .by_columns = {"rms_norm_d_weight", &rms_norm_d_weight},
      .reduce =
          [&] { return reduce_partials(machine, "d_weight", options.d_weight_type, options.accumulate, options.cols); },
      .partials = {"partials"}};
  const NormBackwardShape shape{.type = options.type,
                                .cols = options.cols,
                                .sums = options.want_d_weight ? 1 : 0,
                                .inputs = options.with_d_sum ? 3 : 2};
  return norm_backward(machine, RmsNormMeta{options}, shape, kernels);
}

}  // namespace ligerdsl::kernels
