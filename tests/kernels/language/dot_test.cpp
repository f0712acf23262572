// Matmuls against float64 sums of the stored numbers: dtypes, odd shapes, edges, operands from
// memory in either order, computed operands, dependent matmuls, several warps and clusters,
// pipelined loops.
#include <cmath>
#include <functional>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"
#include "tests/support/tf32.h"

namespace ligerdsl::test {
namespace {

struct Product {
  int64_t m, n, k;     // sizes of the matrices
  int64_t bm, bn, bk;  // sizes of tiles
  int num_warps = 4, num_ctas = 1;
  int stages = 1;        // stages of the loop along k
  bool dynamic = false;  // no size is known when the kernel is compiled
  bool columns = false;  // a is stored as [k, m]
  bool doubled = false;  // a's tiles are multiplied by two before the matmul
  int programs = 0;      // programs of a persistent kernel; 0: one for each tile
  DType result = f32;
  DType second = f32;  // dtype of b if it is fp8; else b has a's dtype
  bool tf32 = false;
  bool tensor = false;  // TMA copies
};

struct Matrix {
  int64_t rows, columns;
  Values values;
  double at(int64_t i, int64_t j) const { return values[i * columns + j]; }
};

// c [m, n] = a [m, k] by b, which is stored as [k, n] or, if transposed, as [n, k].
Matrix multiply(DType type, const Product& p, bool transposed, const Tensor& a, const Tensor& b) {
  KernelBuilder k("product");
  const auto view = [&](const char* name, DType of, int64_t rows, int64_t width) {
    return k.view(name, of, {p.dynamic ? dyn : rows, p.dynamic ? dyn : width});
  };
  const DType second = b.type();
  const View out = view("c", p.result, dyn, p.n),
             left = p.columns ? view("a", type, p.k, p.m) : view("a", type, dyn, p.k),
             right = transposed ? view("b", second, p.n, p.k) : view("b", second, p.k, p.n);
  const DType sum = type == i8 ? i32 : f32;
  LoopOptions loop = pipelined(p.stages);
  loop.tensor_copies = p.tensor;
  const DotOptions options{.input_precision = p.tf32 ? InputPrecision::tf32 : InputPrecision::ieee};
  const int64_t columns = ceil_div(p.n, p.bn), tiles = ceil_div(p.m, p.bm) * columns;
  const Partition ta = p.columns ? left.partition({p.bk, p.bm}) : left.partition({p.bm, p.bk});
  const Partition tb = transposed ? right.partition({p.bn, p.bk}) : right.partition({p.bk, p.bn});
  const auto make = [&](const Scalar& tile) {
    const Scalar row = tile / static_cast<int32_t>(columns),
                 column = tile % static_cast<int32_t>(columns);
    auto [sums] =
        k.for_range(0, ceil_div(p.k, p.bk), 1, loop, carry(k.zeros({p.bm, p.bn}, sum)),
                    [&](Scalar i, Tile sums) {
                      const Tile factor =
                          transposed ? tb.load({column, i}).permute({1, 0}) : tb.load({i, column});
                      Tile rows = p.columns ? ta.load({i, row}).permute({1, 0}) : ta.load({row, i});
                      if (p.doubled) rows = type == i8 ? rows + rows : rows * 2.0f;
                      return carry(dot(rows, factor, sums, options));
                    });
    out.partition({p.bm, p.bn}).store({row, column}, sums.to(p.result));
  };
  if (p.programs)
    k.for_range(k.program_id(0), static_cast<int32_t>(tiles), k.num_programs(0), make);
  else
    make(k.program_id(0));
  kernels::Step step{
      .program = k.finish(),
      .launch = kernels::library_launch(p.programs ? p.programs : tiles, p.num_warps)};
  step.launch.num_ctas = p.num_ctas;
  step.launch.no_alias = p.programs > 0 || p.tensor;
  Tensor c(p.result, {p.m, p.n});
  Tensor mine = a, theirs = b;
  Arguments arguments;
  arguments.tensor("c", c);
  arguments.tensor("a", mine);
  arguments.tensor("b", theirs);
  backend().run({.steps = {step}}, 1, arguments);
  return {p.m, p.n, c.values()};
}

// i8 numbers are uniform in [-limit, limit).
void fill_factor(Tensor& factor, uint64_t seed, int64_t limit) {
  Random random(seed);
  if (factor.type() != i8) {
    factor.fill(random.normals(factor.size()));
    return;
  }
  for (int64_t i = 0; i < factor.size(); ++i)
    factor.set_integer(i, random.below(2 * limit) - limit);
}

void check_product(DType type, const Product& p, bool transposed, uint64_t seed) {
  SCOPED_TRACE(
      std::string(name(type)) + " " + std::to_string(p.m) + "x" + std::to_string(p.n) + "x" +
      std::to_string(p.k) + " by " + std::to_string(p.bm) + "x" + std::to_string(p.bn) + "x" +
      std::to_string(p.bk) + (transposed ? " transposed " : " ") + std::to_string(p.num_ctas) +
      " CTAs of " + std::to_string(p.num_warps) + ", " + std::to_string(p.stages) + " stages" +
      (p.dynamic ? ", dynamic" : "") + (p.columns ? ", a by columns" : "") +
      (p.doubled ? ", 2 a" : "") + ", " + std::to_string(p.programs) + " programs, result " +
      name(p.result) + (p.tf32 ? ", tf32" : "") + (p.tensor ? ", tensor copies" : ""));
  Tensor a = p.columns ? Tensor(type, {p.k, p.m}) : Tensor(type, {p.m, p.k});
  const DType second = is_fp8(p.second) ? p.second : type;
  Tensor b = transposed ? Tensor(second, {p.n, p.k}) : Tensor(second, {p.k, p.n});
  fill_factor(a, seed, p.doubled ? 64 : 128);
  fill_factor(b, seed + 1, 128);
  const Matrix found = multiply(type, p, transposed, a, b);
  Values left = a.values(), right = b.values();
  if (p.tf32)
    for (Values* values : {&left, &right})
      for (double& number : *values) number = to_tf32(static_cast<float>(number));
  double worst = 0;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t at = 0; at < p.k; ++at) {
        const double product = (p.doubled ? 2 : 1) * left[p.columns ? at * p.m + i : i * p.k + at] *
                               (transposed ? right[j * p.k + at] : right[at * p.n + j]);
        sum += product;
        size += std::abs(product);
      }
      worst = std::max(worst, std::abs(found.at(i, j) - sum) / std::max(size, 1e-30));
    }
  }
  // Relative to the sum of |a b|: at most k roundings of f32, 2^-24 each and rarely all
  // in one direction, and one rounding to the result's type. The tensor cores of sm_90a keep about
  // 14 bits when they add fp8. TMA copies round f32 to tf32 in another way. Accumulators of i8 are
  // exact.
  const bool few_bits = (is_fp8(type) || (p.tf32 && p.tensor)) && backend().name() == "cuda";
  EXPECT_LE(worst, type == i8 && p.result == i32 ? 0
                   : few_bits                    ? 1e-3
                   : p.result == f32             ? 2e-6
                   : p.result == f16             ? 5e-4
                                                 : 4e-3);
}

