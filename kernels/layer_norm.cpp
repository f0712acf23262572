// LayerNorm over rows of H elements; arithmetic in f32, T = type.
//
//   mu = mean(x), v = mean((x - mu)^2), r = 1 / sqrt(v + eps);  y = round_T((x - mu) r weight + bias)
//
//   n = (x - mu) r, q = dy weight;  dx = round_T(r (q - n mean(n q) - mean(q)))
//   dweight = sum over rows of dy n;  dbias = sum over rows of dy
//
// The forward's statistics are one reduction (moments.h). Bytes, s = sizeof(T): forward 2 n H s; backward 3 n H s and
// two f32 rows of partial sums per program.
#include "kernels/layer_norm.h"

#include "kernels/moments.h"
#include "kernels/record.h"
#include "kernels/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

// Rows of a 2-D view cut into the kernel's tiles, read as f32.
struct Rows {
  Partition tiles;
  Rows(const View& view, const LayerNormMeta& m) : tiles(view.partition({m.rows, m.block})) {}
  Tile load(const Scalar& row, ScalarArg column) const { return tiles.load({row, column}).to(f32); }
  void store(const Scalar& row, ScalarArg column, const Tile& value) const {
    tiles.store({row, column}, value.to(tiles.view().dtype()));
  }
};

// One block of columns of weight or bias as a [1, block] tile.
Tile columns_of(const View& view, const LayerNormMeta& m, ScalarArg column) {
  return view.partition({m.block}).load({column}).to(f32).expand_dims(0);
}

// What the backward reads of the forward's statistics, as [rows, 1].
struct Statistics {
  View mean, rstd;
  Statistics(KernelBuilder& k) : mean(k.view("mean", f32, {dyn})), rstd(k.view("rstd", f32, {dyn})) {}
  Tile mean_of(const LayerNormMeta& m, const Scalar& row) const { return load(mean, m, row); }
  Tile rstd_of(const LayerNormMeta& m, const Scalar& row) const { return load(rstd, m, row); }

 private:
  static Tile load(const View& view, const LayerNormMeta& m, const Scalar& row) {
    return view.partition({m.rows}).load({row}).expand_dims(1);
  }
};

}  // namespace

void layer_norm_forward(KernelBuilder& k, const LayerNormMeta& m) {
  const Rows y(k.view("y", m.type, {dyn, m.cols}), m);
  View x_view = k.view("x", m.type, {dyn, m.cols});
  View weight = k.view("weight", m.weight_type, {m.cols});
  View bias = k.view("bias", m.weight_type, {m.cols});
  View mean_view, rstd_view;
  if (m.with_mean) mean_view = k.view("mean", f32, {dyn});
  if (m.with_rstd) rstd_view = k.view("rstd", f32, {dyn});
  Scalar eps = k.scalar("eps", f32);

  const Rows x(x_view, m);
  Scalar row = k.program_id(0);
  Scalar cols = x_view.dim(1);
  const bool compensated = m.type == f32;

  auto moments_of = [&](const Tile& block, const Scalar& b) {
    Tile inside;
    if (m.cols % m.block != 0) inside = (k.arange(m.block) < (cols - b * m.block).to(i32)).expand_dims(0);
    return lane_moments(k, block, inside, m.lanes, compensated);
  };
  struct Centre {
    Tile mean, low, rstd;  // [rows, 1]
  };
  auto centre_of = [&](const Moments<Tile>& lanes) {
    const Moments<Tile> all = row_moments(lanes);
    Tile rstd = rsqrt(all.m2 * (1.0 / m.cols) + eps);
    if (m.with_mean) mean_view.partition({m.rows}).store({row}, compensated ? all.mean + all.low : all.mean);
    if (m.with_rstd) rstd_view.partition({m.rows}).store({row}, rstd);
    return Centre{all.mean.expand_dims(1), compensated ? all.low.expand_dims(1) : Tile(), rstd.expand_dims(1)};
  };
  auto finish = [&](const Tile& block, const Centre& centre, ScalarArg b) {
    Tile from_mean = block - centre.mean;
    if (compensated) from_mean = from_mean - centre.low;
    Tile n = from_mean * centre.rstd;
    y.store(row, b, fma(n, columns_of(weight, m, b), columns_of(bias, m, b)));
  };

  if (!m.looped) {
    Tile whole = x.load(row, 0);
    finish(whole, centre_of(moments_of(whole, k.constant(0, i64))), 0);
    return;
  }
  Scalar blocks = cdiv(cols, m.block);
  const Moments<Tile> start = moments_of(x.load(row, 0), k.constant(0, i64));
  Moments<Tile> total;
  if (compensated) {
    auto [mean, low, m2, count] =
        k.for_range(1, blocks, 1, carry(start.mean, start.low, start.m2, start.count),
                    [&](Scalar b, Tile mean, Tile low, Tile m2, Tile count) {
                      const auto both = merged<Tile>({mean, low, m2, count}, moments_of(x.load(row, b), b));
                      return carry(both.mean, both.low, both.m2, both.count);
                    });
    total = {mean, low, m2, count};
  } else {
    auto [mean, m2, count] =
        k.for_range(1, blocks, 1, carry(start.mean, start.m2, start.count),
                    [&](Scalar b, Tile mean, Tile m2, Tile count) {
                      const auto both = merged<Tile>({mean, Tile(), m2, count}, moments_of(x.load(row, b), b));
                      return carry(both.mean, both.m2, both.count);
                    });
    total = {mean, Tile(), m2, count};
  }
  const Centre centre = centre_of(total);
  // Last block first: it is the one that the caches still hold.
  k.for_range(0, blocks, 1, [&](Scalar i) {
    Scalar b = blocks - 1 - i;
    finish(x.load(row, b), centre, b);
  });
}

