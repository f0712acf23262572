// Runs the library functions by the interpreter, and compares them with the C++ standard library.
#include <gtest/gtest.h>

#include <cmath>

#include "evaluate.h"

namespace ligerdsl {
namespace {

using test::evaluate;
using Floats = std::vector<float>;

const Floats kInput{-3.0f, -0.5f, 0.0f, 0.25f, 1.0f, 2.5f, 8.0f, -40.0f};

template <class Function, class Reference>
void expect_elementwise(Function function, Reference reference) {
  const Floats out = evaluate(kInput, [&](KernelBuilder&, Tile x) { return function(x); });
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_FLOAT_EQ(out[i], static_cast<float>(reference(double{kInput[i]}))) << kInput[i];
}

TEST(Library, ActivationsMatchReferences) {
  expect_elementwise([](Tile x) { return relu(x); }, [](double x) { return std::max(x, 0.0); });
  expect_elementwise([](Tile x) { return silu(x); },
                     [](double x) { return x / (1 + std::exp(-x)); });
  expect_elementwise(
      [](Tile x) { return gelu_erf(x); },
      [](double x) { return x / 2 * (1 + std::erf(x * static_cast<float>(M_SQRT1_2))); });
  expect_elementwise([](Tile x) { return gelu_tanh(x); },
                     [](double x) {
                       return x / 2 *
                              (1 + std::tanh(static_cast<float>(0.7978845608028654) * x *
                                             (1 + static_cast<float>(0.044715) * x * x)));
                     });
}

TEST(Library, CdivRoundsUp) {
  for (int n : {0, 1, 7, 8, 9}) {
    EXPECT_EQ(evaluate({static_cast<float>(n)},
                       [](KernelBuilder&, Tile x) { return cdiv(sum(x).to(i32), 8); }),
              Floats{static_cast<float>((n + 7) / 8)});
  }
}

// Each tile must be visited once. Within a group of rows, including the last one, the order is
// column by column.
TEST(Library, GroupedTilesVisitGroupsOfRows) {
  constexpr int kRows = 5, kColumns = 3, kGroup = 2;
  int expected = 0;
  for (int first = 0; first < kRows; first += kGroup)
    for (int column = 0; column < kColumns; ++column)
      for (int row = first; row < std::min(first + kGroup, kRows); ++row) {
        const auto place =
            evaluate({static_cast<float>(expected++)}, [&](KernelBuilder& k, Tile x) {
              const Scalar rows = k.constant(kRows, i64), columns = k.constant(kColumns, i64);
              const TilePlace tile = grouped_tiles(sum(x).to(i32), rows, columns, kGroup);
              return tile.row * 100 + tile.column;
            });
        EXPECT_EQ(place, Floats{static_cast<float>(row * 100 + column)});
      }
}

TEST(Library, GroupedTilesUse64Bits) {
  constexpr int64_t kRows = int64_t{1} << 24, kColumns = 512, kGroup = 16;
  const auto place = evaluate({0}, [&](KernelBuilder& k, const Tile& x) {
    const Scalar rows = k.constant(kRows, i64), columns = k.constant(kColumns, i64);
    const Scalar last = sum(x).to(i64) + (kRows * kColumns - 1);
    const TilePlace tile = grouped_tiles(last, rows, columns, kGroup);
    return (tile.row - (kRows - 1)) * 1000 + tile.column.to(i64);
  });
  EXPECT_EQ(place, Floats{kColumns - 1});
}

TEST(Library, MeanOverAllAndAlongAnAxis) {
  EXPECT_EQ(evaluate({1, 2, 3, 6}, [](KernelBuilder&, Tile x) { return mean(x); }), Floats{3});
  EXPECT_EQ(evaluate({1, 2, 3, 6},
                     [](KernelBuilder&, Tile x) {
                       return mean(x.reshape({2, 2}), 0);
                     }),
            (Floats{2, 4}));
}

TEST(Library, SumProductsOverAllAndAlongAnAxis) {
  EXPECT_EQ(evaluate({1, 2, 3, 6}, [](KernelBuilder&, Tile x) { return sum_products(x, x); }),
            Floats{50});
  EXPECT_EQ(evaluate({1, 2, 3, 6},
                     [](KernelBuilder&, Tile x) {
                       return sum_products(x.reshape({2, 2}), x.reshape({2, 2}), 1);
                     }),
            (Floats{5, 45}));
}

// In bf16, a sum of 4,096 ones would stop at 256. In f16, a sum of 2,048 elements of value 64 would
// overflow before the division by 2,048.
TEST(Library, SumsOf16BitTypesAccumulateInF32) {
  const Floats ones(4096, 1.0f), large(2048, 64.0f);
  const interpreter::Options as_a_device{.round_every_op =
                                             true};  // double would hide these overflows
  const auto evaluate = [&](const Floats& in, auto body) {
    return test::evaluate(in, body, as_a_device);
  };
  EXPECT_LT(evaluate(ones,
                     [](KernelBuilder&, Tile x) {
                       auto [total] =
                           reduce({x.to(bf16)}, [](Scalar a, Scalar b) { return a + b; });
                       return total;
                     })[0],
            4096)
      << "a sum computed in bf16 must stop below 4096";
  EXPECT_EQ(evaluate(ones, [](KernelBuilder&, Tile x) { return sum(x.to(bf16)); }), Floats{4096});
  EXPECT_EQ(evaluate(ones,
                     [](KernelBuilder&, Tile x) {
                       return sum(x.to(bf16).reshape({1, 4096}), 1);
                     }),
            Floats{4096});
  EXPECT_EQ(evaluate(ones, [](KernelBuilder&, Tile x) { return cumsum(x.to(bf16)); }).back(), 4096);
  EXPECT_EQ(
      evaluate(ones, [](KernelBuilder&, Tile x) { return sum_products(x.to(bf16), x.to(bf16)); }),
      Floats{4096});
  EXPECT_EQ(evaluate(large, [](KernelBuilder&, Tile x) { return mean(x.to(f16)); }), Floats{64});
  EXPECT_EQ(evaluate(large,
                     [](KernelBuilder&, Tile x) {
                       return mean(x.to(f16).reshape({1, 2048}), 1);
                     }),
            Floats{64});
}

// Within `exact_rounding`, sum_products still lets its mul contract into an fma. Ops recorded after
// it are exact again.
TEST(Library, SumProductsAllowsContraction) {
  KernelBuilder k("kernel");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
  {
    const auto exact = k.exact_rounding();
    Tile t = x.partition({4}).load({0});
    Scalar total = sum_products(t, t);
    y.partition({4}).store({0}, t * total);
  }
  int exact = 0, free = 0;
  for (const program::Op& op : k.finish().body.ops) {
    if (op.code == program::OpCode::mul)
      ++(op.integer(program::AttrKey::no_contract) ? exact : free);
  }
  EXPECT_EQ(free, 1);
  EXPECT_EQ(exact, 1);
}

TEST(Library, SoftmaxOverAllAndAlongAnAxis) {
  const Floats out =
      evaluate({1000, 1001, -INFINITY, 1000}, [](KernelBuilder&, Tile x) { return softmax(x); });
  const float total = 2 + std::exp(1.0f);
  EXPECT_FLOAT_EQ(out[0], 1 / total);
  EXPECT_FLOAT_EQ(out[1], std::exp(1.0f) / total);
  EXPECT_EQ(out[2], 0.0f);
  const Floats columns = evaluate({0, 5, 0, 5}, [](KernelBuilder&, Tile x) {
    return softmax(x.reshape({2, 2}), 0);
  });
  EXPECT_EQ(columns, (Floats{0.5, 0.5, 0.5, 0.5}));
}

TEST(Library, LogSumExpOverAllAndAlongAnAxis) {
  const Floats in{-1000, 3, 2, 1000};
  const double expected = 1000;
  EXPECT_FLOAT_EQ(evaluate(in, [](KernelBuilder&, Tile x) { return log_sum_exp(x); })[0], expected);
  EXPECT_FLOAT_EQ(evaluate(in,
                           [](KernelBuilder&, Tile x) {
                             return log_sum_exp(x.reshape({2, 2}), 1);
                           })[0],
                  3);
  EXPECT_EQ(
      evaluate({-INFINITY, -INFINITY}, [](KernelBuilder&, Tile x) { return log_sum_exp(x); })[0],
      -INFINITY);
}

}  // namespace
}  // namespace ligerdsl