const std::vector<Product> kProducts = {
    {64, 64, 64, 32, 32, 32},      {50, 70, 90, 32, 32, 32}, {16, 8, 16, 16, 8, 16, 1},
    {96, 48, 80, 48, 24, 16, 2},   {33, 17, 5, 16, 16, 16},  {40, 40, 40, 8, 8, 8},
    {64, 128, 48, 64, 128, 48, 8}, {7, 9, 3, 4, 4, 4, 1},    {80, 40, 32, 80, 40, 32, 4},
    {64, 64, 32, 64, 64, 32, 16}};

TEST(Dot, MultipliesTilesOfEveryShape) {
  uint64_t seed = 3;
  for (const DType type : kFloats)
    for (const Product& p : kProducts)
      for (const bool transposed : {false, true}) check_product(type, p, transposed, seed += 2);
}

// Rows with and without 16-byte copies; panels of 128, 64 and 32 bytes or none; odd shapes; more
// stages than iterations.
TEST(Dot, PipelinedLoopsMultiplyFromSlots) {
  uint64_t seed = 71;
  for (const DType type : kFloats)
    for (const Product& p : std::vector<Product>{
             {.m = 64, .n = 64, .k = 160, .bm = 32, .bn = 32, .bk = 32, .stages = 2},
             {.m = 50,
             .n = 72,
             .k = 264,
             .bm = 32,
             .bn = 64,
             .bk = 64,
             .num_warps = 8,
             .stages = 3},
             {.m = 32, .n = 16, .k = 80, .bm = 32, .bn = 16, .bk = 16, .num_warps = 1, .stages = 4},
             {.m = 96, .n = 96, .k = 96, .bm = 48, .bn = 96, .bk = 48, .num_warps = 2, .stages = 3},
             {.m = 64,
             .n = 128,
             .k = 64,
             .bm = 64,
             .bn = 128,
             .bk = 32,
             .num_warps = 8,
             .stages = 4},
             {.m = 64,
             .n = 64,
             .k = 160,
             .bm = 16,
             .bn = 64,
             .bk = 64,
             .num_warps = 8,
             .stages = 3,
             .dynamic = true},
             {.m = 40, .n = 35, .k = 70, .bm = 32, .bn = 32, .bk = 32, .stages = 3},
             {.m = 32,
             .n = 32,
             .k = 64,
             .bm = 32,
             .bn = 32,
             .bk = 16,
             .num_warps = 2,
             .num_ctas = 2,
             .stages = 2}})
      for (const bool transposed : {false, true}) check_product(type, p, transposed, seed += 2);
}

