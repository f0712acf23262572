// The log-sum-exp of rows that a loop reads block by block, each lane by itself, against double precision.
#include <cmath>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test {
namespace {

using kernels::Step;

constexpr int64_t kRows = 3;

void check(DType type, int64_t columns, int64_t block, int64_t lanes, int64_t run, int num_warps, int num_ctas) {
  SCOPED_TRACE(std::string(name(type)) + " of " + std::to_string(columns) + ", " + std::to_string(lanes) +
               " lanes of runs of " + std::to_string(run) + ", " + std::to_string(num_ctas) + " CTAs of " +
               std::to_string(num_warps) + " warps");
  KernelBuilder k("row_log_sum_exp");
  View y = k.view("y", f32, {dyn}), x = k.view("x", type, {dyn, columns});
  const Scalar row = k.program_id(0);
  const Partition blocks = x.partition({squeeze, block});
  auto [m, s] =
      k.for_range(0, ceil_div(columns, block), 1, carry(k.full({lanes}, -INFINITY, f32), k.zeros({lanes}, f32)),
                  [&](Scalar i, Tile m, Tile s) {
                    const Tile part = blocks.load({row, i}, {.pad = -INFINITY}).to(f32);
                    const OnlineSums next = accumulate(OnlineSums{m, s}, part, run);
                    return carry(next.m, next.s);
                  });
  y.store({row}, log_sum_exp(combine(OnlineSums{m, s})));
  Step step{.program = k.finish(), .launch = kernels::library_launch(kRows, num_warps)};
  step.launch.num_ctas = num_ctas;
  Tensor in = random_rows(type, kRows, columns, 29, 0, 5.0), out(f32, {kRows});
  in.set(columns + 1, 80.0);  // far above the others of its row
  backend().run({.steps = {step}}, kRows, Arguments().tensor("y", out).tensor("x", in));
  for (int64_t row = 0; row < kRows; ++row) {
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < columns; ++j) most = std::max(most, in.get(row * columns + j));
    for (int64_t j = 0; j < columns; ++j) sum += std::exp(in.get(row * columns + j) - most);
    EXPECT_NEAR(out.get(row), most + std::log(sum), 1e-5 * std::abs(most)) << row;
  }
}

TEST(OnlineSums, RowsOfSeveralBlocks) {
  const int64_t width = vector_width(bf16);
  check(bf16, 4 * 1024, 1024, 128 * width, 1, 4, 1);   // a lane for each element
  check(bf16, 5 * 4096, 4096, 128, width, 4, 1);       // a lane for each thread
  check(bf16, 3 * 4096 - 40, 4096, 128, width, 2, 2);  // the last block is cut
  check(f32, 2000, 512, 64, 1, 1, 1);
  check(f32, 96, 96, 16, 3, 2, 1);
  check(f16, 7, 64, 1, 1, 1, 1);  // one lane: what OnlineSum is
}

}  // namespace
}  // namespace ligerdsl::test
