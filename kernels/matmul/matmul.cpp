// c = round_C(f(alpha a_scale op(a) op(b) b_scale [+ outer_rows outer_cols] + bias) + beta c); sums and the epilogue in f32.
//
// Flop 2 M N K. A program adds up one tile of c, or one after the other, or a part of a tile's turns along k, which
// matmul_finish adds in order.
#include "kernels/matmul/matmul.h"

#include "kernels/core/index_view.h"
#include "kernels/core/program_tile.h"
#include "kernels/matmul/product_tiles.h"
#include "kernels/matmul/row_tiles.h"

namespace ligerdsl::kernels {
namespace {

// Of a matrix, or of one for each product of a batch.
Shape shape_of(const MatmulMeta& m, int64_t rows, int64_t cols) {
  return m.batch ? Shape{dyn, rows, cols} : Shape{rows, cols};
}

// What becomes of sums.
class Finish {
 public:
  Finish(KernelBuilder& k, const MatmulMeta& m) : m_(m) {
    c_ = k.view("c", m.c_type, shape_of(m, m.transposed_a() ? m.known(m.width) : dyn, m.known(m.cols)));
    if (m.has_bias) bias_ = k.view("bias", m.bias_type, {m.known(m.cols)});
    const ViewOptions any_stride{.strides = {dyn}, .read_only = true};
    if (m.scaled_rows) a_scale_ = k.view("a_scale", f32, {dyn}, any_stride);
    if (m.scaled_cols) b_scale_ = k.view("b_scale", f32, {m.known(m.cols)}, any_stride);
    if (m.row_scale) row_scale_ = k.view("row_scale", f32, {dyn});
    if (m.outer) outer_rows_ = k.view("outer_rows", f32, {dyn});
    if (m.outer) outer_cols_ = k.view("outer_cols", f32, {m.known(m.cols)});
    if (m.scaled) alpha_ = k.scalar("alpha", f32);
    if (m.adds && !m.unit_beta) beta_ = k.scalar("beta", f32);
  }

  const View& c() const { return *c_; }
  // row_place: where a tile of rows stands in row_scale.
  void store(Tile sums, int64_t rows, int64_t cols, const ProductTiles::Place& at, const Scalar& row_place) const {
    const Scalar &row = at.row, &column = at.column;
    if (alpha_) sums = sums * *alpha_;
    if (a_scale_) sums = sums * a_scale_->partition({rows}).load({row}).expand_dims(1);
    if (b_scale_) sums = sums * b_scale_->partition({cols}).load({column}).expand_dims(0);
    if (row_scale_) {
      const Tile scale = row_scale_->partition({rows}).load({row_place}).expand_dims(1);
      sums = where(scale == 0.0f, 0.0f, sums * scale);
    }
    if (outer_rows_)
      sums = fma(outer_rows_->partition({rows}).load({row}).expand_dims(1),
                 outer_cols_->partition({cols}).load({column}).expand_dims(0), sums);
    if (bias_) sums = sums + bias_->partition({cols}).load({column}).to(f32).expand_dims(0);
    if (m_.epilogue != Epilogue::none)
      sums = ActivationAt(static_cast<Activation>(static_cast<int>(m_.epilogue) - 1), sums).value();
    const Partition tiles = m_.batch ? c_->partition({squeeze, rows, cols}) : c_->partition({rows, cols});
    const Indices place = at.itself();
    if (m_.adds_in_memory) return tiles.add(place, sums, {.tensor_copies = m_.tensor_stores});
    if (m_.adds) {
      const Tile before = tiles.load(place).to(f32);
      sums = sums + (beta_ ? before * *beta_ : before);
    }
    tiles.store(place, sums.to(m_.c_type), {.tensor_copies = m_.tensor_stores});
  }

