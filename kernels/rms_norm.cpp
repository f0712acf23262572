// RMSNorm over rows of H elements; arithmetic in f32, T = type.
//
//   ms = mean(x^2), r = 1 / sqrt(ms + eps), w' = offset + weight (1 without a weight)
//   n  = round_T(x r) for llama, x r otherwise;  y = round_T(n w')
//
//   m = dy w';  dx = round_T(r (m - x r^2 mean(m x)));  dweight = sum over rows of dy n
//
// Bytes, s = sizeof(T): forward 2 n H s; backward 3 n H s and one f32 row of partial sums per program.
#include "kernels/rms_norm.h"

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
    Tile value = x.load(row, column);
    return residual ? (value + residual->load(row, column)).to(type).to(f32) : value;
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
  Scalar row = k.program_id(0);
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
  auto [squares] = k.for_range(0, blocks, 1, carry(k.zeros({m.rows, m.block}, f32)), [&](Scalar b, Tile acc) {
    Tile x = input.load(row, b);
    return carry(fma(x, x, acc));
  });
  Tile rstd = rstd_of(sum(squares, 1));
  // Last block first: it is the one that the caches still hold.
  k.for_range(0, blocks, 1, [&](Scalar i) {
    Scalar b = blocks - 1 - i;
    finish(input.load(row, b), m.has_weight ? weight.read(b) : Tile(), rstd, b);
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
    return fma(-x, correction, m_tile) * rstd;  // correction = r^2 mean(m x)
  };
  auto correction_of = [&](const Tile& products, const Tile& rstd) {  // [rows], sums of m x -> [rows, 1]
    return rstd * rstd * (products * (1.0 / m.cols)).expand_dims(1);
  };
  auto finish = [&](const Scalar& row, ScalarArg column, const Tile& gradient) {
    d_x.store(row, column, m.with_d_sum ? gradient + d_sum->load(row, column) : gradient);
  };

  if (m.looped) {
    Scalar row = k.program_id(0);
    Tile rstd = load_rstd(row);
    Scalar blocks = cdiv(cols, m.block);
    auto weighted = [&](const Tile& dy, const Scalar& b) { return m.has_weight ? dy * weight.load(b) : dy; };
    auto [products] = k.for_range(0, blocks, 1, carry(k.zeros({m.rows, m.block}, f32)), [&](Scalar b, Tile acc) {
      return carry(fma(weighted(d_y.load(row, b), b), x_rows.load(row, b), acc));
    });
    Tile correction = correction_of(sum(products, 1), rstd);
    k.for_range(0, blocks, 1, [&](Scalar i) {
      Scalar b = blocks - 1 - i;
      finish(row, b, gradient(x_rows.load(row, b), weighted(d_y.load(row, b), b), rstd, correction));
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

// 16-byte vectors of a row per thread. Measured on Hopper: 128 threads are enough for 4096 columns of bf16, narrower
// rows want all of them busy; 256 threads with four vectors each lose 2 % to 512 with two.
int64_t forward_vectors(const RmsNormOptions& options) {
  const int64_t vectors = tile_width(options.cols) / vector_width(options.type);
  if ((vectors & (vectors - 1)) != 0) return 2;  // the odd factor of the width: 3, 5 or 7
  return vectors <= 256 || vectors == 1024 ? 2 : 4;
}

}  // namespace

Operation rms_norm_forward(const Machine& machine, const RmsNormOptions& options) {
  RmsNormMeta meta{options};
  meta.looped = options.cols > kResidentWidth;
  const TileShape tile = row_tile(machine, options.type, meta.looped ? kRowBlock : options.cols,
                                  meta.looped ? 2 : forward_vectors(options));
  meta.rows = meta.looped ? 1 : tile.rows;
  meta.block = tile.cols;
  meta.early_weight = machine.target == Target::nvptx && tile.num_warps < 32;
  Launch launch{.program = record(options.residual ? "fused_add_rms_norm_forward" : "rms_norm_forward", options.type,
                                  &rms_norm_forward, meta),
                .num_warps = tile.num_warps};
  launch.grid = [rows = meta.rows](int64_t n) { return grid_of(ceil_div(n, rows)); };
  return {.launches = {launch}};
}

namespace {

// Wider rows than this leave no room for the rows, the weight and the partial sums together.
constexpr int64_t kBackwardResidentWidth = 16384;

// A thread of a GPU holds elements of its rows, of the next rows, of the weight and of the partial sums: 16 of 2 bytes
// or 8 of 4. A CTA of 512 threads has the registers for that; short rows share it. 8192 elements of 2 bytes run best
// with 1024 threads, as long as there is no third input. Rows beyond 16 KB give each thread more, and leave the weight
// and the next rows in the caches.
TileShape backward_tile(const Machine& machine, const RmsNormOptions& options) {
  TileShape tile = row_tile(machine, options.type, options.cols);
  const int64_t bytes = size_of(options.type);
  const int64_t most = machine.target == Target::nvptx ? 512 * 32 / bytes : 0;
  while (tile.rows * 2 * tile.cols <= most) tile.rows *= 2;
  const bool single = tile.cols == 8192 && bytes == 2 && !options.with_d_sum;
  const int most_warps = single || tile.cols * bytes > 32768 ? 32 : 16;
  tile.num_warps = warps_for(tile.rows * tile.cols, options.type, single ? 1 : 2, most_warps);
  return tile;
}

// Row groups that each keep one partial row: enough to fill the machine, few enough for a cheap reduction.
std::function<int64_t(int64_t)> partial_rows(const Machine& machine, int64_t tile_rows, int per_processor) {
  const bool gpu = machine.target == Target::nvptx;
  const int64_t most = gpu ? machine.processors * per_processor : 64;
  const int64_t tiles_each = gpu ? 1 : 4;  // at least
  return [=](int64_t n) { return std::min(most, ceil_div(n, tile_rows * tiles_each)); };
}

Launch backward_launch(const RmsNormMeta& meta, int num_warps) {
  return {.program = record(meta.residual ? "fused_add_rms_norm_backward" : "rms_norm_backward", meta.type,
                            &rms_norm_backward, meta),
          .num_warps = num_warps};
}

Operation with_d_weight(const Machine& machine, const RmsNormOptions& options, std::vector<Launch> launches,
                        std::function<int64_t(int64_t)> parts) {
  launches.push_back(reduce_partials(machine, "d_weight", options.d_weight_type, options.accumulate, options.cols));
  Scratch partials{.name = "partials", .dtype = f32};
  partials.shape = [parts, cols = options.cols](int64_t n) { return Extents{parts(n), cols}; };
  return {.launches = std::move(launches), .workspace = {partials}};
}

// Rows wider than a tile: d_x by rows, d_weight by blocks of columns.
Operation wide_backward(const Machine& machine, const RmsNormOptions& options) {
  RmsNormMeta meta{options};
  meta.looped = true;
  meta.block = kRowBlock;
  Launch d_x = backward_launch(meta, warps_for(kRowBlock, options.type, 2, 16));
  d_x.grid = [](int64_t n) { return grid_of(n); };
  if (!options.want_d_weight) return {.launches = {d_x}};

  meta.block = 1024;
  meta.rows = 4;
  const auto parts = partial_rows(machine, 16 * meta.rows, 2);
  Launch d_weight{.program = record("rms_norm_d_weight", options.type, &rms_norm_d_weight, meta),
                  .num_warps = warps_for(meta.rows * meta.block, options.type, 2, 8)};
  d_weight.grid = [parts, blocks = ceil_div(options.cols, meta.block)](int64_t n) {
    return grid_of(parts(n) * blocks);
  };
  // d_weight reads d_y, which d_x may overwrite: it goes first.
  return with_d_weight(machine, options, {d_weight, d_x}, parts);
}

}  // namespace

Operation rms_norm_backward(const Machine& machine, const RmsNormOptions& options) {
  if (options.cols > kBackwardResidentWidth) return wide_backward(machine, options);
  const TileShape tile = backward_tile(machine, options);
  RmsNormMeta meta{options};
  meta.rows = tile.rows;
  meta.block = tile.cols;
  meta.reload_weight = tile.cols > 8192;
  meta.stages = 2;
  Launch launch = backward_launch(meta, tile.num_warps);
  if (!options.want_d_weight) {
    launch.grid = [rows = tile.rows](int64_t n) { return grid_of(ceil_div(n, rows)); };
    return {.launches = {launch}};
  }
  const auto parts = partial_rows(machine, tile.rows, 1);
  launch.grid = [parts](int64_t n) { return grid_of(parts(n)); };
  return with_d_weight(machine, options, {launch}, parts);
}

}  // namespace ligerdsl::kernels
