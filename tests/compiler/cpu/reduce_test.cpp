// Tests reductions, scans and shape ops along every axis of tiles with odd and even shapes.
#include "oracle.h"

namespace ligerdsl::testing::reduce_test {
namespace {

const std::vector<Shape> kShapes = {{1},     {3},       {16},       {40},      {320},
                                    {1024},  {4, 1},    {1, 48},    {8, 16},   {5, 64},
                                    {64, 3}, {16, 160}, {2, 3, 32}, {4, 8, 2}, {3, 1, 16}};

Shape without(Shape shape, int axis) {
  shape.erase(shape.begin() + axis);
  return shape;
}

int64_t product(const Shape& shape) {
  int64_t total = 1;
  for (int64_t size : shape) total *= size;
  return total;
}

std::string text(const Shape& shape) {
  std::string out;
  for (int64_t size : shape) out += std::to_string(size) + " ";
  return out;
}

// Checks y = f(x). In every dimension longer than 8, x has `missing` fewer elements than its tile
// and is padded with `pad`.
void check(const Shape& shape, const Shape& outShape, DType inType, DType outType,
           const std::function<Tile(KernelBuilder&, Tile)>& f, Tolerance tolerance = {},
           double pad = 0, int64_t missing = 3, std::vector<double> elements = {}) {
  SCOPED_TRACE(text(shape));
  Shape dims = shape;
  for (int64_t& size : dims)
    if (size > 8) size -= missing;
  if (elements.empty())
    elements = is_float(inType) ? randomNumbers(product(dims), 11)
                                : randomIntegers(product(dims), 11, -50, 50);
  auto build = [&](KernelBuilder& k) {
    View out = k.view("out", outType, Shape(outShape.size(), dyn)),
         x = k.view("x", inType, Shape(shape.size(), dyn));
    Tile v = x.partition(shape).load(Indices(shape.size(), 0), {.pad = pad});
    out.partition(outShape).store(Indices(outShape.size(), 0), f(k, v));
  };
  Case()
      .out(outType, outShape)
      .view(inType, elements, dims)
      .check(build, {1}, tolerance, {{}, distinct(2)});
}

TEST(CpuReduce, ReducesAlongEveryAxis) {
  for (const Shape& shape : kShapes) {
    for (int axis = 0; axis < int(shape.size()) && shape.size() > 1; ++axis) {
      SCOPED_TRACE(axis);
      check(shape, without(shape, axis), f32, f32,
            [&](KernelBuilder&, Tile x) { return sum(x, axis); }, {1e-5, 1e-5});
      check(
          shape, without(shape, axis), f32, f32,
          [&](KernelBuilder&, Tile x) { return reduce_max(x * 2.0f, axis); }, {0, 0}, -100);
      check(
          shape, without(shape, axis), i32, i32,
          [&](KernelBuilder&, Tile x) { return reduce_min(x, axis); }, {0, 0}, 100);
      check(
          shape, without(shape, axis), bf16, bf16,
          [&](KernelBuilder&, Tile x) { return reduce_max(x, axis); }, {0, 0}, -100);
      check(shape, without(shape, axis), i64, i64,
            [&](KernelBuilder&, Tile x) { return sum(x, axis); }, {0, 0});
      check(
          shape, without(shape, axis), f32, i32,
          [&](KernelBuilder&, Tile x) { return argmax(x, axis); }, {0, 0}, -100);
    }
    check(shape, {1}, f32, f32, [](KernelBuilder&, Tile x) { return sum(x).broadcast_to({1}); },
          {1e-5, 1e-5});
    check(
        shape, {1}, f16, f16,
        [](KernelBuilder&, Tile x) { return reduce_min(x).broadcast_to({1}); }, {0, 0}, 100);
    check(
        shape, {1}, f32, i32, [](KernelBuilder&, Tile x) { return argmin(x).broadcast_to({1}); },
        {0, 0}, 100);
    check(
        shape, {1}, i32, i32, [](KernelBuilder&, Tile x) { return argmax(x).broadcast_to({1}); },
        {0, 0}, -100);
  }
}

TEST(CpuReduce, MaxOfNanIsNan) {
  std::vector<double> x = randomNumbers(253, 3);
  x[100] = NAN;
  check(
      {256}, {1}, f32, f32, [](KernelBuilder&, Tile v) { return reduce_max(v).broadcast_to({1}); },
      {0, 0}, 0, 3, x);
}

TEST(CpuReduce, CombinersReduceSeveralValues) {
  for (const Shape& shape : kShapes) {
    auto logSumExp = [](Tile x, Tile ones) {
      auto [m, s] = reduce({x, ones}, [](Scalar m0, Scalar s0, Scalar m1, Scalar s1) {
        Scalar m = max(m0, m1);
        return carry(m, s0 * exp(m0 - m) + s1 * exp(m1 - m));
      });
      return m + log(s);
    };
    check(
        shape, {1}, f32, f32,
        [&](KernelBuilder& k, Tile x) {
          return logSumExp(x, k.ones(shape, f32)).broadcast_to({1});
        },
        {1e-5, 1e-5}, 0.5);
    for (int axis = 0; axis < int(shape.size()) && shape.size() > 1; ++axis) {
      check(shape, without(shape, axis), f32, f32,
            [&](KernelBuilder& k, Tile x) {
              auto [product, sum] = reduce(
                  {x * 0.01f + 1.0f, k.ones(shape, f32)}, axis,
                  [](Scalar a, Scalar n, Scalar b, Scalar m) { return carry(a * b, n + m); });
              return product * sum;
            },
            {1e-4, 1e-4});
    }
  }
}

// The order of additions depends on the tile only, not on the end of the view or on other ops in
// the loop.
TEST(CpuReduce, SumsHaveTheSameBitsInEveryLoop) {
  constexpr int64_t kTile = 512;
  for (int64_t n = 3; n <= kTile; n += 37) {
    std::vector<float> x = randomFloats(kTile), whole(x), sums;
    std::fill(whole.begin() + n, whole.end(), 0.0f);
    for (bool stored : {false, true}) {
      for (bool ends : {false, true}) {
        CpuKernel kernel(
            [&](KernelBuilder& k) {
              View s = k.view("s", f32, {1}), y = k.view("y", f32, {kTile}),
                   in = k.view("x", f32, {dyn});
              Tile t = in.partition({kTile}).load({0});
              Tile e = exp(t) * t;
              s.store({0}, sum(e));
              if (stored) y.partition({kTile}).store({0}, e);
            },
            aliasing({1, 2, 3}));
        std::vector<float>& from = ends ? x : whole;
        std::vector<float> y(kTile), s(1);
        kernel.run(Slots()
                       .view(s.data(), {1})
                       .view(y.data(), {kTile})
                       .view(from.data(), {ends ? n : kTile}));
        sums.push_back(s[0]);
      }
    }
    for (float sum : sums) EXPECT_EQ(sum, sums[0]) << n;
  }
}

// One loop computes the stored row and its reductions, although their tiles differ in shape.
TEST(CpuReduce, StoredRowAndItsSumsShareALoop) {
  const auto build = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn}),
         total = k.view("total", f32, {dyn});
    View largest = k.view("largest", f32, {dyn});
    Scalar row = k.program_id(0);
    Tile e = exp(x.partition({1, 256}).load({row, 0}));
    y.partition({1, 256}).store({row, 0}, e * 2.0f);
    Scalar all = sum(e * 3.0f), most = reduce_max(e);
    total.store({row}, all);
    largest.store({row}, most);
  };
  Case()
      .out(f32, {3, 200})
      .view(f32, randomNumbers(3 * 200), {3, 200})
      .out(f32, {3})
      .out(f32, {3})
      .check(build, {3}, {1e-5, 1e-5}, {{}, aliasing({1, 2, 3, 4})});
  KernelBuilder k("row");
  build(k);
  program::CompileOptions options = aliasing({1, 2, 3, 4});
  options.emit = "loops";
  program::Program program = k.finish();
  const std::string loops = compileProgram(program, options).code;
  options.emit = "";
  EXPECT_LT(compileProgram(program, options).arena_bytes, 256 * 4)
      << loops;  // e has no buffer
}