void layer_norm_backward(KernelBuilder& k, const LayerNormMeta& m) {
  const bool partial_sums = m.want_d_weight && !m.looped;
  const Rows d_x(k.view("d_x", m.type, {dyn, m.cols}), m);
  View weight_partials, bias_partials;
  if (partial_sums) {
    weight_partials = k.view("weight_partials", f32, {dyn, m.cols});
    bias_partials = k.view("bias_partials", f32, {dyn, m.cols});
  }
  const Rows d_y(k.view("d_y", m.type, {dyn, m.cols}), m);
  View x_view = k.view("x", m.type, {dyn, m.cols});
  View weight = k.view("weight", m.weight_type, {m.cols});
  const Statistics statistics(k);

  const Rows x(x_view, m);
  Scalar cols = x_view.dim(1);
  auto mean_over_row = [&](const Tile& values) { return (sum(values, 1) * (1.0 / m.cols)).expand_dims(1); };
  auto gradient = [](const Tile& n, const Tile& q, const Tile& rstd, const Tile& mean_nq, const Tile& mean_q) {
    return fma(-n, mean_nq, q - mean_q) * rstd;
  };

  if (m.looped) {
    Scalar row = k.program_id(0);
    Tile mean = statistics.mean_of(m, row), rstd = statistics.rstd_of(m, row);
    Scalar blocks = cdiv(cols, m.block);
    auto normalised = [&](const Scalar& b) { return (x.load(row, b) - mean) * rstd; };
    auto weighted = [&](const Scalar& b) { return d_y.load(row, b) * columns_of(weight, m, b); };
    Tile zeros = k.zeros({m.rows, m.block}, f32);
    auto [sum_nq, sum_q] = k.for_range(0, blocks, 1, carry(zeros, zeros), [&](Scalar b, Tile sum_nq, Tile sum_q) {
      Tile q = weighted(b);
      return carry(fma(normalised(b), q, sum_nq), sum_q + q);
    });
    Tile mean_nq = mean_over_row(sum_nq), mean_q = mean_over_row(sum_q);
    k.for_range(0, blocks, 1, [&](Scalar i) {
      Scalar b = blocks - 1 - i;
      d_x.store(row, b, gradient(normalised(b), weighted(b), rstd, mean_nq, mean_q));
    });
    return;
  }

  // One program takes row blocks p, p + programs, ... and keeps its parts of d_weight and d_bias in registers.
  Tile kept = m.reload_weight ? Tile() : columns_of(weight, m, 0);
  struct Read {
    Tile d_y, n;
  };
  auto backward_rows = [&](const Scalar& row) {
    Tile rstd = statistics.rstd_of(m, row);
    Tile n = (x.load(row, 0) - statistics.mean_of(m, row)) * rstd;
    Tile dy = d_y.load(row, 0);
    Tile q = dy * (m.reload_weight ? columns_of(weight, m, 0) : kept);
    d_x.store(row, 0, gradient(n, q, rstd, mean_over_row(n * q), mean_over_row(q)));
    return Read{dy, n};
  };
  if (!partial_sums) {
    backward_rows(k.program_id(0));
    return;
  }
  Scalar first = k.program_id(0);
  Tile zeros = k.zeros({m.rows, m.block}, f32);
  auto [d_weight, d_bias] = k.for_range(first, cdiv(x_view.dim(0), m.rows), k.num_programs(0), pipelined(m.stages),
                                        carry(zeros, zeros), [&](Scalar row, Tile d_weight, Tile d_bias) {
                                          const Read read = backward_rows(row);
                                          return carry(fma(read.d_y, read.n, d_weight), d_bias + read.d_y);
                                        });
  weight_partials.partition({squeeze, m.block}).store({first, 0}, sum(d_weight, 0));
  bias_partials.partition({squeeze, m.block}).store({first, 0}, sum(d_bias, 0));
}

