// A tiled matmul of random matrices, checked against float64 sums of the stored numbers.
#pragma once

#include <cmath>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"
#include "tests/support/tf32.h"

namespace ligerdsl::test {

struct Product {
  int64_t m, n, k;     // sizes of the matrices
  int64_t bm, bn, bk;  // sizes of tiles
  int num_warps = 4, num_ctas = 1;
  int stages = 1;        // stages of the loop along k
  bool dynamic = false;  // no size is known when the kernel is compiled
  bool columns = false;  // a is stored as [k, m]
  bool doubled = false;  // a's tiles are multiplied by two before the matmul
  int programs = 0;      // programs of a persistent kernel, or 0 for one per tile
  DType result = f32;
  DType second = f32;  // dtype of an fp8 b; otherwise b has a's dtype
  bool tf32 = false;
  bool tensor = false;  // TMA copies
};

struct Matrix {
  int64_t rows, columns;
  Values values;
  double at(int64_t i, int64_t j) const { return values[i * columns + j]; }
};

// Computes c [m, n] = a [m, k] b. b is stored as [k, n] or, if `transposed`, as [n, k].
inline Matrix multiply(DType type, const Product& p, bool transposed, const Tensor& a,
                       const Tensor& b) {
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
                      const Tile operand =
                          transposed ? tb.load({column, i}).permute({1, 0}) : tb.load({i, column});
                      Tile rows = p.columns ? ta.load({i, row}).permute({1, 0}) : ta.load({row, i});
                      if (p.doubled) rows = type == i8 ? rows + rows : rows * 2.0f;
                      return carry(dot(rows, operand, sums, options));
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
inline void fill_operand(Tensor& operand, uint64_t seed, int64_t limit) {
  Random random(seed);
  if (operand.type() != i8) {
    operand.fill(random.normals(operand.size()));
    return;
  }
  for (int64_t i = 0; i < operand.size(); ++i)
    operand.set_integer(i, random.below(2 * limit) - limit);
}

inline void check_product(DType type, const Product& p, bool transposed, uint64_t seed) {
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
  fill_operand(a, seed, p.doubled ? 64 : 128);
  fill_operand(b, seed + 1, 128);
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
  // The error is relative to the sum of |a b|. It has at most k f32 roundings of 2^-24, rarely all
  // in one direction, and one rounding to the result's type. The tensor cores of sm_90a keep about
  // 14 bits in fp8 accumulators. TMA copies round f32 to tf32 differently. i8 accumulators are
  // exact.
  const bool few_bits = (is_fp8(type) || (p.tf32 && p.tensor)) && backend().name() == "cuda";
  EXPECT_LE(worst, type == i8 && p.result == i32 ? 0
                   : few_bits                    ? 1e-3
                   : p.result == f32             ? 2e-6
                   : p.result == f16             ? 5e-4
                                                 : 4e-3);
}

inline const std::vector<Product> kProducts = {
    {64, 64, 64, 32, 32, 32},      {50, 70, 90, 32, 32, 32}, {16, 8, 16, 16, 8, 16, 1},
    {96, 48, 80, 48, 24, 16, 2},   {33, 17, 5, 16, 16, 16},  {40, 40, 40, 8, 8, 8},
    {64, 128, 48, 64, 128, 48, 8}, {7, 9, 3, 4, 4, 4, 1},    {80, 40, 32, 80, 40, 32, 4},
    {64, 64, 32, 64, 64, 32, 16}};

}  // namespace ligerdsl::test