TEST(CpuReduce, ReducesOneTileSeveralTimes) {
  check({2048}, {4}, f32, f32,
        [](KernelBuilder& k, Tile x) {
          Scalar total = sum(x), top = reduce_max(x), squares = sum(x * x);
          Scalar spread = sum((x - total) * (x - total));
          Tile i = k.arange(4);
          return where(i == 0, total, where(i == 1, top, where(i == 2, squares, spread)));
        },
        {1e-2, 1e-4});
}

// All reductions that are added to carried tiles share one loop. The quotient is the only input of
// the reductions with a buffer, because a store also reads it.
TEST(CpuReduce, CarriedReductionsShareALoop) {
  const auto build = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
    View first = k.view("first", f32, {64}), second = k.view("second", f32, {64});
    const auto at = [](const View& v, const Scalar& i) {
      return v.partition({4, 64}).load({i, 0});
    };
    const Tile zeros = k.zeros({64}, f32);
    auto [a, c] = k.for_range(0, 3, 1, carry(zeros, zeros), [&](Scalar i, Tile a, Tile c) {
      const Tile t = at(x, i), r = 1.0f / (exp(t) + 1.0f);
      y.partition({4, 64}).store({i, 0}, r * 2.0f);
      return carry(a + sum(r, 0), c + sum(r * t, 0));
    });
    first.partition({64}).store({0}, a);
    second.partition({64}).store({0}, c);
  };
  Case()
      .out(f32, {11, 60})
      .view(f32, randomNumbers(11 * 60), {11, 60})
      .out(f32, {64})
      .out(f32, {64})
      .check(build, {1}, {1e-5, 1e-5}, {{}, aliasing({1, 2, 3, 4})});
  KernelBuilder k("sums");
  build(k);
  // Buffers: two carried tiles, two results of reductions and one quotient of 4 x 64. The
  // exponential is not stored.
  EXPECT_EQ(compileProgram(k.finish(), aliasing({1, 2, 3, 4})).arena_bytes, (2 + 2 + 4) * 64 * 4);
}