// Warp groups with 64 rows each: one or two groups, several blocks of 64 rows, odd shapes. Panels
// of 128, 64 and 32 bytes of both operands in either order; operand A in registers; two stages (the
// loop waits for each wgmma) and more.
TEST(Dot, WarpgroupsMultiplyFromSlots) {
  uint64_t seed = 171;
  for (const DType type : {f16, bf16})
    for (const Product& p : std::vector<Product>{
             {.m = 64, .n = 64, .k = 192, .bm = 64, .bn = 64, .bk = 64, .stages = 3},
             {.m = 100,
             .n = 136,
             .k = 264,
             .bm = 128,
             .bn = 128,
             .bk = 64,
             .num_warps = 8,
             .stages = 4},
             {.m = 128, .n = 48, .k = 80, .bm = 128, .bn = 16, .bk = 16, .stages = 3},
             {.m = 192, .n = 96, .k = 96, .bm = 192, .bn = 96, .bk = 32, .stages = 3},
             {.m = 256,
             .n = 32,
             .k = 256,
             .bm = 256,
             .bn = 32,
             .bk = 128,
             .num_warps = 8,
             .stages = 2},
             {.m = 64,
             .n = 256,
             .k = 64,
             .bm = 64,
             .bn = 256,
             .bk = 32,
             .stages = 4,
             .dynamic = true}})
      for (const bool transposed : {false, true}) {
        Product by = p;
        check_product(type, by, transposed, seed += 2);
        by.columns = true;
        check_product(type, by, transposed, seed += 2);
        by.columns = false, by.doubled = true;
        check_product(type, by, transposed, seed += 2);
      }
}

