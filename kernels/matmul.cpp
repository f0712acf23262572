// c = round_C(f(alpha op(a) op(b) + bias) + beta c); sums and the epilogue in f32.
//
// Flop 2 M N K. A program adds up one tile of c, or one after the other, or a part of a tile's turns along k, which
// matmul_finish adds in order.
#include "kernels/matmul.h"

#include "kernels/program_tile.h"

namespace ligerdsl::kernels {
namespace {

// What becomes of sums.
class Finish {
 public:
  Finish(KernelBuilder& k, const MatmulMeta& m) : m_(m) {
    c_ = k.view("c", m.c_type, {m.transposed_a() ? m.known(m.width) : dyn, m.known(m.cols)});
    if (m.has_bias) bias_ = k.view("bias", m.bias_type, {m.known(m.cols)});
    if (m.scaled) alpha_ = k.scalar("alpha", f32);
    if (m.adds) beta_ = k.scalar("beta", f32);
  }

  const View& c() const { return *c_; }
  void store(Tile sums, int64_t rows, int64_t cols, const Scalar& row, const Scalar& column) const {
    if (alpha_) sums = sums * *alpha_;
    if (bias_) sums = sums + bias_->partition({cols}).load({column}).to(f32).expand_dims(0);
    if (m_.epilogue != Epilogue::none)
      sums = ActivationAt(static_cast<Activation>(static_cast<int>(m_.epilogue) - 1), sums).value();
    const Partition tiles = c_->partition({rows, cols});
    if (beta_) sums = sums + tiles.load({row, column}).to(f32) * *beta_;
    tiles.store({row, column}, sums.to(m_.c_type));
  }

 private:
  const MatmulMeta& m_;
  std::optional<View> c_, bias_;
  std::optional<Scalar> alpha_, beta_;
};

View partials_of(KernelBuilder& k, const MatmulMeta& m) {
  return k.view("partials", f32, {m.splits, m.transposed_a() ? m.known(m.width) : dyn, m.known(m.cols)});
}

}  // namespace

void matmul(KernelBuilder& k, const MatmulMeta& m) {
  const bool split = m.splits > 1;
  const int64_t width = m.known(m.width), cols_of_c = m.known(m.cols), depth = m.transposed_a() ? dyn : width;
  const View a = k.view("a", m.type, {dyn, width});
  const View b = m.transposed_b() ? k.view("b", m.type, {cols_of_c, depth}) : k.view("b", m.type, {depth, cols_of_c});
  std::optional<Finish> finish;
  std::optional<View> partials;
  if (split)
    partials = partials_of(k, m);
  else
    finish.emplace(k, m);

  const Scalar rows = split ? partials->dim(1) : finish->c().dim(0),
               cols = split ? partials->dim(2) : finish->c().dim(1);
  const Scalar tiles_m = cdiv(rows, m.tile_m), tiles_n = cdiv(cols, m.tile_n);
  const Scalar turns = cdiv(a.dim(m.transposed_a() ? 0 : 1), m.tile_k);
  const Partition of_a = m.transposed_a() ? a.partition({m.tile_k, m.tile_m}) : a.partition({m.tile_m, m.tile_k}),
                  of_b = m.transposed_b() ? b.partition({m.tile_n, m.tile_k}) : b.partition({m.tile_k, m.tile_n});
  // Sums of the tile, of turns along k.
  const auto add_up = [&](const TilePlace& tile, const Scalar& first, const Scalar& end) {
    auto [sums] = k.for_range(first, end, 1, pipelined(m.stages), carry(k.zeros({m.tile_m, m.tile_n}, f32)),
                              [&](const Scalar& i, const Tile& sums) {
                                const Tile left = m.transposed_a() ? of_a.load({i, tile.row}).permute({1, 0})
                                                                   : of_a.load({tile.row, i}),
                                           right = m.transposed_b() ? of_b.load({tile.column, i}).permute({1, 0})
                                                                    : of_b.load({i, tile.column});
                                return carry(dot(left, right, sums));
                              });
    return Tile(sums);
  };
  const Scalar tiles = (tiles_m * tiles_n).to(i32);
  const auto make = [&](const Scalar& number) {
    const TilePlace tile = grouped_tiles(number, tiles_m, tiles_n, m.group);
    finish->store(add_up(tile, k.constant(0, i64), turns), m.tile_m, m.tile_n, tile.row, tile.column);
  };
  if (m.persistent) return k.for_range(k.program_id(0), tiles, k.num_programs(0), make);
  if (!split) return make(k.program_id(0));
  const Scalar part = k.program_id(0) / tiles, of_part = cdiv(turns, m.splits), first = part.to(i64) * of_part;
  const TilePlace tile = grouped_tiles(k.program_id(0) % tiles, tiles_m, tiles_n, m.group);
  partials->partition({squeeze, m.tile_m, m.tile_n})
      .store({part, tile.row, tile.column}, add_up(tile, first, min(first + of_part, turns)));
}

void matmul_finish(KernelBuilder& k, const MatmulMeta& m) {
  const View partials = partials_of(k, m);
  const Finish finish(k, m);
  const ProgramTile at(k, finish.c(), m);
  const Partition tiles = partials.partition({squeeze, m.rows, m.block});
  Tile sums = tiles.load({0, at.row(), at.column()});
  for (int part = 1; part < m.splits; ++part) sums = sums + tiles.load({part, at.row(), at.column()});
  finish.store(sums, m.rows, m.block, at.row(), at.column());
}

}  // namespace ligerdsl::kernels