TEST(CpuReduce, ReducesAcrossRowsSeveralTimes) {
  for (int64_t missing : {0, 3}) {
    check(
        {256}, {32}, f32, f32,
        [](KernelBuilder&, Tile x) {
          Tile folded = x.reshape({8, 32});
          Tile top = reduce_max(folded, 0), total = sum(exp(folded), 0),
               spread = sum(folded * folded, 0);
          auto [best, at] = max_with_index(folded, 0);
          return top + total * 2.0f + spread + best * at.to(f32) +
                 sum(exp(folded - top.expand_dims(0)), 0);
        },
        {1e-4, 1e-5}, 0.25, missing);
  }
}

// The narrow widths fill one, two or four registers. The wide ones take several rounds of
// registers.
TEST(CpuReduce, ReducesAcrossRowsOfEveryWidth) {
  for (int64_t width : {8, 16, 32, 48, 64, 192})
    for (int64_t missing : {0, 3}) {
      check(
          {8 * width}, {width}, f32, f32,
          [&](KernelBuilder&, Tile x) {
            Tile folded = x.reshape({8, width});
            auto [best, at] = max_with_index(folded, 0);
            return sum(folded, 0) + reduce_min(folded, 0) + best * at.to(f32);
          },
          {1e-5, 1e-5}, 0.25, missing);
    }
}