// Programs with several tiles, more and fewer than iterations per tile, of whole tiles and at
// edges. Copies for the next tile are in flight while the accumulator is stored. By mma.sync, and
// by wgmma with and without overlap of the next iteration. The accumulator is stored in one
// segment, in two, or directly.
TEST(Dot, PersistentPrograms) {
  uint64_t seed = 371;
  for (const DType type : {f16, bf16})
    for (const Product& p : std::vector<Product>{
             {.m = 200,
   .n = 200,
   .k = 192,
   .bm = 64,
   .bn = 64,
   .bk = 64,
   .stages = 4,
   .programs = 3},
             {.m = 256,
             .n = 520,
             .k = 64,
             .bm = 128,
             .bn = 256,
             .bk = 64,
             .num_warps = 8,
             .stages = 4,
             .programs = 2},
             {.m = 256,
             .n = 264,
             .k = 128,
             .bm = 128,
             .bn = 128,
             .bk = 32,
             .num_warps = 8,
             .stages = 3,
             .dynamic = true,
             .programs = 2},
             {.m = 130, .n = 64, .k = 96, .bm = 64, .bn = 64, .bk = 32, .stages = 2, .programs = 1},
             {.m = 96, .n = 96, .k = 160, .bm = 32, .bn = 32, .bk = 32, .stages = 3, .programs = 4},
             {.m = 48,
             .n = 64,
             .k = 16,
             .bm = 16,
             .bn = 64,
             .bk = 16,
             .num_warps = 1,
             .stages = 4,
             .programs = 1}})
      for (const DType result : {f32, type})
        for (const bool transposed : {false, true}) {
          Product by = p;
          by.result = result;
          check_product(type, by, transposed, seed += 2);
          by.columns = true;
          check_product(type, by, transposed, seed += 2);
          by.columns = false, by.doubled = true;
          check_product(type, by, transposed, seed += 2);
        }
}

// Both fp8 formats and their mixture. By wgmma if k is contiguous in both operands; else converted
// to f16, which is exact: by mma.sync, by threads, from slots and from registers.
TEST(Dot, OperandsOfFp8) {
  uint64_t seed = 571;
  for (const auto& [first, second] :
       {std::pair{f8e4m3, f8e4m3}, {f8e4m3, f8e5m2}, {f8e5m2, f8e4m3}})
    for (const Product& p : std::vector<Product>{
             {.m = 50, .n = 70, .k = 90, .bm = 32, .bn = 32, .bk = 32},
             {.m = 7, .n = 9, .k = 3, .bm = 4, .bn = 4, .bk = 4, .num_warps = 1},
             {.m = 40, .n = 35, .k = 70, .bm = 32, .bn = 32, .bk = 32, .stages = 3},
             {.m = 50,
             .n = 80,
             .k = 272,
             .bm = 32,
             .bn = 64,
             .bk = 64,
             .num_warps = 8,
             .stages = 3},
             {.m = 64, .n = 64, .k = 384, .bm = 64, .bn = 64, .bk = 128, .stages = 3},
             {.m = 100,
             .n = 144,
             .k = 272,
             .bm = 128,
             .bn = 128,
             .bk = 64,
             .num_warps = 8,
             .stages = 4},
             {.m = 192,
             .n = 96,
             .k = 96,
             .bm = 192,
             .bn = 96,
             .bk = 32,
             .stages = 2,
             .dynamic = true},
             {.m = 64, .n = 64, .k = 96, .bm = 64, .bn = 64, .bk = 16, .stages = 3},
             {.m = 256,
             .n = 272,
             .k = 128,
             .bm = 128,
             .bn = 128,
             .bk = 64,
             .num_warps = 8,
             .stages = 3,
             .programs = 2}})
      for (const bool transposed : {true, false}) {
        Product by = p;
        by.second = second;
        check_product(first, by, transposed, seed += 2);
        by.columns = true;
        check_product(first, by, transposed, seed += 2);
      }
}

