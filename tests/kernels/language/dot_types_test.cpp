// Matmuls of fp8, int8 and tf32 operands.
#include <functional>

#include "tests/kernels/language/dot_product.h"

namespace ligerdsl::test::dot_types_test {
namespace {

// Both fp8 formats and their mixture. wgmma multiplies them if k is contiguous in both operands.
// Otherwise they are converted exactly to f16, and mma.sync or threads multiply them, from slots or
// registers.
TEST(Dot, OperandsOfFp8) {
  uint64_t seed = 571;
  const std::vector<std::pair<DType, DType>> types{
      {f8e4m3, f8e4m3}, {f8e4m3, f8e5m2}, {f8e5m2, f8e4m3}};
  const std::vector<Product> products{
      {.m = 50, .n = 70, .k = 90, .bm = 32, .bn = 32, .bk = 32},
      {.m = 7, .n = 9, .k = 3, .bm = 4, .bn = 4, .bk = 4, .num_warps = 1},
      {.m = 40, .n = 35, .k = 70, .bm = 32, .bn = 32, .bk = 32, .stages = 3},
      {.m = 50, .n = 80, .k = 272, .bm = 32, .bn = 64, .bk = 64, .num_warps = 8, .stages = 3},
      {.m = 64, .n = 64, .k = 384, .bm = 64, .bn = 64, .bk = 128, .stages = 3},
      {.m = 100, .n = 144, .k = 272, .bm = 128, .bn = 128, .bk = 64, .num_warps = 8, .stages = 4},
      {.m = 192, .n = 96, .k = 96, .bm = 192, .bn = 96, .bk = 32, .stages = 2, .dynamic = true},
      {.m = 64, .n = 64, .k = 96, .bm = 64, .bn = 64, .bk = 16, .stages = 3},
      {.m = 256,
       .n = 272,
       .k = 128,
       .bm = 128,
       .bn = 128,
       .bk = 64,
       .num_warps = 8,
       .stages = 3,
       .programs = 2}};
  const std::vector<bool> flags{true, false};
  for (const auto& [operands, product, transposed, columns] :
       combinations(types, products, flags, flags)) {
    Product by = product;
    by.second = operands.second;
    by.columns = columns;
    check_product(operands.first, by, transposed, seed += 2);
  }
}

// i8 is multiplied by mma.sync, by threads, or by wgmma if k is contiguous in both operands. wgmma
// reads slots that `cp.async` or TMA copies fill. Other cases read registers, or slots in which k
// is not contiguous.
TEST(Dot, OperandsOfI8) {
  uint64_t seed = 771;
  const std::vector<Product> products{
      {.m = 50, .n = 70, .k = 90, .bm = 32, .bn = 32, .bk = 32},
      {.m = 7, .n = 9, .k = 3, .bm = 4, .bn = 4, .bk = 4, .num_warps = 1},
      {.m = 64, .n = 64, .k = 96, .bm = 32, .bn = 32, .bk = 16, .stages = 2},
      {.m = 40, .n = 35, .k = 70, .bm = 32, .bn = 32, .bk = 32, .stages = 3},
      {.m = 50, .n = 80, .k = 272, .bm = 32, .bn = 64, .bk = 64, .num_warps = 8, .stages = 3},
      {.m = 48, .n = 24, .k = 224, .bm = 48, .bn = 24, .bk = 96, .num_warps = 2, .stages = 2},
      {.m = 64, .n = 64, .k = 384, .bm = 64, .bn = 64, .bk = 128, .stages = 3},
      {.m = 100,
       .n = 144,
       .k = 272,
       .bm = 128,
       .bn = 128,
       .bk = 64,
       .num_warps = 8,
       .stages = 4,
       .tensor = true},
      {.m = 192, .n = 96, .k = 96, .bm = 192, .bn = 96, .bk = 32, .stages = 2, .dynamic = true},
      {.m = 64, .n = 48, .k = 64, .bm = 64, .bn = 24, .bk = 32, .stages = 3},
      {.m = 64, .n = 80, .k = 64, .bm = 64, .bn = 40, .bk = 32, .stages = 3},
      {.m = 256,
       .n = 272,
       .k = 128,
       .bm = 128,
       .bn = 128,
       .bk = 64,
       .num_warps = 8,
       .stages = 3,
       .programs = 2}};
  enum class Form { rows, columns, doubled };
  const std::vector<Form> forms{Form::rows, Form::columns, Form::doubled};
  const std::vector<bool> flags{true, false};
  for (const auto& [product, form, transposed] : combinations(products, forms, flags)) {
    Product by = product;
    by.columns = form == Form::columns, by.doubled = form == Form::doubled;
    by.result = by.doubled ? f32 : i32;
    check_product(i8, by, transposed, seed += 2);
  }
}

// The largest accumulator value is exact, and the next one wraps.
TEST(Dot, AccumulatorOfI8Wraps) {
  constexpr int64_t kSide = 64, kDepth = 64;
  KernelBuilder k("wrap");
  const Partition tx = k.view("x", i8, {kSide, kDepth}).partition({kSide, 32}),
                  ty = k.view("y", i8, {kSide, kDepth}).partition({kSide, 32}),
                  tc = k.view("c", i32, {kSide, kSide}).partition({kSide, kSide});
  auto [sums] = k.for_range(
      0, kDepth / 32, 1, pipelined(3), carry(tc.load({0, 0})), [&](Scalar i, Tile sums) {
        return carry(dot(tx.load({0, i}), ty.load({0, i}).permute({1, 0}), sums));
      });
  tc.store({0, 0}, sums);
  Tensor x(i8, {kSide, kDepth}), y(i8, {kSide, kDepth}), c(i32, {kSide, kSide});
  for (int64_t i = 0; i < x.size(); ++i) x.set_integer(i, -128), y.set_integer(i, -128);
  constexpr int64_t kProducts = 128 * 128 * kDepth;
  for (int64_t i = 0; i < c.size(); ++i) c.set_integer(i, INT32_MAX - kProducts + i % 2);
  Arguments arguments;
  arguments.tensor("x", x);
  arguments.tensor("y", y);
  arguments.tensor("c", c);
  backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                arguments);
  for (int64_t i = 0; i < c.size(); ++i)
    ASSERT_EQ(c.get_integer(i), i % 2 ? INT32_MIN : INT32_MAX) << i;
}

// tf32 is multiplied by mma.sync or by threads. wgmma is used if TMA copies load both operands and
// k is contiguous in them.
TEST(Dot, OperandsOfTf32) {
  uint64_t seed = 971;
  const std::vector<Product> products{
      {.m = 50, .n = 70, .k = 90, .bm = 32, .bn = 32, .bk = 32},
      {.m = 7, .n = 9, .k = 3, .bm = 4, .bn = 4, .bk = 4, .num_warps = 1},
      {.m = 64, .n = 64, .k = 96, .bm = 32, .bn = 32, .bk = 8, .stages = 2},
      {.m = 40, .n = 35, .k = 70, .bm = 32, .bn = 32, .bk = 32, .stages = 3},
      {.m = 50, .n = 80, .k = 272, .bm = 32, .bn = 64, .bk = 64, .num_warps = 8, .stages = 3},
      {.m = 48, .n = 24, .k = 120, .bm = 48, .bn = 24, .bk = 24, .num_warps = 2, .stages = 2},
      {.m = 64, .n = 64, .k = 192, .bm = 64, .bn = 64, .bk = 32, .stages = 3},
      {.m = 64, .n = 64, .k = 192, .bm = 64, .bn = 64, .bk = 32, .stages = 3, .tensor = true},
      {.m = 100,
       .n = 144,
       .k = 136,
       .bm = 128,
       .bn = 128,
       .bk = 32,
       .num_warps = 8,
       .stages = 4,
       .tensor = true},
      {.m = 192, .n = 96, .k = 48, .bm = 192, .bn = 96, .bk = 16, .stages = 2, .tensor = true},
      {.m = 64, .n = 80, .k = 64, .bm = 64, .bn = 40, .bk = 8, .stages = 3, .tensor = true},
      {.m = 256,
       .n = 272,
       .k = 128,
       .bm = 128,
       .bn = 128,
       .bk = 32,
       .num_warps = 8,
       .stages = 3,
       .programs = 2,
       .tensor = true}};
  enum class Form { rows, columns, doubled };
  const std::vector<Form> forms{Form::rows, Form::columns, Form::doubled};
  const std::vector<bool> flags{true, false};
  for (const auto& [product, form, transposed] : combinations(products, forms, flags)) {
    Product by = product;
    by.tf32 = true;
    by.columns = form == Form::columns, by.doubled = form == Form::doubled;
    check_product(f32, by, transposed, seed += 2);
  }
}

// Rounds to the nearest number, ties away from zero. Infinities and NaN are preserved.
TEST(Dot, Tf32RoundsToNearest) {
  constexpr int64_t kSide = 16;
  const double tie = 1 + 0x1p-11;
  const Values numbers = {
      1.0,          tie,   -tie,         1 + 0x1.fffffep-12, 1 + 0x1.8p-10, -1 - 0x1.8p-10,
      0x1.fffffep0, 1e-30, 0x1.002p-126, 0x1.fffp127,        INFINITY,      -INFINITY,
      NAN,          0.0,   3.0,          -0x1.003p5};
  KernelBuilder k("rounded");
  const auto whole = [&](const char* name) {
    return k.view(name, f32, {kSide, kSide}).partition({kSide, kSide});
  };
  const Partition out = whole("c");
  out.store({0, 0}, dot(whole("x").load({0, 0}), whole("y").load({0, 0}),
                        k.zeros({kSide, kSide}, f32), {.input_precision = InputPrecision::tf32}));
  Tensor x(f32, {kSide, kSide}), y(f32, {kSide, kSide}), c(f32, {kSide, kSide});
  for (Tensor* factor : {&x, &y}) factor->fill(Values(kSide * kSide, 0.0));
  for (int64_t i = 0; i < kSide; ++i) x.set(i * kSide, numbers[i]), y.set(i, 1.0);
  Arguments arguments;
  arguments.tensor("x", x);
  arguments.tensor("y", y);
  arguments.tensor("c", c);
  backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                arguments);
  for (int64_t i = 0; i < kSide; ++i)
    for (int64_t j = 0; j < kSide; ++j) {
      const auto given = static_cast<float>(numbers[i]);
      const double expected = to_tf32(given), found = c.get(i * kSide + j);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(found)) << i;
      else
        EXPECT_EQ(found, expected) << numbers[i];
    }
}

}  // namespace
}  // namespace ligerdsl::test::dot_types_test