TEST(CpuScan, ScansEveryAxisForwardAndReverse) {
  for (const Shape& shape : kShapes) {
    for (int axis = 0; axis < int(shape.size()); ++axis) {
      for (bool reverse : {false, true}) {
        SCOPED_TRACE("axis " + std::to_string(axis) + (reverse ? " reverse" : ""));
        check(shape, shape, f32, f32,
              [&](KernelBuilder&, Tile x) { return cumsum(x, axis, reverse); }, {1e-4, 1e-5});
        check(shape, shape, i32, i32,
              [&](KernelBuilder&, Tile x) {
                auto [m] = scan(
                    {x}, axis, [](Scalar a, Scalar b) { return max(a, b); }, reverse);
                return m;
              },
              {0, 0});
        check(shape, shape, f32, f32,
              [&](KernelBuilder&, Tile x) {  // a first-order recurrence: not commutative
                auto [a, y] = scan(
                    {x * 0.1f, x}, axis,
                    [](Scalar a0, Scalar y0, Scalar a1, Scalar y1) {
                      return carry(a0 * a1, a1 * y0 + y1);
                    },
                    reverse);
                return y;
              },
              {1e-5, 1e-5});
      }
    }
  }
}

TEST(CpuShape, ReshapesPermutesExpandsAndBroadcasts) {
  auto same = [](const Shape& from, const Shape& to,
                 const std::function<Tile(KernelBuilder&, Tile)>& f) {
    for (DType type : {f32, bf16, i8, i16, i64}) check(from, to, type, type, f, {0, 0});
  };
  for (auto [from, to] : std::vector<std::pair<Shape, Shape>>{{{64}, {4, 16}},
                                                              {{64}, {16, 4}},
                                                              {{48}, {3, 16}},
                                                              {{48}, {16, 3}},
                                                              {{4, 16}, {64}},
                                                              {{16, 4}, {64}},
                                                              {{8, 16}, {16, 8}},
                                                              {{2, 32}, {1, 64, 1}},
                                                              {{3, 16, 2}, {6, 16}},
                                                              {{6, 16}, {3, 2, 16}},
                                                              {{1}, {1, 1}}}) {
    SCOPED_TRACE("to " + text(to));
    Shape target = to;
    same(from, target, [&](KernelBuilder&, Tile x) { return x.reshape(target); });
    same(from, target, [&](KernelBuilder&, Tile x) { return (x + x).reshape(target); });
  }
  same({16, 32}, {32, 16}, [](KernelBuilder&, Tile x) { return x.permute({1, 0}); });
  same({2, 3, 16}, {16, 2, 3}, [](KernelBuilder&, Tile x) { return (x + x).permute({2, 0, 1}); });
  same({4, 16}, {16, 4}, [](KernelBuilder&, Tile x) {
    return (x + x).permute({1, 0}).reshape({64}).reshape({16, 4});
  });
  same({16}, {4, 16}, [](KernelBuilder&, Tile x) {
    return x.expand_dims(0).broadcast_to({4, 16});
  });
  same({16}, {16, 8}, [](KernelBuilder&, Tile x) {
    return x.expand_dims(1).broadcast_to({16, 8});
  });
  same({16}, {16, 16}, [](KernelBuilder&, Tile x) { return x.expand_dims(1) + x.expand_dims(0); });
  check({16}, {16, 16}, f32, f32, [](KernelBuilder& k, Tile x) {
    return x.expand_dims(1) * k.arange(16).to(f32).expand_dims(0);
  });
  check({8, 32}, {8, 32}, f32, f32,
        [](KernelBuilder&, Tile x) { return x - sum(x, 1).expand_dims(1); }, {1e-5, 1e-5});
  check({8, 32}, {8, 32}, f32, f32,
        [](KernelBuilder&, Tile x) { return x - reduce_max(x, 0).expand_dims(0); }, {1e-6, 0});
  check({8, 32}, {8, 32}, f32, f32, [](KernelBuilder&, Tile x) { return softmax(x, 1); },
        {1e-6, 1e-5});
  check({8, 32}, {8, 32}, f32, f32, [](KernelBuilder&, Tile x) { return softmax(x, 0); },
        {1e-6, 1e-5});
  check({128}, {128}, f32, f32, [](KernelBuilder&, Tile x) { return exp(x) / sum(exp(x)); },
        {1e-6, 1e-5});
}

}  // namespace
}  // namespace ligerdsl::testing::reduce_test