// i8 by mma.sync, by threads, and by wgmma if k is contiguous in both operands: from slots that
// `cp.async` or TMA copies fill. Also from slots in which k is not contiguous, and from registers.
TEST(Dot, OperandsOfI8) {
  uint64_t seed = 771;
  for (const Product& p : std::vector<Product>{
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
           {.m = 192,
           .n = 96,
           .k = 96,
           .bm = 192,
           .bn = 96,
           .bk = 32,
           .stages = 2,
           .dynamic = true},
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
           .programs = 2}})
    for (const bool transposed : {true, false}) {
      Product by = p;
      by.result = i32;
      check_product(i8, by, transposed, seed += 2);
      by.columns = true;
      check_product(i8, by, transposed, seed += 2);
      by.columns = false, by.doubled = true, by.result = f32;
      check_product(i8, by, transposed, seed += 2);
    }
}

// The largest sum is reached exactly, and the next one wraps.
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

// tf32 by mma.sync, by threads, and by wgmma if TMA copies load both operands and k is contiguous
// in them.
TEST(Dot, OperandsOfTf32) {
  uint64_t seed = 971;
  for (const Product& p : std::vector<Product>{
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
           .tensor = true}})
    for (const bool transposed : {true, false}) {
      Product by = p;
      by.tf32 = true;
      check_product(f32, by, transposed, seed += 2);
      by.columns = true;
      check_product(f32, by, transposed, seed += 2);
      by.columns = false, by.doubled = true;
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

// A loop with two accumulators, one of which adds two matmuls, as in a gated pair and in a sum of
// matmuls.
TEST(Dot, SeveralMatmulsPerIteration) {
  constexpr int64_t kSide = 64, kDepth = 192;
  for (const DType type : {f16, bf16}) {
    KernelBuilder k("pair");
    const auto of = [&](const char* name) {
      return k.view(name, type, {kSide, kDepth}).partition({kSide, 32});
    };
    const Partition tx = of("x"), ty = of("y"), tz = of("z");
    auto [once, twice] =
        k.for_range(0, kDepth / 32, 1, pipelined(4),
                    carry(k.zeros({kSide, kSide}, f32), k.zeros({kSide, kSide}, f32)),
                    [&](Scalar i, Tile once, Tile twice) {
                      const Tile x = tx.load({0, i}), y = ty.load({0, i}).permute({1, 0}),
                                 z = tz.load({0, i}).permute({1, 0});
                      return carry(dot(x, y, once), dot(x, y, dot(x, z, twice)));
                    });
    const auto store = [&](const char* name, Tile tile) {
      k.view(name, f32, {kSide, kSide}).partition({kSide, kSide}).store({0, 0}, tile);
    };
    store("once", once);
    store("twice", twice);
    const Tensor x = random_rows(type, kSide, kDepth, 21), y = random_rows(type, kSide, kDepth, 22),
                 z = random_rows(type, kSide, kDepth, 23);
    Tensor first(f32, {kSide, kSide}), second(f32, {kSide, kSide});
    Arguments arguments;
    arguments.tensor("x", x);
    arguments.tensor("y", y);
    arguments.tensor("z", z);
    arguments.tensor("once", first);
    arguments.tensor("twice", second);
    backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                  arguments);
    Values xy(kSide * kSide, 0.0), both(kSide * kSide, 0.0);
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t j = 0; j < kSide; ++j)
        for (int64_t at = 0; at < kDepth; ++at) {
          const double left = x.get(i * kDepth + at), right = y.get(j * kDepth + at);
          xy[i * kSide + j] += left * right;
          both[i * kSide + j] += left * (right + z.get(j * kDepth + at));
        }
    EXPECT_TRUE(close_normwise(first.values(), xy, 1e-6)) << name(type);
    EXPECT_TRUE(close_normwise(second.values(), both, 1e-6)) << name(type);
  }
}

