// Compares row reductions that a loop computes block by block, with separate state per lane, with
// double precision.
#include <cmath>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::online_sums_test {
namespace {

using kernels::Step;

constexpr int64_t kRows = 3;

struct Case {
  DType type;
  int64_t columns, block;
  BlockLanes lanes;
  int num_warps = 1, num_ctas = 1;
  bool scaled = false;  // scaled by a negative scalar
  int64_t counted = 0;  // first masked column, or 0 if none is masked
};

// y: log-sum-exp of a row. position: lowest column of the row's maximum.
void row_sums(KernelBuilder& k, const Case& c) {
  View y = k.view("y", f32, {dyn}), position = k.view("position", i32, {dyn}),
       x = k.view("x", c.type, {dyn, c.columns});
  Scalar scale = k.scalar("scale", f32) * M_LOG2E;
  const Scalar row = k.program_id(0);
  const Partition blocks = x.partition({squeeze, c.block});
  const Shape lanes = c.lanes.carried();
  auto [m, s, best, at] =
      k.for_range(0, ceil_div(c.columns, c.block), 1,
                  carry(k.full(lanes, -INFINITY, f32), k.zeros(lanes, f32),
                        k.full(lanes, -INFINITY, f32), k.zeros(lanes, i32)),
                  [&](Scalar i, Tile m, Tile s, Tile best, Tile at) {
                    const Tile part = blocks.load({row, i}, {.pad = -INFINITY}).to(f32);
                    OnlineOptions options;
                    if (c.scaled) options.scale_log2 = scale;
                    if (c.counted > 0) options.counts = i * c.block + k.arange(c.block) < c.counted;
                    const OnlineSums next = accumulate({m, s}, c.lanes, part, options);
                    const auto [value, place] = c.lanes.max_with_index(c.lanes.distribute(part));
                    const Tile better = value > best;
                    return carry(next.m, next.s, where(better, value, best),
                                 where(better, i * c.block + place, at));
                  });
  y.store({row}, log_sum_exp(combine(OnlineSums{m, s})));
  position.store({row}, reduce_min(where(best == reduce_max(best), at, INT32_MAX)));
}

void check(const Case& c) {
  SCOPED_TRACE(std::string(name(c.type)) + " of " + std::to_string(c.columns) + ", " +
               std::to_string(c.lanes.lanes) + " lanes of runs of " + std::to_string(c.lanes.run) +
               ", " + std::to_string(c.num_ctas) + " CTAs of " + std::to_string(c.num_warps) +
               " warps");
  KernelBuilder k("row_sums");
  row_sums(k, c);
  Step step{.program = k.finish(), .launch = kernels::library_launch(kRows, c.num_warps)};
  step.launch.num_ctas = c.num_ctas;
  const double scale = c.scaled ? -0.5 : 1.0;
  Tensor in = random_rows(c.type, kRows, c.columns, 29, 0, 5.0), out(f32, {kRows}),
         position(i32, {kRows});
  in.set(c.columns + 1, 80.0);  // far above the others of its row
  in.set(2 * c.columns - 2, 80.0);
  backend().run({.steps = {step}}, kRows,
                Arguments()
                    .tensor("y", out)
                    .tensor("position", position)
                    .tensor("x", in)
                    .number("scale", scale));
  const int64_t counted = c.counted > 0 ? c.counted : c.columns;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto at = [&](int64_t j) { return in.get(row * c.columns + j); };
    double most = -INFINITY, sum = 0;
    int64_t first = 0;
    for (int64_t j = 0; j < counted; ++j) most = std::max(most, scale * at(j));
    for (int64_t j = 0; j < counted; ++j) sum += std::exp(scale * at(j) - most);
    for (int64_t j = 1; j < c.columns; ++j) first = at(j) > at(first) ? j : first;
    EXPECT_NEAR(out.get(row), most + std::log(sum), 1e-5 * std::abs(most)) << row;
    EXPECT_EQ(position.get(row), static_cast<double>(first)) << row;
  }
}

TEST(OnlineSums, RowsOfSeveralBlocks) {
  const int64_t width = vector_width(bf16);
  const Target gpu = target_named("sm_90a");
  check({bf16, 4 * 1024, 1024, {.lanes = 1024}, 4});                  // a lane for each element
  check({bf16, 5 * 4096, 4096, block_lanes(gpu, bf16, 4096, 4), 4});  // a lane for each thread
  check({bf16,
         3 * 4096 - 40,
         4096,
         {.fold = 4, .lanes = 128, .run = width},
         2,
         2});  // the last block is partial
  check({f32, 2000, 512, block_lanes(gpu, f32, 512, 1, 1, false)});
  check({f32, 96, 96, {.fold = 2, .lanes = 16, .run = 3}, 2});
  check({f16, 7, 64, {.fold = 64}});  // one lane, as in OnlineSum
}

TEST(OnlineSums, RowsSplitOverCtas) {
  check({bf16, 3 * 4096, 4096, block_lanes(target_named("sm_90a"), bf16, 4096, 2, 2), 2, 2});
  check({f32, 2000, 512, {.fold = 2, .lanes = 32, .run = 4, .ctas = 2}, 1, 2});
  check({f32, 2000, 512, {.fold = 4, .lanes = 32, .ctas = 4}, 1, 4});
}

TEST(OnlineSums, ScaledAndMasked) {
  check({bf16, 4096, 1024, {.fold = 4, .lanes = 32, .run = 8}, 1, 1, true, 1500});
  check({f32, 2048, 512, {.fold = 1, .lanes = 32, .run = 8, .ctas = 2}, 1, 2, true});
  check({f32, 2048, 512, {.fold = 16, .lanes = 32}, 1, 1, false, 700});
}

}  // namespace
}  // namespace ligerdsl::test::online_sums_test
