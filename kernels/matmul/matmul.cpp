// c = round_C(f(alpha a_scale op(a) op(b) b_scale [+ outer_rows outer_cols] + bias) + beta c).
// Accumulators and the epilogue are f32.
//
// Flop 2 M N K. A program computes one tile of c, or loops over tiles. With splits it computes a
// part of a tile's k-steps, and matmul_finish adds the parts in order.
#include "kernels/matmul/matmul.h"

#include "kernels/core/index_view.h"
#include "kernels/core/program_tile.h"
#include "kernels/matmul/aligned_copy.h"
#include "kernels/matmul/matmul_tiles.h"
#include "kernels/matmul/row_tiles.h"
#include "kernels/matmul/split_wave.h"

namespace ligerdsl::kernels {
namespace {

// Returns the shape of a matrix, or of a batch of matrices.
Shape shape_of(const MatmulMeta& m, int64_t rows, int64_t cols) {
  return m.batch ? Shape{dyn, rows, cols} : Shape{rows, cols};
}

// Epilogue: converts accumulators to c and stores them.
class Finish {
 public:
  Finish(KernelBuilder& k, const MatmulMeta& m) : m_(m) {
    c_ = k.view("c", m.c_type,
                shape_of(m, m.transposed_a() ? m.known(m.width) : dyn, m.known(m.cols)));
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
  // row_place: index of the tile in row_scale, in tiles of `rows` rows.
  void store(Tile acc, int64_t rows, int64_t cols, const MatmulTiles::Place& at,
             const Scalar& row_place) const {
    const Scalar &row = at.row, &column = at.column;
    if (alpha_) acc = acc * *alpha_;
    if (a_scale_) acc = acc * a_scale_->partition({rows}).load({row}).expand_dims(1);
    if (b_scale_) acc = acc * b_scale_->partition({cols}).load({column}).expand_dims(0);
    if (row_scale_) {
      const Tile scale = row_scale_->partition({rows}).load({row_place}).expand_dims(1);
      acc = where(scale == 0.0f, 0.0f, acc * scale);
    }
    if (outer_rows_)
      acc = fma(outer_rows_->partition({rows}).load({row}).expand_dims(1),
                outer_cols_->partition({cols}).load({column}).expand_dims(0), acc);
    if (bias_) acc = acc + bias_->partition({cols}).load({column}).to(f32).expand_dims(0);
    if (m_.epilogue != Epilogue::none)
      acc = ActivationAt(static_cast<Activation>(static_cast<int>(m_.epilogue) - 1), acc).value();
    const Partition tiles =
        m_.batch ? c_->partition({squeeze, rows, cols}) : c_->partition({rows, cols});
    const Indices place = at.itself();
    if (m_.adds_in_memory) return tiles.add(place, acc, {.tensor_copies = m_.tensor_stores});
    if (m_.adds) {
      const Tile before = tiles.load(place).to(f32);
      acc = acc + (beta_ ? before * *beta_ : before);
    }
    tiles.store(place, acc.to(m_.c_type), {.tensor_copies = m_.tensor_stores});
  }

 private:
  const MatmulMeta& m_;
  std::optional<View> c_, bias_, a_scale_, b_scale_, row_scale_, outer_rows_, outer_cols_;
  std::optional<Scalar> alpha_, beta_;
};

View parts_of_wave(KernelBuilder& k, const MatmulMeta& m) {
  return k.view("partials", f32, {dyn, m.tile_m, m.tile_n},
                {.strides = {m.tile_m * m.tile_n, m.tile_n, 1}});
}

// Computes this program's part of the split wave, then its whole tiles. The loads of the whole
// tiles overlap with the store of the part.
void matmul_with_split_wave(KernelBuilder& k, const MatmulMeta& m, const MatmulTiles& tiles,
                            const Finish& finish) {
  const Partition parts = parts_of_wave(k, m).partition({squeeze, m.tile_m, m.tile_n});
  const SplitWave wave(m, tiles.count(), tiles.k_steps());
  const Scalar program = k.program_id(0), k_steps = tiles.k_steps().to(i32);
  const SplitWave::Part part = wave.part(program);
  const Scalar first_item = where(part.steps > 0, k.constant(0, i32), 1),
               whole_tiles = cdiv(max(wave.whole() - program, 0), m.programs);
  k.for_range(first_item, whole_tiles + 1, 1, [&](const Scalar& item) {
    const Scalar is_part = item == 0;
    const MatmulTiles::Place tile =
        tiles.at(where(is_part, wave.whole() + part.tile, program + (item - 1) * m.programs));
    // The k loop of every item begins at 0, so that loads of the next item can be issued ahead.
    const Scalar first = where(is_part, part.first, 0), steps = where(is_part, part.steps, k_steps);
    const Tile acc = accumulate_k_steps(
        k, m, k.constant(0, i32), steps,
        [&](const Scalar& k_step) { return tiles.left(tile, first + k_step); },
        [&](const Scalar& k_step) { return tiles.right(tile, first + k_step); });
    k.if_(
        is_part,
        [&] {
          parts.store({program, 0, 0}, acc);
        },
        [&] { finish.store(acc, m.tile_m, m.tile_n, tile, tile.row); });
  });
}

View partials_of(KernelBuilder& k, const MatmulMeta& m) {
  return k.view("partials", f32,
                {m.splits, m.transposed_a() ? m.known(m.width) : dyn, m.known(m.cols)});
}

// Computes the tiles of c if device values restrict the k-steps (some_depth) or the rows
// (row_tiles). A tile without counted rows has no k-steps: its epilogue gets an accumulator of 0.
void matmul_of_some(KernelBuilder& k, const MatmulMeta& m, const MatmulTiles& tiles,
                    const Finish& finish) {
  const Scalar none = k.constant(0, i64);
  Scalar first = none, end = tiles.k_steps();
  if (m.some_depth) {
    const View depth = k.view("depth", i32, {2});
    const auto k_step = [&](const Scalar& at) { return at.to(i64) / m.tile_k; };
    first = min(k_step(depth.load({0})), end);
    end = min(cdiv(depth.load({1}).to(i64), m.tile_k), end);
  }
  std::optional<View> places;
  if (m.row_tiles) places = k.view("places", i32, {dyn});
  tiles.each_place([&](const MatmulTiles::Place& tile) {
    if (!places)
      return finish.store(tiles.accumulate(tile, first, end), m.tile_m, m.tile_n, tile, tile.row);
    const RowTile rows(*places, tile.row);
    MatmulTiles::Place of_a = tile;
    of_a.row = rows.place;
    finish.store(tiles.accumulate(of_a, first, where(rows.counts, end, none)), m.tile_m, m.tile_n,
                 tile, of_a.row);
  });
}

// Computes c with zeros in place of ignored rows of b, because 0 times NaN or infinity is NaN.
// Usually no ignored row has such values, and every program ends at once.
void matmul_of_counted_rows(KernelBuilder& k, const MatmulMeta& m, const MatmulTiles& tiles,
                            const Finish& finish) {
  const View depth = k.view("depth", i32, {2});
  const Partition labels = index_view(k, "labels", m.label_type).partition({m.tile_k});
  const Scalar ignore_index = k.scalar("ignore_index", i64);
  const Shape shape{m.tile_k, m.tile_n};
  const auto make = [&](const MatmulTiles::Place& tile) {
    const Tile acc = accumulate_k_steps(
        k, m, k.constant(0, i64), tiles.k_steps(),
        [&](const Scalar& k_step) { return tiles.left(tile, k_step); },
        [&](const Scalar& k_step) {
          const Tile counts = labels.load({k_step}).to(i64) != ignore_index;
          return where(counts.expand_dims(1).broadcast_to(shape), tiles.right(tile, k_step),
                       k.zeros(shape, m.type));
        });
    finish.store(acc, m.tile_m, m.tile_n, tile, tile.row);
  };
  k.if_(depth.load({0}) > 0, [&] { tiles.each_place(make); });
}

}  // namespace

void matmul(KernelBuilder& k, const MatmulMeta& m) {
  const bool split = m.splits > 1;
  const int64_t width = m.known(m.width), cols_of_c = m.known(m.cols),
                depth = m.transposed_a() ? dyn : width;
  const View a = k.view(name_of(Operand::a, m.copied_a), m.type,
                        m.in_blocks ? Shape{dyn, dyn, dyn} : shape_of(m, dyn, width));
  const View b =
      k.view(name_of(Operand::b, m.copied_b), m.b_type(),
             m.transposed_b() ? shape_of(m, cols_of_c, depth) : shape_of(m, depth, cols_of_c));
  std::optional<Finish> finish;
  std::optional<View> partials;
  if (split)
    partials = partials_of(k, m);
  else
    finish.emplace(k, m);

  const int first_dim = m.batch || split ? 1 : 0;
  const View& made = split ? *partials : finish->c();
  const Scalar rows = made.dim(first_dim), cols = made.dim(first_dim + 1);
  const MatmulTiles tiles(k, m, a, b, rows, cols);
  if (m.ignores_rows) return matmul_of_counted_rows(k, m, tiles, *finish);
  if (m.some_depth || m.row_tiles) return matmul_of_some(k, m, tiles, *finish);
  if (m.most_split > 0) return matmul_with_split_wave(k, m, tiles, *finish);
  if (!split)
    return tiles.each([&](const MatmulTiles::Place& tile, const Tile& acc) {
      finish->store(acc, m.tile_m, m.tile_n, tile, tile.row);
    });
  const Scalar part = k.program_id(0) / tiles.count(), of_part = cdiv(tiles.k_steps(), m.splits),
               first = part.to(i64) * of_part;
  const MatmulTiles::Place tile = tiles.at(k.program_id(0) % tiles.count());
  partials->partition({squeeze, m.tile_m, m.tile_n})
      .store({part, tile.row, tile.column},
             tiles.accumulate(tile, first, min(first + of_part, tiles.k_steps())));
}

void matmul_finish(KernelBuilder& k, const MatmulMeta& m) {
  const View partials = partials_of(k, m);
  const Finish finish(k, m);
  const ProgramTile at(k, finish.c(), m);
  const Partition tiles = partials.partition({squeeze, m.rows, m.block});
  Tile acc = tiles.load({0, at.row(), at.column()});
  for (int part = 1; part < m.splits; ++part) acc = acc + tiles.load({part, at.row(), at.column()});
  finish.store(acc, m.rows, m.block, {at.row(), at.column(), {}}, at.row());
}

void matmul_finish_wave(KernelBuilder& k, const MatmulMeta& m) {
  const View partials = parts_of_wave(k, m);
  const Finish finish(k, m);
  const Scalar rows = cdiv(finish.c().dim(0), m.tile_m),
               columns = cdiv(finish.c().dim(1), m.tile_n);
  const Scalar depth = m.transposed_a()
                           ? k.view(name_of(Operand::a, m.copied_a), m.type, {dyn, m.width}).dim(0)
                           : k.constant(m.width, i64);
  const SplitWave wave(m, (rows * columns).to(i32), cdiv(depth, m.tile_k));
  // A program adds the parts of m.rows rows of a tile.
  const int64_t blocks = m.tile_m / m.rows;
  const Scalar tile = k.program_id(0) / blocks, block = k.program_id(0) % blocks;
  const Partition parts = partials.partition({squeeze, m.rows, m.tile_n});
  auto [acc] =
      k.for_range(k.constant(0, i32), wave.parts(), 1, carry(k.zeros({m.rows, m.tile_n}, f32)),
                  [&](const Scalar& part, const Tile& acc) {
                    const Scalar slot = wave.slot(tile, part);
                    return carry(acc + parts.load({slot, block, 0}));
                  });
  const TilePlace place = grouped_tiles(wave.whole() + tile, rows, columns, m.group);
  const Scalar row = place.row * blocks + block;
  finish.store(acc, m.rows, m.tile_n, {row, place.column, {}}, row);
}

}  // namespace ligerdsl::kernels