// Every iteration begins with the same accumulator, and only the result of the last iteration is
// used.
TEST(Dot, LoopInvariantAccumulator) {
  constexpr int64_t kSide = 64, kDepth = 128;
  KernelBuilder k("last");
  const Partition tx = k.view("x", bf16, {kSide, kDepth}).partition({kSide, 32}),
                  ty = k.view("y", bf16, {kDepth, kSide}).partition({32, kSide});
  const Tile begin = k.full({kSide, kSide}, 3.0f, f32);
  auto [sums] = k.for_range(0, kDepth / 32, 1, pipelined(4), carry(k.zeros({kSide, kSide}, f32)),
                            [&](Scalar i, Tile) {
                              return carry(dot(tx.load({0, i}), ty.load({i, 0}), begin));
                            });
  k.view("c", f32, {kSide, kSide}).partition({kSide, kSide}).store({0, 0}, sums);
  const Tensor x = random_rows(bf16, kSide, kDepth, 31), y = random_rows(bf16, kDepth, kSide, 32);
  Tensor c(f32, {kSide, kSide});
  Arguments arguments;
  arguments.tensor("x", x);
  arguments.tensor("y", y);
  arguments.tensor("c", c);
  backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                arguments);
  Values expected(kSide * kSide, 3.0);
  for (int64_t i = 0; i < kSide; ++i)
    for (int64_t j = 0; j < kSide; ++j)
      for (int64_t at = kDepth - 32; at < kDepth; ++at)
        expected[i * kSide + j] += x.get(i * kDepth + at) * y.get(at * kSide + j);
  EXPECT_TRUE(close_normwise(c.values(), expected, 1e-6));
}

// After the loop: row sums, for which threads synchronise, then an exchange through the memory that
// the loop's copies filled. A thread waits for its own copies before others write there.
TEST(Dot, MemoryOfALoopsCopiesIsReused) {
  constexpr int64_t kSide = 64, kStep = 128, kTurns = 5;
  KernelBuilder k("reuse");
  const Partition tx = k.view("x", f16, {kStep * kTurns, kSide}).partition({kStep, kSide}),
                  ty = k.view("y", f16, {kStep * kTurns, kSide}).partition({kStep, kSide});
  auto [sums, rows] = k.for_range(
      0, kTurns, 1, pipelined(3), carry(k.zeros({kSide, kSide}, f32), k.zeros({kSide}, f32)),
      [&](Scalar i, Tile sums, Tile rows) {
        const Tile x = tx.load({i, 0}).permute({1, 0});
        return carry(dot(x * 2.0f, ty.load({i, 0}) * 2.0f, sums), rows + sum(x.to(f32), 1));
      });
  k.view("rows", f32, {kSide}).partition({kSide}).store({0}, rows);
  k.view("c", f16, {kSide, kSide}).partition({kSide, kSide}).store({0, 0}, sums.to(f16));
  const Tensor x = random_rows(f16, kStep * kTurns, kSide, 41),
               y = random_rows(f16, kStep * kTurns, kSide, 42);
  Tensor c(f16, {kSide, kSide}), totals(f32, {kSide});
  Arguments arguments;
  arguments.tensor("x", x);
  arguments.tensor("y", y);
  arguments.tensor("rows", totals);
  arguments.tensor("c", c);
  backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                arguments);
  Values expected(kSide * kSide, 0.0), expected_rows(kSide, 0.0);
  for (int64_t at = 0; at < kStep * kTurns; ++at)
    for (int64_t i = 0; i < kSide; ++i) {
      expected_rows[i] += x.get(at * kSide + i);
      for (int64_t j = 0; j < kSide; ++j)
        expected[i * kSide + j] += 4 * x.get(at * kSide + i) * y.get(at * kSide + j);
    }
  EXPECT_TRUE(close_normwise(c.values(), expected, 1e-3));
  EXPECT_TRUE(close_normwise(totals.values(), expected_rows, 1e-6));
}