 private:
  const MatmulMeta& m_;
  std::optional<View> c_, bias_, a_scale_, b_scale_, row_scale_, outer_rows_, outer_cols_;
  std::optional<Scalar> alpha_, beta_;
};

View partials_of(KernelBuilder& k, const MatmulMeta& m) {
  return k.view("partials", f32, {m.splits, m.transposed_a() ? m.known(m.width) : dyn, m.known(m.cols)});
}

// A tile of c of which the device's numbers say what is multiplied: of one of no turns nothing, and the factors at its place are 0.
void some_of(KernelBuilder& k, const MatmulMeta& m, const ProductTiles& tiles, const Finish& finish) {
  const Scalar none = k.constant(0, i64);
  Scalar first = none, end = tiles.turns();
  if (m.some_depth) {
    const View depth = k.view("depth", i32, {2});
    const auto turn = [&](const Scalar& at) { return at.to(i64) / m.tile_k; };
    first = min(turn(depth.load({0})), end);
    end = min(cdiv(depth.load({1}).to(i64), m.tile_k), end);
  }
  std::optional<View> places;
  if (m.row_tiles) places = k.view("places", i32, {dyn});
  tiles.each_place([&](const ProductTiles::Place& tile) {
    if (!places) return finish.store(tiles.sums(tile, first, end), m.tile_m, m.tile_n, tile, tile.row);
    const RowTile rows(*places, tile.row);
    ProductTiles::Place of_a = tile;
    of_a.row = rows.place;
    finish.store(tiles.sums(of_a, first, where(rows.counts, end, none)), m.tile_m, m.tile_n, tile, of_a.row);
  });
}

// Selects zeros in ignored rows of b: 0 times a number that is no number is none either. Mostly no row needs it, and
// every program ends at once.
void of_counted_rows(KernelBuilder& k, const MatmulMeta& m, const ProductTiles& tiles, const Finish& finish) {
  const View depth = k.view("depth", i32, {2});
  const Partition labels = index_view(k, "labels", m.label_type).partition({m.tile_k});
  const Scalar ignore_index = k.scalar("ignore_index", i64);
  const Shape shape{m.tile_k, m.tile_n};
  const auto make = [&](const ProductTiles::Place& tile) {
    const Tile sums = sums_of_turns(
        k, m, k.constant(0, i64), tiles.turns(), [&](const Scalar& turn) { return tiles.left(tile, turn); },
        [&](const Scalar& turn) {
          const Tile counts = labels.load({turn}).to(i64) != ignore_index;
          return where(counts.expand_dims(1).broadcast_to(shape), tiles.right(tile, turn), k.zeros(shape, m.type));
        });
    finish.store(sums, m.tile_m, m.tile_n, tile, tile.row);
  };
  k.if_(depth.load({0}) > 0, [&] { tiles.each_place(make); });
}

}  // namespace

void matmul(KernelBuilder& k, const MatmulMeta& m) {
  const bool split = m.splits > 1;
  const int64_t width = m.known(m.width), cols_of_c = m.known(m.cols), depth = m.transposed_a() ? dyn : width;
  const View a = k.view("a", m.type, m.in_blocks ? Shape{dyn, dyn, dyn} : shape_of(m, dyn, width));
  const View b =
      k.view("b", m.b_type(), m.transposed_b() ? shape_of(m, cols_of_c, depth) : shape_of(m, depth, cols_of_c));
  std::optional<Finish> finish;
  std::optional<View> partials;
  if (split)
    partials = partials_of(k, m);
  else
    finish.emplace(k, m);

  const int first_dim = m.batch || split ? 1 : 0;
  const View& made = split ? *partials : finish->c();
  const Scalar rows = made.dim(first_dim), cols = made.dim(first_dim + 1);
  const ProductTiles tiles(k, m, a, b, rows, cols);
  if (m.ignores_rows) return of_counted_rows(k, m, tiles, *finish);
  if (m.some_depth || m.row_tiles) return some_of(k, m, tiles, *finish);
  if (!split)
    return tiles.each([&](const ProductTiles::Place& tile, const Tile& sums) {
      finish->store(sums, m.tile_m, m.tile_n, tile, tile.row);
    });
  const Scalar part = k.program_id(0) / tiles.count(), of_part = cdiv(tiles.turns(), m.splits),
               first = part.to(i64) * of_part;
  const ProductTiles::Place tile = tiles.at(k.program_id(0) % tiles.count());
  partials->partition({squeeze, m.tile_m, m.tile_n})
      .store({part, tile.row, tile.column}, tiles.sums(tile, first, min(first + of_part, tiles.turns())));
}

void matmul_finish(KernelBuilder& k, const MatmulMeta& m) {
  const View partials = partials_of(k, m);
  const Finish finish(k, m);
  const ProgramTile at(k, finish.c(), m);
  const Partition tiles = partials.partition({squeeze, m.rows, m.block});
  Tile sums = tiles.load({0, at.row(), at.column()});
  for (int part = 1; part < m.splits; ++part) sums = sums + tiles.load({part, at.row(), at.column()});
  finish.store(sums, m.rows, m.block, {at.row(), at.column(), {}}, at.row());
}

}  // namespace ligerdsl::kernels
