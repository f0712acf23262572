// Tests loops with several or dependent matmuls, accumulators, shared memory and clusters.
#include <functional>

#include "tests/kernels/language/dot_product.h"

namespace ligerdsl::test::dot_loops_test {
namespace {

// A loop with two accumulators, as in a gated matmul. One of them gets two matmuls per iteration.
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

// After the loop, row sums synchronise the threads. Then an exchange reuses the memory of the
// loop's copies. So each thread must wait for its own copies before it synchronises.
TEST(Dot, MemoryOfALoopsCopiesIsReused) {
  constexpr int64_t kSide = 64, kStep = 128, kIterations = 5;
  KernelBuilder k("reuse");
  const Partition tx = k.view("x", f16, {kStep * kIterations, kSide}).partition({kStep, kSide}),
                  ty = k.view("y", f16, {kStep * kIterations, kSide}).partition({kStep, kSide});
  auto [sums, rows] = k.for_range(
      0, kIterations, 1, pipelined(3), carry(k.zeros({kSide, kSide}, f32), k.zeros({kSide}, f32)),
      [&](Scalar i, Tile sums, Tile rows) {
        const Tile x = tx.load({i, 0}).permute({1, 0});
        return carry(dot(x * 2.0f, ty.load({i, 0}) * 2.0f, sums), rows + sum(x.to(f32), 1));
      });
  k.view("rows", f32, {kSide}).partition({kSide}).store({0}, rows);
  k.view("c", f16, {kSide, kSide}).partition({kSide, kSide}).store({0, 0}, sums.to(f16));
  const Tensor x = random_rows(f16, kStep * kIterations, kSide, 41),
               y = random_rows(f16, kStep * kIterations, kSide, 42);
  Tensor c(f16, {kSide, kSide}), totals(f32, {kSide});
  Arguments arguments;
  arguments.tensor("x", x);
  arguments.tensor("y", y);
  arguments.tensor("rows", totals);
  arguments.tensor("c", c);
  backend().run({.steps = {{.program = k.finish(), .launch = kernels::library_launch(1, 4)}}}, 1,
                arguments);
  Values expected(kSide * kSide, 0.0), expected_rows(kSide, 0.0);
  for (int64_t at = 0; at < kStep * kIterations; ++at)
    for (int64_t i = 0; i < kSide; ++i) {
      expected_rows[i] += x.get(at * kSide + i);
      for (int64_t j = 0; j < kSide; ++j)
        expected[i * kSide + j] += 4 * x.get(at * kSide + i) * y.get(at * kSide + j);
    }
  EXPECT_TRUE(close_normwise(c.values(), expected, 1e-3));
  EXPECT_TRUE(close_normwise(totals.values(), expected_rows, 1e-6));
}

// Each tile of x has three uses: in x^T x as both operands, in x^T y, and in the column sums of x.
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

// Tiles are contiguous in memory along their first dimension, so they are not copied to slots.
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
}  // namespace ligerdsl::test::dot_loops_test