// One tile as both operands, in two matmuls and in another op: x^T x + x^T y, and the sum of x's
// columns.
TEST(Dot, TilesThatSeveralOperationsUse) {
  constexpr int64_t kRows = 128, kColumns = 32;
  for (const DType type : kFloats) {
    KernelBuilder k("gram");
    const Partition tx = k.view("x", type, {kRows, kColumns}).partition({32, kColumns}),
                    ty = k.view("y", type, {kRows, kColumns}).partition({32, kColumns});
    auto [products, columns] =
        k.for_range(0, kRows / 32, 1, pipelined(2),
                    carry(k.zeros({kColumns, kColumns}, f32), k.zeros({kColumns}, f32)),
                    [&](Scalar i, Tile products, Tile columns) {
                      const Tile x = tx.load({i, 0}), y = ty.load({i, 0});
                      const Tile square = dot(x.permute({1, 0}), x, products);
                      return carry(dot(x.permute({1, 0}), y, square), columns + sum(x.to(f32), 0));
                    });
    k.view("c", f32, {kColumns, kColumns}).partition({kColumns, kColumns}).store({0, 0}, products);
    k.view("sums", f32, {kColumns}).partition({kColumns}).store({0}, columns);
    const Tensor x = random_rows(type, kRows, kColumns, 11),
                 y = random_rows(type, kRows, kColumns, 12);
    Tensor c(f32, {kColumns, kColumns}), sums(f32, {kColumns});
    Arguments arguments;
    arguments.tensor("c", c);
    arguments.tensor("sums", sums);
    arguments.tensor("x", x);
    arguments.tensor("y", y);
    backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                  arguments);
    Values expected(kColumns * kColumns, 0.0), totals(kColumns, 0.0);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t i = 0; i < kColumns; ++i) {
        const double left = x.get(row * kColumns + i);
        totals[i] += left;
        for (int64_t j = 0; j < kColumns; ++j)
          expected[i * kColumns + j] +=
              left * (x.get(row * kColumns + j) + y.get(row * kColumns + j));
      }
    EXPECT_TRUE(close_normwise(c.values(), expected, 1e-6)) << name(type);
    EXPECT_TRUE(close_normwise(sums.values(), totals, 1e-6)) << name(type);
  }
}

// The first dimension of a tile is contiguous in memory; no slot has such rows.
TEST(Dot, TilesContiguousAlongFirstDimension) {
  constexpr int64_t kRows = 64, kDepth = 128;
  for (const DType type : kFloats) {
    KernelBuilder k("product");
    const View a = k.view("a", type, {kRows, kDepth}, {.strides = {1, kRows}}),
               b = k.view("b", type, {kDepth, kRows}, {.strides = {1, kDepth}});
    auto [sums] = k.for_range(0, kDepth / 32, 1, pipelined(3), carry(k.zeros({kRows, kRows}, f32)),
                              [&](Scalar i, Tile sums) {
                                return carry(dot(a.partition({kRows, 32}).load({0, i}),
                                                 b.partition({32, kRows}).load({i, 0}), sums));
                              });
    k.view("c", f32, {kRows, kRows}).partition({kRows, kRows}).store({0, 0}, sums);
    const Tensor left = random_rows(type, kDepth, kRows, 8),
                 right = random_rows(type, kRows, kDepth, 9);
    Tensor c(f32, {kRows, kRows});
    Arguments arguments;
    arguments.tensor("c", c);
    arguments.tensor("a", left.view({kRows, kDepth}, {1, kRows}));
    arguments.tensor("b", right.view({kDepth, kRows}, {1, kDepth}));
    backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                  arguments);
    Values expected(kRows * kRows, 0.0);
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kRows; ++j)
        for (int64_t at = 0; at < kDepth; ++at)
          expected[i * kRows + j] += left.get(at * kRows + i) * right.get(j * kDepth + at);
    EXPECT_TRUE(close_normwise(c.values(), expected, 1e-6)) << name(type);
  }
}