void layer_norm_d_weight(KernelBuilder& k, const LayerNormMeta& m) {
  View weight_partials = k.view("weight_partials", f32, {dyn, m.cols});
  View bias_partials = k.view("bias_partials", f32, {dyn, m.cols});
  const Rows d_y(k.view("d_y", m.type, {dyn, m.cols}), m);
  View x_view = k.view("x", m.type, {dyn, m.cols});
  const Statistics statistics(k);

  const Rows x(x_view, m);
  Scalar blocks = cdiv(x_view.dim(1), m.block).to(i32);
  Scalar column = k.program_id(0) % blocks, part = k.program_id(0) / blocks;
  Tile zeros = k.zeros({m.rows, m.block}, f32);
  auto [d_weight, d_bias] =
      k.for_range(part, cdiv(x_view.dim(0), m.rows), weight_partials.dim(0), pipelined(2), carry(zeros, zeros),
                  [&](Scalar row, Tile d_weight, Tile d_bias) {
                    Tile n = (x.load(row, column) - statistics.mean_of(m, row)) * statistics.rstd_of(m, row);
                    Tile dy = d_y.load(row, column);
                    return carry(fma(dy, n, d_weight), d_bias + dy);
                  });
  weight_partials.partition({squeeze, m.block}).store({part, column}, sum(d_weight, 0));
  bias_partials.partition({squeeze, m.block}).store({part, column}, sum(d_bias, 0));
}

// A program owns `block` columns. Lane r of its `rows` lanes adds partials r, r + rows, ... in order; the lanes are
// added last.
void layer_norm_reduce(KernelBuilder& k, const LayerNormMeta& m) {
  View d_weight = k.view("d_weight", m.d_weight_type, {m.cols});
  View d_bias = k.view("d_bias", m.d_weight_type, {m.cols});
  const Rows weight_partials(k.view("weight_partials", f32, {dyn, m.cols}), m);
  const Rows bias_partials(k.view("bias_partials", f32, {dyn, m.cols}), m);

  Scalar column = k.program_id(0);
  Tile zeros = k.zeros({m.rows, m.block}, f32);
  Scalar blocks = cdiv(weight_partials.tiles.view().dim(0), m.rows);
  auto [weights, biases] =
      k.for_range(0, blocks, 1, pipelined(2), carry(zeros, zeros), [&](Scalar i, Tile weights, Tile biases) {
        return carry(weights + weight_partials.load(i, column), biases + bias_partials.load(i, column));
      });
  auto finish = [&](const View& out, const Tile& lanes) {
    Tile total = sum(lanes, 0);
    auto target = out.partition({m.block});
    if (m.accumulate) total = total + target.load({column});
    target.store({column}, total.to(m.d_weight_type));
  };
  finish(d_weight, weights);
  finish(d_bias, biases);
}

