// Compares ops that move elements along an axis, and ops built from them, with C++. Elements have
// every width; axes are inside warps, between warps and between CTAs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::rearrange_test {
namespace {

using kernels::Step;
using Program = std::function<std::vector<Tile>(KernelBuilder&, const Tile&)>;

struct Launched {
  int num_warps, num_ctas;
};
const std::vector<Launched> kLaunches = {{1, 1}, {4, 1}, {8, 1}, {2, 2}, {4, 4}};

// Returns the results of a program on one tile [rows, columns], as doubles.
std::vector<Values> run(DType type, const Shape& shape, const Values& input,
                        const Launched& launched, const Program& program) {
  KernelBuilder k("rearrange");
  View x = k.view("x", type, {shape[0], shape[1]});
  std::vector<std::pair<DType, Shape>> results;
  const std::vector<Tile> tiles = program(k, x.partition(shape).load({0, 0}));
  Arguments arguments;
  Tensor in = Tensor(type, {shape[0], shape[1]}).fill(input);
  arguments.tensor("x", in);
  std::vector<Tensor> out;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const std::string name = "y" + std::to_string(i);
    const int64_t columns = tiles[i].shape().back(), rows = tiles[i].size() / columns;
    View y = k.view(name, tiles[i].dtype(), {rows, columns});
    y.partition({rows, columns}).store({0, 0}, tiles[i].reshape({rows, columns}));
    arguments.tensor(name, out.emplace_back(tiles[i].dtype(), std::vector<int64_t>{rows, columns}));
  }
  Step step{.program = k.finish(), .launch = kernels::library_launch(1, launched.num_warps)};
  step.launch.num_ctas = launched.num_ctas;
  backend().run({.steps = {step}}, 1, arguments);
  std::vector<Values> values;
  for (const Tensor& tensor : out) values.push_back(tensor.values());
  return values;
}

Values numbers(const Shape& shape, uint64_t seed) {
  Values values = Random(seed).normals(shape[0] * shape[1], 40.0);
  for (double& value : values)
    value = std::clamp(std::trunc(value), -100.0, 100.0) + 0.0;  // exact in any type
  return values;
}

// Returns the element at (row, column) of a tile.
double& at(Values& values, const Shape& shape, int64_t row, int64_t column) {
  return values[row * shape[1] + column];
}

const std::vector<Shape> kShapes = {{1, 64}, {4, 96}, {16, 16}, {2, 2048}, {64, 4}};

// Calls check(shape, axis, launched, type) for every shape, axis and launch, and cycles through the
// types.
template <class Check>
void for_tiles(const std::vector<DType>& types, const Check& check) {
  size_t number = 0;
  for (const Shape& shape : kShapes) {
    for (const int axis : {0, 1}) {
      for (const Launched& launched : kLaunches) {
        const DType type = types[number++ % types.size()];
        SCOPED_TRACE(std::to_string(shape[0]) + " x " + std::to_string(shape[1]) + " " +
                     name(type) + ", axis " + std::to_string(axis) + ", " +
                     std::to_string(launched.num_ctas) + " CTAs of " +
                     std::to_string(launched.num_warps) + " warps");
        check(shape, axis, launched, type);
      }
    }
  }
}

TEST(Rearrange, ShuffleXorMovesPartners) {
  for_tiles(
      {f32, bf16, i64, i8}, [](const Shape& shape, int axis, const Launched& launched, DType type) {
        const int64_t size = shape[axis], most = (size & -size) - 1;
        std::vector<int64_t> masks = {1, 2, 5, (most + 1) / 2, most};
        std::erase_if(masks, [&](int64_t mask) { return mask < 1 || mask > most; });
        if (masks.empty()) return;
        Values input = numbers(shape, 7);
        const auto found = run(type, shape, input, launched, [&](KernelBuilder&, const Tile& x) {
          std::vector<Tile> tiles;
          for (const int64_t mask : masks) tiles.push_back(shuffle_xor(x, mask, axis));
          return tiles;
        });
        for (size_t n = 0; n < masks.size(); ++n) {
          Values expected(input.size());
          for (int64_t i = 0; i < shape[0]; ++i)
            for (int64_t j = 0; j < shape[1]; ++j)
              at(expected, shape, i, j) =
                  at(input, shape, axis == 0 ? i ^ masks[n] : i, axis == 1 ? j ^ masks[n] : j);
          EXPECT_EQ(found[n], expected) << "mask " << masks[n];
        }
      });
}

