// Tests pipelined loops in clusters with few threads. Such clusters lack registers, so loads are
// staged in shared memory. Some tiles change with the loop and some are loop-invariant. Loops run
// repeatedly or not at all. Numbers are small and whole, so every backend gives the interpreter's
// bits.
#include <functional>

#include "dsl/interpreter/interpreter.h"
#include "ligerdsl/dsl.h"
#include "program/print.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::staged_test {
namespace {

constexpr int64_t kRows = 12, kWidth = 8192;

Tensor whole_numbers(DType type, int64_t columns, unsigned seed) {
  Tensor tensor = Tensor::rows(type, kRows, columns);
  Random random(seed);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, static_cast<double>(random.below(5) - 2));
  return tensor;
}

// `build` gets x, w and y, each with kRows rows.
using Build = std::function<void(KernelBuilder&, const View& x, const View& w, const View& y)>;

void expect_interpreters_bits(DType type, int64_t columns, int num_ctas, int num_warps,
                              const Build& build) {
  KernelBuilder k("staged");
  View x = k.view("x", type, {dyn, columns}), w = k.view("w", type, {dyn, columns}),
       y = k.view("y", f32, {dyn, columns});
  build(k, x, w, y);
  kernels::Step step{.program = k.finish(), .launch = kernels::library_launch(2, num_warps)};
  step.launch.num_ctas = num_ctas;
  SCOPED_TRACE(std::to_string(num_ctas) + " CTAs of " + std::to_string(num_warps) + " warps\n" +
               program::print(step.program));
  Tensor rows = whole_numbers(type, columns, 1), weight = whole_numbers(type, columns, 2),
         expected = whole_numbers(f32, columns, 3), actual = whole_numbers(f32, columns, 3);
  interpreter::Arguments slots;
  for (Tensor* tensor : {&rows, &weight, &expected})
    slots.view(tensor->data(), tensor->type(), tensor->shape(), tensor->strides());
  interpreter::run(step.program, slots, {2, 1, 1}, {.round_every_op = true});
  ASSERT_NO_THROW(
      backend().run({.steps = {step}}, kRows,
                    Arguments().tensor("x", rows).tensor("w", weight).tensor("y", actual)));
  EXPECT_TRUE(actual.same_bits(expected));
  EXPECT_TRUE(actual.untouched_outside());
}

class Staged : public ::testing::TestWithParam<std::tuple<DType, int>> {};

// Inner loops have zero, one and more iterations. Each inner loop has another row as its invariant
// tile, which is 0 past the last row.
TEST_P(Staged, StationaryTilesOfRepeatedLoops) {
  const auto [type, stages] = GetParam();
  for (int64_t columns : {kWidth, kWidth - 24})
    for (auto [ctas, warps] : {std::pair(2, 1), {2, 2}, {4, 1}})
      expect_interpreters_bits(
          type, columns, ctas, warps,
          [&, stages = stages](KernelBuilder& k, const View& x, const View& w, const View& y) {
            const Partition rows = x.partition({1, kWidth}), weights = w.partition({1, kWidth}),
                            out = y.partition({1, kWidth});
            Scalar mine = k.program_id(0) * 6;
            k.for_range(0, 5, 1, [&](Scalar i) {
              auto [acc] = k.for_range(
                  i / 2, i, 1, pipelined(stages), carry(k.zeros({1, kWidth}, f32)),
                  [&](Scalar j, Tile acc) {
                    Tile t = rows.load({mine + j, 0}).to(f32);
                    Tile p = t * weights.load({mine + i * 2, 0}).to(f32) +
                             weights.load({i + 4, 0}).to(f32);
                    Tile total = min(max(sum(p, 1), -3.0f), 3.0f).expand_dims(1);
                    return carry(acc + p + total * weights.load({mine + i * 2, 0}).to(f32));
                  });
              Tile turned =
                  cumsum(acc.reshape({64, kWidth / 64}).permute({1, 0}), 1).reshape({1, kWidth});
              out.store({mine + i, 0}, turned + acc);
            });
          });
}

// The same weight is read by rows, as a tile of another shape, and transposed.
TEST_P(Staged, StationaryTilesReadInSeveralWays) {
  const auto [type, stages] = GetParam();
  for (auto [ctas, warps] : {std::pair(2, 1), {2, 2}, {4, 1}})
    expect_interpreters_bits(
        type, kWidth, ctas, warps,
        [&, stages = stages](KernelBuilder& k, const View& x, const View& w, const View& y) {
          const Partition rows = x.partition({1, kWidth}), weights = w.partition({1, kWidth}),
                          flat = w.partition({squeeze, kWidth}), out = y.partition({1, kWidth});
          Scalar mine = k.program_id(0) * 6;
          auto [acc] = k.for_range(
              0, 4, 1, pipelined(stages), carry(k.zeros({1, kWidth}, f32)),
              [&](Scalar j, Tile acc) {
                Tile t = rows.load({mine + j, 0}).to(f32);
                Tile g = weights.load({mine, 0}).to(f32), h = flat.load({mine, 0})
                                                                  .to(f32)
                                                                  .reshape({64, kWidth / 64})
                                                                  .permute({1, 0})
                                                                  .reshape({1, kWidth});
                k.if_(j % 2 == 0, [&] {
                  out.store({mine + j, 0}, t * g + weights.load({mine + 1, 0}).to(f32));
                });
                return carry(acc + t * g + h + sum(h * t, 1).expand_dims(1));
              });
          out.store({mine + 5, 0}, acc);
        });
}

INSTANTIATE_TEST_SUITE_P(TypesAndStages, Staged,
                         ::testing::Combine(::testing::Values(f32, bf16), ::testing::Values(2, 3)));

}  // namespace
}  // namespace ligerdsl::test::staged_test