// An iteration loads elements that it has stored, so no load is issued ahead of a store of the same
// iteration.
TEST(Dot, PipelinedLoopsLoadTheirOwnStores) {
  KernelBuilder k("stored");
  const Partition p = k.view("x", f32, {8, 256}).partition({8, 64});
  auto [sum] =
      k.for_range(0, 4, 1, pipelined(2), carry(k.zeros({8, 64}, f32)), [&](Scalar i, Tile sum) {
        p.store({0, i}, k.full({8, 64}, 2.0f, f32));
        return carry(sum + p.load({0, i}));
      });
  k.view("y", f32, {8, 64}).partition({8, 64}).store({0, 0}, sum);
  Tensor x = random_rows(f32, 8, 256, 10), y(f32, {8, 64});
  Arguments arguments;
  arguments.tensor("x", x);
  arguments.tensor("y", y);
  backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                arguments);
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(y.get(i), 8.0);
}

TEST(Dot, ClustersComputeTheWholeMatmul) {
  const Product product{
      .m = 32, .n = 32, .k = 32, .bm = 32, .bn = 32, .bk = 16, .num_warps = 2, .num_ctas = 2};
  for (const DType type : {bf16, f32}) check_product(type, product, false, 51);
  for (const int stages : {1, 2})
    for (const bool transposed : {false, true}) {
      Product by = product;
      by.k = 64, by.stages = stages, by.tf32 = true;
      check_product(f32, by, transposed, 53);
      by.bk = 32, by.tf32 = false, by.result = i32;
      check_product(i8, by, transposed, 55);
    }
}

// softmax(q k^T) v with one tile of each: the accumulator of the first matmul is an operand of the
// second.
TEST(Dot, DependentMatmuls) {
  constexpr int64_t kQueries = 32, kKeys = 64, kDim = 32;
  for (const DType type : {f16, bf16, f32}) {
    KernelBuilder k("attention");
    const auto whole = [&](const char* name, int64_t rows) {
      return k.view(name, type, {rows, kDim}).partition({rows, kDim});
    };
    const Partition out = k.view("o", f32, {kQueries, kDim}).partition({kQueries, kDim});
    const Tile q = whole("q", kQueries).load({0, 0}), key = whole("k", kKeys).load({0, 0}),
               v = whole("v", kKeys).load({0, 0});
    const Tile p = softmax(dot(q, key.permute({1, 0}), k.zeros({kQueries, kKeys}, f32)) * 0.25f, 1);
    out.store({0, 0}, dot(p.to(type), v, k.zeros({kQueries, kDim}, f32)));
    Tensor o(f32, {kQueries, kDim}), tq = random_rows(type, kQueries, kDim, 5),
                                     tk = random_rows(type, kKeys, kDim, 6),
                                     tv = random_rows(type, kKeys, kDim, 7);
    Arguments arguments;
    arguments.tensor("o", o);
    arguments.tensor("q", tq);
    arguments.tensor("k", tk);
    arguments.tensor("v", tv);
    backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                  arguments);
    const Values qs = tq.values(), ks = tk.values(), vs = tv.values(), found = o.values();
    for (int64_t i = 0; i < kQueries; ++i) {
      std::vector<double> weight(kKeys);
      double total = 0;
      for (int64_t j = 0; j < kKeys; ++j) {
        double s = 0;
        for (int64_t d = 0; d < kDim; ++d) s += qs[i * kDim + d] * ks[j * kDim + d];
        total += weight[j] = std::exp(0.25 * s);
      }
      for (int64_t d = 0; d < kDim; ++d) {
        double expected = 0;
        for (int64_t j = 0; j < kKeys; ++j) expected += weight[j] / total * vs[j * kDim + d];
        EXPECT_NEAR(found[i * kDim + d], expected, type == f32 ? 1e-5 : 2e-2)
            << i << " " << d << " " << name(type);
      }
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test
