// Tests loops that carry a sum, maximum or minimum of rows. On a GPU each thread keeps its own
// partial result until the loop ends. Numbers are small and whole, so every backend gives the
// interpreter's bits.
#include <functional>

#include "dsl/interpreter/interpreter.h"
#include "ligerdsl/dsl.h"
#include "program/print.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::carried_reductions_test {
namespace {

constexpr int64_t kRows = 8, kBlock = 512, kColumns = 4 * kBlock - 24;  // the last block is partial

Tensor whole_numbers(DType type, int64_t columns, unsigned seed) {
  Tensor tensor = Tensor::rows(type, kRows, columns);
  Random random(seed);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, static_cast<double>(random.below(9) - 4));
  return tensor;
}

// `build` gets x [kRows, kColumns] and y [kRows, 8]. Two programs process four rows each.
using Build = std::function<void(KernelBuilder&, const View& x, const View& y)>;

void expect_interpreters_bits(DType type, int num_ctas, int num_warps, const Build& build) {
  KernelBuilder k("carried");
  View y = k.view("y", type, {dyn, 8}), x = k.view("x", type, {dyn, kColumns});
  build(k, x, y);
  kernels::Step step{.program = k.finish(), .launch = kernels::library_launch(2, num_warps)};
  step.launch.num_ctas = num_ctas;
  SCOPED_TRACE(std::to_string(num_ctas) + " CTAs of " + std::to_string(num_warps) + " warps\n" +
               program::print(step.program));
  Tensor rows = whole_numbers(type, kColumns, 1), expected = whole_numbers(type, 8, 2),
         actual = expected.clone();
  interpreter::Arguments slots;
  for (Tensor* tensor : {&expected, &rows})
    slots.view(tensor->data(), tensor->type(), tensor->shape(), tensor->strides());
  interpreter::run(step.program, slots, {2, 1, 1}, {.round_every_op = true});
  ASSERT_NO_THROW(
      backend().run({.steps = {step}}, kRows, Arguments().tensor("y", actual).tensor("x", rows)));
  EXPECT_TRUE(actual.same_bits(expected));
  EXPECT_TRUE(actual.untouched_outside());
}

class CarriedReductions : public ::testing::TestWithParam<DType> {
 protected:
  void expect(const Build& build) const {
    for (auto [ctas, warps] : {std::pair(1, 1), {1, 4}, {2, 2}})
      expect_interpreters_bits(GetParam(), ctas, warps, build);
  }
};

void store(KernelBuilder& k, const View& y, const Scalar& row, int column, const Scalar& value) {
  y.partition({1, 1}).store({row, column}, k.full({1, 1}, 0, y.dtype()) + value);
}

// Several reductions of a row in one loop, with initial values other than the neutral element.
// Loops have zero, one and more iterations.
TEST_P(CarriedReductions, WholeRows) {
  expect([&](KernelBuilder& k, const View& x, const View& y) {
    const Partition blocks = x.partition({squeeze, kBlock});
    const DType type = GetParam();
    k.for_range(0, 4, 1, [&](Scalar i) {
      Scalar row = k.program_id(0) * 4 + i;
      auto [total, top, low, last] = k.for_range(
          0, i, 1,
          carry(k.constant(3, type), k.constant(-2, type), k.constant(2, type),
                k.constant(1, type)),
          [&](Scalar b, Scalar total, Scalar top, Scalar low, Scalar last) {
            Tile t = blocks.load({row, b});
            return carry(total + sum(t), max(max(t), top), min(low, min(t)), last + max(t) * 2);
          });
      store(k, y, row, 0, total);
      store(k, y, row, 1, top);
      store(k, y, row, 2, low);
      store(k, y, row, 3, last);
    });
  });
}

// The loop reads the carried value, so threads combine it in every iteration.
TEST_P(CarriedReductions, ValuesThatTheLoopReads) {
  expect([&](KernelBuilder& k, const View& x, const View& y) {
    const Partition blocks = x.partition({squeeze, kBlock});
    Scalar row = k.program_id(0) * 4;
    auto [total] =
        k.for_range(0, 3, 1, carry(k.constant(1, GetParam())), [&](Scalar b, Scalar total) {
          Scalar next = total + sum(blocks.load({row, b}));
          store(k, y, row + b, 4, next);
          store(k, y, row + b, 5, total);
          return carry(next);
        });
    store(k, y, row, 6, total);
  });
}

// Carries one value per row and one per column of tiles with four rows, and a sum over both axes.
TEST_P(CarriedReductions, RowsAndColumnsOfTiles) {
  expect([&](KernelBuilder& k, const View& x, const View& y) {
    const Partition blocks = x.partition({4, kBlock});
    const DType type = GetParam();
    Scalar rows = k.program_id(0);
    auto [sums, tops, columns] = k.for_range(
        0, 4, 1, carry(k.full({4}, 2, type), k.full({4}, -3, type), k.full({kBlock}, 1, type)),
        [&](Scalar b, Tile sums, Tile tops, Tile columns) {
          Tile t = blocks.load({rows, b});
          return carry(sums + sum(t, 1), max(reduce_max(t, 1), tops), columns + sum(t, 0));
        });
    y.partition({4, 1}).store({rows, 0}, sums.expand_dims(1));
    y.partition({4, 1}).store({rows, 1}, tops.expand_dims(1));
    auto [all] = k.for_range(0, 2, 1, carry(k.constant(0, type)), [&](Scalar b, Scalar all) {
      auto [inner] = k.for_range(0, 3, 1, carry(all), [&](Scalar c, Scalar inner) {
        return carry(inner + sum(blocks.load({rows, c + b})));
      });
      return carry(inner + sum(columns));
    });
    store(k, y, rows * 4, 2, all);
  });
}

INSTANTIATE_TEST_SUITE_P(Types, CarriedReductions, ::testing::Values(f32, i32));

}  // namespace
}  // namespace ligerdsl::test::carried_reductions_test