TEST(Rearrange, GatherTakesElementsByIndex) {
  for_tiles({f32, f16, i32}, [](const Shape& shape, int axis, const Launched& launched,
                                DType type) {
    const int64_t size = shape[axis];
    Values input = numbers(shape, 11);
    // (3 i + j) mod (size + 3) - 1: some are below 0 or beyond the axis.
    const auto found = run(type, shape, input, launched, [&](KernelBuilder& k, const Tile& x) {
      const Tile row = k.arange(shape[0]).expand_dims(1).broadcast_to(shape);
      const Tile column = k.arange(shape[1]).expand_dims(0).broadcast_to(shape);
      const Tile index = (row * 3 + column) % (size + 3) - 1;
      return std::vector{gather(x, index, axis), gather(x + 1, index.to(i64), axis) - 1};
    });
    Values expected(input.size());
    for (int64_t i = 0; i < shape[0]; ++i) {
      for (int64_t j = 0; j < shape[1]; ++j) {
        const int64_t wanted = (3 * i + j) % (size + 3) - 1;
        const int64_t from = wanted < 0 || wanted >= size ? size - 1 : wanted;
        at(expected, shape, i, j) = at(input, shape, axis == 0 ? from : i, axis == 1 ? from : j);
      }
    }
    EXPECT_EQ(found[0], expected);
    EXPECT_EQ(found[1], expected);
  });
}

// The result and the source of a gather differ in size; a loop carries the source.
TEST(Rearrange, GatherFromCarriedTile) {
  const Shape shape = {2, 64};
  Values input = numbers(shape, 13);
  for (const Launched& launched : kLaunches) {
    const auto found = run(f32, shape, input, launched, [&](KernelBuilder& k, const Tile& x) {
      const Tile next = (k.arange(64) + 1).expand_dims(0).broadcast_to(shape);
      auto [turned] = k.for_range(0, 70, 1, carry(x),
                                  [&](Scalar, Tile t) { return carry(gather(t, next % 64, 1)); });
      const Tile few = (k.arange(4) * 16).expand_dims(0).broadcast_to({2, 4});
      return std::vector{turned, gather(turned, few, 1)};
    });
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 64; ++j)
        ASSERT_EQ(found[0][i * 64 + j], at(input, shape, i, (j + 70) % 64));
      for (int64_t j = 0; j < 4; ++j)
        ASSERT_EQ(found[1][i * 4 + j], at(input, shape, i, (j * 16 + 70) % 64));
    }
  }
}

TEST(Rearrange, FlipJoinSplitInterleave) {
  const Shape shape = {4, 96};
  Values input = numbers(shape, 17);
  for (const Launched& launched : kLaunches) {
    const auto found = run(bf16, shape, input, launched, [&](KernelBuilder&, const Tile& x) {
      const auto [even, odd] = split(x.reshape({4, 48, 2}));
      return std::vector{flip(x), flip(x, 0), join(x, -x), even, odd, interleave(even, odd)};
    });
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 96; ++j) {
        const double value = at(input, shape, i, j);
        const int64_t n = i * 96 + j;
        ASSERT_EQ(found[0][i * 96 + 95 - j], value);
        ASSERT_EQ(found[1][(3 - i) * 96 + j], value);
        ASSERT_EQ(found[2][2 * n], value);
        ASSERT_EQ(found[2][2 * n + 1], -value);
        ASSERT_EQ(found[3 + j % 2][i * 48 + j / 2], value);
        ASSERT_EQ(found[5][n], value);
      }
    }
  }
}

// Tiles with several uses are reshaped, and then reshaped back to the first shape.
TEST(Rearrange, ReshapedThereAndBack) {
  const Shape shape = {8, 8};
  Values input = numbers(shape, 31);
  for (const Launched& launched : kLaunches) {
    const auto found = run(f32, shape, input, launched, [&](KernelBuilder& k, const Tile& x) {
      const Tile flat = x.reshape({64}) * 2,
                 columns = k.arange(8).to(f32).expand_dims(0).broadcast_to({8, 8});
      const Tile scaled = (flat.reshape({8, 8}) * columns).reshape({64}),
                 pairs = (-flat.reshape({32, 2})).reshape({64});
      const Tile kept = (k.arange(64) * 37 % 101).reshape({8, 8}), full = k.full({96}, 5, f32);
      const Tile back = (k.arange(96) * -1 + 95);
      return std::vector{scaled,
                         pairs,
                         flip(flat),
                         reduce_max((kept + 1).reshape({64})).broadcast_to({8}),
                         kept,
                         full.reshape({48, 1, 2}).reshape({96}),
                         gather(full, back)};
    });
    for (int64_t i = 0; i < 64; ++i) {
      ASSERT_EQ(found[0][i], 2 * input[i] * static_cast<double>(i % 8)) << i;
      ASSERT_EQ(found[1][i], -2 * input[i]) << i;
      ASSERT_EQ(found[2][63 - i], 2 * input[i]) << i;
      ASSERT_EQ(found[4][i], static_cast<double>(i * 37 % 101)) << i;
    }
    EXPECT_EQ(found[3], Values(8, 101));
    EXPECT_EQ(found[5], Values(96, 5));
    EXPECT_EQ(found[6], Values(96, 5));
  }
}

