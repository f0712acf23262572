// Tests persistent kernels whose matmuls have a different number of iterations for each tile, some
// of them zero. A tile's result depends only on its own iterations, not on the copies made ahead.
#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::tile_sequence_test {
namespace {

constexpr int64_t kTile = 64, kTiles = 9;

enum class End { counter, remainder, memory };

struct Sequence {
  End end;
  int64_t stages = 4, begin = 0, programs = 2;
  bool tensor = true;  // TMA copies
  std::vector<int64_t> ends = {};
};

int64_t end_of(const Sequence& s, int64_t tile) {
  return s.end == End::counter     ? tile
         : s.end == End::remainder ? tile % 4
                                   : s.ends[static_cast<size_t>(tile)];
}

// c[t] = sum over iterations i of x[t, i] x[t, i]^T, with tiles of 64 x 64.
void check(const Sequence& s, uint64_t seed) {
  SCOPED_TRACE("end " + std::to_string(static_cast<int>(s.end)) + " stages " +
               std::to_string(s.stages) + " begin " + std::to_string(s.begin) + " programs " +
               std::to_string(s.programs) + (s.tensor ? " tensor copies" : ""));
  constexpr int64_t kRows = kTile * kTiles, kWidth = kTile * kTiles;
  KernelBuilder k("sequence");
  const View c = k.view("c", f32, {dyn, kTile}), x = k.view("x", bf16, {dyn, kWidth}),
             ends = k.view("ends", i64, {dyn});
  LoopOptions loop = pipelined(static_cast<int>(s.stages));
  loop.tensor_copies = s.tensor;
  const Partition tiles = x.partition({kTile, kTile});
  k.for_range(k.program_id(0).to(i64), kTiles, k.num_programs(0).to(i64), [&](const Scalar& tile) {
    const Scalar end = s.end == End::counter     ? tile
                       : s.end == End::remainder ? tile % 4
                                                 : ends.load({tile});
    auto [sums] =
        k.for_range(k.constant(s.begin, i64), end, 1, loop, carry(k.zeros({kTile, kTile}, f32)),
                    [&](const Scalar& step, const Tile& sums) {
                      const Tile one = tiles.load({tile, step});
                      return carry(dot(one, one.permute({1, 0}), sums));
                    });
    c.partition({kTile, kTile}).store({tile, 0}, sums);
  });
  kernels::Step step{.program = k.finish(), .launch = kernels::library_launch(s.programs, 4)};
  step.launch.no_alias = true;

  Tensor sums(f32, {kRows, kTile});
  const Tensor operands = random_rows(bf16, kRows, kWidth, seed);
  const Tensor numbers =
      Tensor(i64, {kTiles}).fill(s.ends.empty() ? std::vector<int64_t>(kTiles, 0) : s.ends);
  backend().run({.steps = {step}}, 1,
                Arguments().tensor("c", sums).tensor("x", operands).tensor("ends", numbers));

  const Values values = operands.values();
  Values expected(kRows * kTile, 0.0);
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kTile; ++column)
      for (int64_t at = s.begin * kTile;
           at < std::clamp<int64_t>(end_of(s, row / kTile), 0, kTiles) * kTile; ++at)
        expected[row * kTile + column] +=
            values[row * kWidth + at] * values[(row / kTile * kTile + column) * kWidth + at];
  EXPECT_TRUE(close_normwise(sums.values(), expected, 1e-6));
}

TEST(TileSequence, IterationsFromCounterAndItsRemainder) {
  uint64_t seed = 1;
  for (const End end : {End::counter, End::remainder})
    for (const bool tensor : {true, false})
      for (const int64_t stages : {2, 3, 4})
        for (const int64_t begin : {0, 1})
          check({.end = end,
                 .stages = stages,
                 .begin = begin,
                 .programs = stages - 1,
                 .tensor = tensor},
                seed += 3);
}

// The first tiles, the last tiles, or several consecutive tiles have no iterations. Some ends are
// before the start, down to the smallest i64.
TEST(TileSequence, IterationsFromMemory) {
  uint64_t seed = 101;
  const std::vector<std::vector<int64_t>> all{{0, 0, 3, 0, 0, 0, 7, 1, 0},
                                              {9, 8, 7, 6, 5, 4, 3, 2, 1},
                                              {0, 0, 0, 0, 0, 0, 0, 0, 0},
                                              {-1, INT64_MIN, 2, -5, 4, INT64_MIN + 1, 0, 3, -9}};
  for (const std::vector<int64_t>& ends : all)
    for (const bool tensor : {true, false})
      for (const int64_t programs : {1, 4, 12})
        check({.end = End::memory, .programs = programs, .tensor = tensor, .ends = ends},
              seed += 3);
}

}  // namespace
}  // namespace ligerdsl::test::tile_sequence_test
