// A tile with a counted row is a counted tile. Its place is (counted tiles before it) + (all
// uncounted tiles). An uncounted tile's place is (uncounted tiles before it). A partial last tile
// keeps its place. Each program reads all labels, which is fast only up to about 10,000 rows.
#include "kernels/matmul/row_tiles.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/index_view.h"
#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kLabels = 4096;  // labels per iteration

struct Meta {
  DType label_type = i64;
  int64_t rows = 128;
};

void row_tiles(KernelBuilder& k, const Meta& m) {
  const View places = k.view("places", i32, {dyn}), tile_at = k.view("tile_at", i32, {dyn}),
             counted = k.view("counted", i32, {4}), labels = index_view(k, "labels", m.label_type);
  const Scalar ignore_index = k.scalar("ignore_index", i64);
  const auto rows = static_cast<int32_t>(m.rows);
  const int64_t together = kLabels / m.rows;
  const Scalar tile = k.program_id(0), n = labels.dim(0).to(i32), whole = n / rows;

  const Partition some = labels.partition({kLabels});
  const Tile none = k.zeros({together}, i32);
  // before, all: number of counted whole tiles before this tile, and in total. own, last: 1 if this
  // tile, or the partial last tile, is counted.
  const auto [before, all, own, last] = k.for_range(
      0, cdiv(labels.dim(0), kLabels), 1, carry(none, none, none, none),
      [&](const Scalar& b, const Tile& before, const Tile& all, const Tile& own, const Tile& last) {
        const Tile count = some.load({b}).to(i64) != ignore_index && some.inside({b});
        const Tile any = reduce_max(count.to(i32).reshape({together, m.rows}), 1);
        const Tile number = k.arange(together) + b.to(i32) * static_cast<int32_t>(together);
        const auto of = [&](const Tile& which) { return where(which, any, 0); };
        return carry(before + of(number < tile && number < whole), all + of(number < whole),
                     own + of(number == tile), last + of(number == whole));
      });
  const Scalar counts = sum(own) > 0, others = whole - sum(all), earlier = sum(before);
  const Scalar place = where(tile == whole, tile, where(counts, others + earlier, tile - earlier));
  places.store({tile}, where(counts, place, -1 - place));
  tile_at.store({place}, tile);
  k.if_(tile == 0, [&] {
    counted.store({0}, others * rows);
    counted.store({1}, where(sum(last) > 0, n, whole * rows));
    counted.store({2}, k.constant(0, i32));
    counted.store({3}, k.constant(INT32_MAX, i32));
  });
}

struct CheckMeta {
  DType type = bf16, label_type = i64;
  int64_t cols = 4096, block = 1024;
};

void check_ignored_rows(KernelBuilder& k, const CheckMeta& m) {
  constexpr int32_t kAfterAll = 1 << 30;
  const View depth = k.view("depth", i32, {2}), x = k.view("x", m.type, {dyn, m.cols});
  const View labels = index_view(k, "labels", m.label_type);
  const Scalar ignore_index = k.scalar("ignore_index", i64), row = k.program_id(0);
  const Partition blocks = x.partition({squeeze, m.block});
  k.if_(labels.load({row}).to(i64) == ignore_index, [&] {
    const auto [found] =
        k.for_range(0, cdiv(x.dim(1), m.block), 1, carry(k.zeros({m.block}, i32)),
                    [&](const Scalar& b, const Tile& found) {
                      const Tile is_finite = abs(blocks.load({row, b}).to(f32)) < INFINITY;
                      return carry(where(is_finite, found, 1));
                    });
    atomic_max(depth.ptr(), kAfterAll, reduce_max(found) > 0);
  });
}

}  // namespace

Step check_ignored_rows(const Machine& machine, DType type, int64_t cols, DType label_type) {
  CheckMeta meta{.type = type, .label_type = label_type, .cols = cols};
  meta.block = std::min<int64_t>(tile_width(cols), machine.is_gpu() ? 1024 : 4096);
  return record_step("check_ignored_rows", type, &check_ignored_rows, meta,
                     library_launch(Size::rows(), warps_for(meta.block, type, 1, 8)));
}

Step row_tiles(DType label_type, int64_t rows) {
  return record_step("row_tiles", label_type, &row_tiles, Meta{label_type, rows},
                     library_launch(Size::rows(), 8));
}

}  // namespace ligerdsl::kernels
