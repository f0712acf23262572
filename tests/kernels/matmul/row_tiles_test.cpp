#include "kernels/matmul/row_tiles.h"

#include "tests/kernels/shapes.h"

namespace ligerdsl::test::row_tiles_test {
namespace {

constexpr int64_t kRows = 64, kIgnored = -100;

// Expects whole tiles without a counted row first, then all other tiles. A partial last tile stays
// last.
void run_and_check(const std::vector<int64_t>& labels, DType label_type, int64_t stride) {
  const auto n = static_cast<int64_t>(labels.size()), tiles = (n + kRows - 1) / kRows,
             whole = n / kRows;
  std::vector<bool> counts(tiles);
  for (int64_t i = 0; i < n; ++i)
    if (labels[i] != kIgnored) counts[i / kRows] = true;
  Values places(tiles), tile_at(tiles);
  int64_t next = 0;
  for (const bool counted : {false, true}) {
    for (int64_t tile = 0; tile < whole; ++tile)
      if (counts[tile] == counted) places[tile] = counted ? next++ : -1 - next++;
  }
  if (whole < tiles) places[whole] = counts[whole] ? whole : -1 - whole;
  for (int64_t tile = 0; tile < tiles; ++tile)
    tile_at[places[tile] < 0 ? -1 - places[tile] : places[tile]] = tile;
  int64_t others = 0;
  for (int64_t tile = 0; tile < whole; ++tile) others += !counts[tile];
  const int64_t end = whole < tiles && !counts[whole] ? whole * kRows : n;

  Tensor made(i32, {tiles}), inverse(i32, {tiles}), counted(i32, {4}),
      given = Tensor(label_type, {n}, {stride}).fill(labels);
  kernels::Operation operation;
  operation.steps.push_back(kernels::row_tiles(label_type, kRows));
  backend().run(operation, tiles,
                Arguments()
                    .tensor("places", made)
                    .tensor("tile_at", inverse)
                    .tensor("counted", counted)
                    .tensor("labels", given)
                    .integer("ignore_index", kIgnored));
  EXPECT_EQ(made.values(), places) << n << " labels";
  EXPECT_EQ(inverse.values(), tile_at);
  EXPECT_EQ(counted.values(), (Values{others * 1.0 * kRows, end * 1.0, 0, INT32_MAX}));
  EXPECT_TRUE(made.untouched_outside() && inverse.untouched_outside() &&
              counted.untouched_outside());
}

// Covers few labels, and more labels than a program reads at once.
TEST(RowTiles, PlacesOfSegments) {
  for (const int64_t n : {1, 63, 64, 65, 640, 700, 4096, 4160, 9001}) {
    for (const int64_t period : {1, 2, 5, 1000}) {  // one of `period` tiles has a counted row
      Random random(5);
      std::vector<int64_t> labels(n, kIgnored);
      for (int64_t tile = 0; tile * kRows < n; ++tile)
        if (tile % period == period / 2)
          labels[std::min(tile * kRows + random.below(kRows), n - 1)] = random.below(9);
      run_and_check(labels, i64, 1);
      run_and_check(labels, i32, 3);
    }
  }
}

// A row whose label is not a class has a gradient, so it counts.
TEST(RowTiles, OneRowIsEnough) {
  for (const int64_t row : {0, 63, 64, 127, 128, 150}) {
    std::vector<int64_t> labels(151, kIgnored);
    labels[row] = -7;
    run_and_check(labels, i64, 1);
  }
}

}  // namespace
}  // namespace ligerdsl::test::row_tiles_test