// Calls check for each line along the axis, with the flat indices of its elements in order.
template <class Check>
void for_lines(const Shape& shape, int axis, const Check& check) {
  for (int64_t line = 0; line < shape[1 - axis]; ++line) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < shape[axis]; ++i)
      places.push_back(axis == 0 ? i * shape[1] + line : line * shape[1] + i);
    check(places);
  }
}

const std::vector<Shape> kSorted = {{1, 2}, {2, 16}, {8, 8}, {1, 512}, {128, 2}};

TEST(Rearrange, SortIsStdStableSort) {
  for (const Shape& shape : kSorted) {
    Values input = numbers(shape, 19);
    for (const bool descending : {false, true}) {
      for (const int axis : {0, 1}) {
        for (const DType type : {f32, bf16, i32, i16, i8}) {
          const Launched launched = kLaunches[(shape[1] + axis + descending) % kLaunches.size()];
          const auto found = run(type, shape, input, launched, [&](KernelBuilder&, const Tile& x) {
            const Sorted both = stable_sort(x, axis, descending);
            return std::vector{sort(x, axis, descending), both.values, both.indices};
          });
          for_lines(shape, axis, [&](const std::vector<int64_t>& places) {
            std::vector<int64_t> order(places.size());
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
              const double x = input[places[a]], y = input[places[b]];
              return descending ? x > y : x < y;
            });
            for (size_t i = 0; i < places.size(); ++i) {
              ASSERT_EQ(found[0][places[i]], input[places[order[i]]]) << i;
              ASSERT_EQ(found[1][places[i]], input[places[order[i]]]) << i;
              ASSERT_EQ(found[2][places[i]], static_cast<double>(order[i])) << i;
            }
          });
        }
      }
    }
  }
}

TEST(Rearrange, NanSortsLast) {
  const Shape shape = {1, 8};
  const Values input = {3, NAN, -INFINITY, 2, NAN, INFINITY, -1, 0};
  for (const Launched& launched : kLaunches) {
    const auto found = run(f32, shape, input, launched, [&](KernelBuilder&, const Tile& x) {
      const Sorted up = stable_sort(x), down = stable_sort(x, -1, true), best = topk(x, 4);
      return std::vector{up.values, up.indices, down.indices, best.indices};
    });
    EXPECT_TRUE(std::isnan(found[0][6]) && std::isnan(found[0][7]));
    EXPECT_EQ(found[1], (Values{2, 6, 7, 3, 0, 5, 1, 4}));
    EXPECT_EQ(found[2], (Values{1, 4, 5, 0, 3, 7, 6, 2}));
    EXPECT_EQ(found[3], (Values{1, 4, 5, 0}));
  }
}

TEST(Rearrange, TopkIsPrefixOfDescendingSort) {
  for (const Shape& shape : {Shape{1, 1024}, {4, 64}, {16, 4}}) {
    Values input = numbers(shape, 23);
    for (int64_t k = 1; k <= shape[1]; k *= 4) {
      const Launched launched = kLaunches[(k + shape[0]) % kLaunches.size()];
      const auto found = run(f32, shape, input, launched, [&](KernelBuilder&, const Tile& x) {
        const Sorted best = topk(x, k, 1);
        return std::vector{best.values, best.indices};
      });
      for (int64_t row = 0; row < shape[0]; ++row) {
        std::vector<int64_t> order(shape[1]);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return at(input, shape, row, a) > at(input, shape, row, b);
        });
        for (int64_t i = 0; i < k; ++i) {
          ASSERT_EQ(found[0][row * k + i], at(input, shape, row, order[i])) << k;
          ASSERT_EQ(found[1][row * k + i], static_cast<double>(order[i])) << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::rearrange_test