namespace {

// The elements of a block that one lane owns are, on a GPU, those of one thread, so that merging parts is left for what
// crosses threads.
LaneShape lanes_of(const Machine& machine, const LayerNormMeta& m, int num_warps) {
  if (machine.target != Target::nvptx) return {.fold = m.rows == 1 && m.block % 1024 == 0 ? 8 : 1};
  const int64_t vector = vector_width(m.type);
  if (m.block % vector != 0) return {};
  const int64_t step = num_warps * 32 * vector;  // columns that all threads read at once
  return {.fold = m.rows == 1 && m.block % step == 0 ? m.block / step : 1, .vector = vector};
}

// Wider rows than this leave no room for the rows, the weight and both partial sums together.
constexpr int64_t kBackwardResidentWidth = 8192;

// Row groups that each keep partial rows: enough to fill the machine, few enough for a cheap reduction.
std::function<int64_t(int64_t)> partial_rows(const Machine& machine, int64_t tile_rows, int num_warps) {
  const bool gpu = machine.target == Target::nvptx;
  const int64_t most = gpu ? machine.processors * (num_warps <= 8 ? 2 : 1) : 64;
  const int64_t tiles_each = gpu ? 1 : 4;  // at least
  return [=](int64_t n) { return std::min(most, ceil_div(n, tile_rows * tiles_each)); };
}

Operation with_d_weight(const Machine& machine, const LayerNormOptions& options, std::vector<Launch> launches,
                        std::function<int64_t(int64_t)> parts) {
  const bool gpu = machine.target == Target::nvptx;
  LayerNormMeta meta{options};
  meta.rows = gpu ? 16 : 4;
  meta.block = gpu ? 64 : 256;
  Launch reduce{.program = record("layer_norm_reduce", options.d_weight_type, &layer_norm_reduce, meta),
                .num_warps = 8};
  reduce.grid = [blocks = ceil_div(options.cols, meta.block)](int64_t) { return grid_of(blocks); };
  launches.push_back(std::move(reduce));
  Operation op{.launches = std::move(launches)};
  for (const char* name : {"weight_partials", "bias_partials"}) {
    Scratch partials{.name = name, .dtype = f32};
    partials.shape = [parts, cols = options.cols](int64_t n) { return Extents{parts(n), cols}; };
    op.workspace.push_back(std::move(partials));
  }
  return op;
}

// Rows wider than a tile: d_x by rows, the parameters' gradients by blocks of columns.
Operation wide_backward(const Machine& machine, const LayerNormOptions& options) {
  LayerNormMeta meta{options};
  meta.looped = true;
  meta.block = kRowBlock;
  Launch d_x{.program = record("layer_norm_backward", options.type, &layer_norm_backward, meta),
             .num_warps = warps_for(kRowBlock, options.type, 2, 16)};
  d_x.grid = [](int64_t n) { return grid_of(n); };
  if (!options.want_d_weight) return {.launches = {d_x}};

  meta.block = 1024;
  meta.rows = 4;
  const auto parts = partial_rows(machine, 16 * meta.rows, 4);
  Launch d_weight{.program = record("layer_norm_d_weight", options.type, &layer_norm_d_weight, meta),
                  .num_warps = warps_for(meta.rows * meta.block, options.type, 2, 8)};
  d_weight.grid = [parts, blocks = ceil_div(options.cols, meta.block)](int64_t n) {
    return grid_of(parts(n) * blocks);
  };
  // d_weight reads d_y, which d_x may overwrite: it goes first.
  return with_d_weight(machine, options, {d_weight, d_x}, parts);
}

}  // namespace

Operation layer_norm_forward(const Machine& machine, const LayerNormOptions& options) {
  LayerNormMeta meta{options};
  meta.looped = options.cols > kResidentWidth;
  const TileShape tile = row_tile(machine, options.type, meta.looped ? kRowBlock : options.cols, meta.looped ? 2 : 4);
  meta.rows = meta.looped ? 1 : tile.rows;
  meta.block = tile.cols;
  meta.lanes = lanes_of(machine, meta, tile.num_warps);
  Launch launch{.program = record("layer_norm_forward", options.type, &layer_norm_forward, meta),
                .num_warps = tile.num_warps};
  launch.grid = [rows = meta.rows](int64_t n) { return grid_of(ceil_div(n, rows)); };
  return {.launches = {launch}};
}

Operation layer_norm_backward(const Machine& machine, const LayerNormOptions& options) {
  if (options.cols > kBackwardResidentWidth) return wide_backward(machine, options);
  TileShape tile = row_tile(machine, options.type, options.cols);
  // Rows, weight and partial sums of a thread share its registers: 8 elements of each, 16 where CTAs cannot grow.
  const int64_t vectors = std::max<int64_t>(1, 8 / vector_width(options.type));
  tile.num_warps = warps_for(tile.rows * tile.cols, options.type, vectors, 16);
  LayerNormMeta meta{options};
  meta.rows = tile.rows;
  meta.block = tile.cols;
  meta.stages = 2;
  meta.reload_weight = tile.cols > 4096;
  Launch launch{.program = record("layer_norm_backward", options.type, &layer_norm_backward, meta),
                .num_warps = tile.num_warps};
  if (!options.want_d_weight) {
    launch.grid = [rows = tile.rows](int64_t n) { return grid_of(ceil_div(n, rows)); };
    return {.launches = {launch}};
  }
  const auto parts = partial_rows(machine, tile.rows, tile.num_warps);
  launch.grid = [parts](int64_t n) { return grid_of(parts(n)); };
  return with_d_weight(machine, options, {launch}, parts);
}

}  // namespace ligerdsl::kernels
