// Tests repeated exchanges between the CTAs of a cluster in one program. The CTAs exchange tiles
// that are split over all CTAs, tiles that some CTAs share, and results of atomics. Numbers are
// small and whole, so every backend gives the interpreter's bits.
#include <functional>

#include "dsl/interpreter/interpreter.h"
#include "ligerdsl/dsl.h"
#include "program/print.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::cluster_exchange_test {
namespace {

constexpr int64_t kRows = 24, kColumns = 4096;

Tensor whole_numbers(DType type) {
  Tensor tensor = Tensor::rows(type, kRows, kColumns);
  Random random(5);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const int64_t value = random.below(7) - 3;
    is_integer(type) ? tensor.set_integer(i, value) : tensor.set(i, static_cast<double>(value));
  }
  return tensor;
}

// `build` gets x and y, both [kRows, kColumns]. y is initially a copy of x.
using Build = std::function<void(KernelBuilder&, const View& x, const View& y)>;

void expect_interpreters_bits(DType type, int num_ctas, int num_warps, const Build& build) {
  KernelBuilder k("exchanges");
  View x = k.view("x", type, {dyn, kColumns}), y = k.view("y", type, {dyn, kColumns});
  build(k, x, y);
  kernels::Step step{.program = k.finish(), .launch = kernels::library_launch(1, num_warps)};
  step.launch.num_ctas = num_ctas;
  SCOPED_TRACE(std::to_string(num_ctas) + " CTAs of " + std::to_string(num_warps) + " warps\n" +
               program::print(step.program));
  Tensor input = whole_numbers(type), expected = whole_numbers(type), actual = whole_numbers(type);
  interpreter::Arguments slots;
  for (Tensor* tensor : {&input, &expected})
    slots.view(tensor->data(), tensor->type(), tensor->shape(), tensor->strides());
  interpreter::run(step.program, slots, {1, 1, 1}, {.round_every_op = true});
  ASSERT_NO_THROW(
      backend().run({.steps = {step}}, kRows, Arguments().tensor("x", input).tensor("y", actual)));
  EXPECT_TRUE(actual.same_bits(expected));
}

void expect_on_clusters(DType type, const Build& build) {
  for (int num_ctas : {2, 4, 8, 16})
    for (int num_warps : {1, 2, 4}) expect_interpreters_bits(type, num_ctas, num_warps, build);
}

class ClusterExchange : public ::testing::Test {
 protected:
  void SetUp() override {
    if (machine().max_cluster <= 1) GTEST_SKIP() << "no clusters";
  }
};

// Row sums that some CTAs share, in a loop without another exchange. A CTA that has nothing to send
// must still synchronise in each iteration.
TEST_F(ClusterExchange, TilesSharedBySomeCtas) {
  for (int64_t rows : {1, 2, 4, 8}) {
    SCOPED_TRACE(rows);
    expect_on_clusters(f32, [&](KernelBuilder& k, const View& x, const View& y) {
      Tile sums = sum(x.partition({rows, 1024}).load({0, 0}), 1);
      k.for_range(0, kRows, 1, carry(sums), [&](Scalar i, Tile sums) {
        Scalar all = sum(sums);
        y.store({i, 0}, all);
        return carry(min(max(sums * 2.0f - all, -9.0f), 9.0f));
      });
    });
  }
}

// Some exchanges are in branches and loops that never run, or do not run in every iteration.
TEST_F(ClusterExchange, NestedLoopsAndBranches) {
  expect_on_clusters(f32, [](KernelBuilder& k, const View& x, const View& y) {
    k.for_range(0, 12, 1, [&](Scalar i) {
      Tile t = x.partition({squeeze, 2048}).load({i, 0});
      k.if_(i % 3 != 1, [&] {
        auto [total] =
            k.for_range(0, i % 4, 1, carry(k.constant(0.0f, f32)), [&](Scalar j, Scalar total) {
              return carry(total + sum(x.partition({squeeze, 1024}).load({i + j, 1})));
            });
        y.store({i, 1}, total);
      });
      y.partition({squeeze, 2048}).store({i, 1}, t + max(t));
      y.partition({squeeze, 512})
          .store({i, 1}, cumsum(x.partition({squeeze, 512}).load({i, 2}), 0));
    });
  });
}

// Small tiles of several types that change their layout, next to a sum.
TEST_F(ClusterExchange, Transpositions) {
  for (DType type : {f32, i32, bf16}) {
    for (int64_t side : {8, 16, 32}) {
      expect_on_clusters(type, [&](KernelBuilder& k, const View& x, const View& y) {
        Partition in = x.partition({squeeze, side * side}),
                  out = y.partition({squeeze, side * side});
        k.for_range(0, 6, 1, [&](Scalar i) {
          Tile turned =
              in.load({i, 0}).reshape({side, side}).permute({1, 0}).reshape({side * side});
          out.store({i, 0}, turned);
          y.store({i, kColumns - 1}, sum(turned.to(f32)).to(type));
        });
      });
    }
  }
}

// The result of an atomic is sent to all CTAs, before a loop or where it is used. Large tiles use
// another path. Each CTA adds its copy to its part of a row.
TEST_F(ClusterExchange, ResultsOfAtomics) {
  for (DType type : {i32, i64}) {
    for (int64_t width : {1, 32, 256}) {
      SCOPED_TRACE(width);
      expect_on_clusters(type, [&](KernelBuilder& k, const View& x, const View& y) {
        k.for_range(0, 5, 1, [&](Scalar i) {
          Tile old =
              atomic_add(y.ptr() + k.arange(width), k.full({width}, 1, type), k.arange(width) >= 0);
          k.for_range(0, 2, 1, [&](Scalar j) { y.store({i + 1, j + 1000}, j.to(type)); });
          k.if_(i % 2 == 0, [&] { y.partition({squeeze, width}).store({i + 1, 0}, old + old); });
          y.partition({squeeze, 2048})
              .store({i + 6, 1}, x.partition({squeeze, 2048}).load({i, 1}) + sum(old));
        });
      });
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::cluster_exchange_test
