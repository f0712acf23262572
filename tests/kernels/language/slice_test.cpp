// Tests slices of views, with bounds that a program reads from memory. Checks contents, padding,
// and elements that must not change.
#include <algorithm>
#include <cmath>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::slice_test {
namespace {

struct Range {
  int64_t begin, end;
};

// Ranges inside the view and ranges that exceed it.
std::vector<Range> ranges(int64_t size) {
  return {{0, size},
          {3, 3},
          {5, size - 2},
          {1, 2},
          {-4, 7},
          {6, size + 9},
          {size + 1, size + 5},
          {9, 4},
          {-9, -2},
          {INT64_MIN, INT64_MAX},
          {INT64_MAX, INT64_MIN}};
}

int64_t clamped_begin(const Range& range, int64_t size) {
  return std::clamp<int64_t>(range.begin, 0, size);
}
int64_t clamped_end(const Range& range, int64_t size) {
  return std::clamp<int64_t>(range.end, clamped_begin(range, size), size);
}

Tensor numbers_of(const std::vector<Range>& all) {
  Tensor numbers(i64, {static_cast<int64_t>(all.size()), 2});
  for (size_t i = 0; i < all.size(); ++i) {
    numbers.set_integer(static_cast<int64_t>(2 * i), all[i].begin);
    numbers.set_integer(static_cast<int64_t>(2 * i + 1), all[i].end);
  }
  return numbers;
}

// Program p copies its slice, and one row of tiles after the end of the slice, to matrix p of y.
// Elements outside the slice read as the pad.
kernels::Step copy_slice(DType type, int axis, int64_t rows, int64_t columns) {
  KernelBuilder k("copy_slice");
  View y = k.view("y", type, {dyn, dyn, columns}), x = k.view("x", type, {dyn, columns}),
       numbers = k.view("numbers", i64, {dyn, 2}), sizes = k.view("sizes", i64, {dyn});
  Scalar p = k.program_id(0);
  View slice = x.slice(axis, numbers.load({p, 0}), numbers.load({p, 1}));
  sizes.store({p}, slice.dim(axis));
  constexpr int64_t kRows = 4, kColumns = 16;
  const Partition from = slice.partition({kRows, kColumns}),
                  to = y.partition({squeeze, kRows, kColumns});
  k.for_range(0, ceil_div(rows, kRows) + 1, 1, [&](const Scalar& i) {
    for (int64_t j = 0; j < ceil_div(columns, kColumns); ++j)
      to.store({p, i, j}, from.load({i, j}, {.pad = 7}));
  });
  return {.program = k.finish(), .launch = kernels::library_launch(Size::rows(), 2)};
}

TEST(Slice, HoldsOnlyElementsOfTheView) {
  int64_t number = 0;
  for (const DType type : {f32, bf16, i32})
    for (const int axis : {0, 1})
      for (const int64_t columns : {40, 33}) {
        const int64_t rows = 21, size = axis == 0 ? rows : columns;
        const std::vector<Range> all = ranges(size);
        const auto programs = static_cast<int64_t>(all.size());
        Tensor x = Tensor::rows(type, rows, columns, gap_of(number++)),
               y(type, {programs, rows, columns}), sizes(i64, {programs});
        for (int64_t i = 0; i < x.size(); ++i)
          is_integer(type) ? x.set_integer(i, i) : x.set(i, static_cast<double>(i % 200));
        backend().run({.steps = {copy_slice(type, axis, rows, columns)}}, programs,
                      Arguments()
                          .tensor("y", y)
                          .tensor("x", x)
                          .tensor("numbers", numbers_of(all))
                          .tensor("sizes", sizes));
        const auto value = [&](const Tensor& t, int64_t at) {
          return is_integer(type) ? static_cast<double>(t.get_integer(at)) : t.get(at);
        };
        for (int64_t p = 0; p < programs; ++p) {
          const int64_t begin = clamped_begin(all[p], size), end = clamped_end(all[p], size);
          EXPECT_EQ(sizes.get_integer(p), end - begin) << p;
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j) {
              const int64_t row = i + (axis == 0 ? begin : 0), column = j + (axis == 1 ? begin : 0);
              const bool inside = axis == 0 ? row < end : column < end;
              ASSERT_EQ(value(y, (p * rows + i) * columns + j),
                        inside ? value(x, row * columns + column) : 7)
                  << name(type) << " axis " << axis << " program " << p << " at " << i << ", " << j;
            }
        }
        EXPECT_TRUE(y.untouched_outside());
      }
}

// Program p writes p + 1 to its slice of rows, and then p + 101 to some columns of this slice.
kernels::Step fill_slices(DType type) {
  KernelBuilder k("fill_slices");
  View y = k.view("y", type, {dyn, dyn}), numbers = k.view("numbers", i64, {dyn, 2});
  Scalar p = k.program_id(0);
  View slice = y.slice(0, numbers.load({p, 0}), numbers.load({p, 1}));
  View inner = slice.slice(1, 2, slice.dim(1) - 3);
  k.for_range(0, cdiv(slice.dim(0), 8), 1, [&](const Scalar& i) {
    slice.partition({8, 64}).store({i, 0}, (p + 1).to(f32).to(type));
    inner.partition({8, 64}).store({i, 0}, (p + 101).to(f32).to(type));
  });
  return {.program = k.finish(), .launch = kernels::library_launch(Size::rows(), 1)};
}

TEST(Slice, StoresStayInside) {
  const std::vector<Range> all = {{-3, 5}, {5, 5}, {9, 20}, {20, 21}, {30, 29}, {37, 90}};
  for (const DType type : {f32, bf16}) {
    Tensor y = Tensor::rows(type, 40, 37, 3);
    for (int64_t i = 0; i < y.size(); ++i) y.set(i, -1);
    backend().run({.steps = {fill_slices(type)}}, static_cast<int64_t>(all.size()),
                  Arguments().tensor("y", y).tensor("numbers", numbers_of(all)));
    for (int64_t row = 0; row < 40; ++row)
      for (int64_t column = 0; column < 37; ++column) {
        double expected = -1;
        for (size_t p = 0; p < all.size(); ++p)
          if (row >= all[p].begin && row < all[p].end)
            expected = static_cast<double>(p) + (column >= 2 && column < 34 ? 101 : 1);
        ASSERT_EQ(y.get(row * 37 + column), expected) << row << ", " << column;
      }
    EXPECT_TRUE(y.untouched_outside());
  }
}

// Program p copies the rows p, p + step, p + 2 step ... from x to y, in tiles of several rows. With
// `offset`, tiles begin at 16-byte boundaries of x if all rows have one alignment offset.
kernels::Step copy_every(DType type, int64_t step, int64_t rows, int64_t columns, bool offset,
                         int num_warps) {
  KernelBuilder k("copy_every");
  View y = k.view("y", type, {dyn, columns}), x = k.view("x", type, {dyn, columns}),
       sizes = k.view("sizes", i64, {dyn});
  Scalar p = k.program_id(0);
  const View from = x.every(0, step, p), to = y.every(0, step, p);
  sizes.store({p}, from.dim(0));
  const Scalar early = offset ? from.alignment_offset({0}) : Scalar();
  constexpr int64_t kRows = 16, kColumns = 96;
  k.for_range(0, ceil_div(rows, kRows * step) + 1, 1, [&](const Scalar& i) {
    const Tile tile =
        from.partition({kRows, kColumns}).load({i, 0}, {.pad = 7, .alignment_offset = early});
    to.partition({kRows, kColumns}).store({i, 0}, tile, {.alignment_offset = early});
  });
  return {.program = k.finish(), .launch = kernels::library_launch(Size::rows(), num_warps)};
}

TEST(Slice, HasEveryNthRow) {
  int64_t number = 0;
  for (const DType type : {f32, bf16, i32, f16})
    for (const int64_t step : {1, 2, 3, 8})
      for (const int64_t columns : {80, 33, 3})
        for (const bool offset : {false, true}) {
          if (step % (16 / size_of(type)) != 0 && offset) continue;  // rows have different offsets
          const int64_t rows = 45, gap = gap_of(number), shift = number % 5;
          ++number;
          Tensor x = Tensor::rows(type, rows, columns, gap, shift),
                 y = Tensor::rows(type, rows, columns, gap, number % 3 ? shift : shift + 1),
                 sizes(i64, {step});
          for (int64_t i = 0; i < x.size(); ++i)
            is_integer(type) ? x.set_integer(i, i) : x.set(i, static_cast<double>(i % 200));
          backend().run(
              {.steps = {copy_every(type, step, rows, columns, offset, number % 2 ? 1 : 4)}}, step,
              Arguments().tensor("y", y).tensor("x", x).tensor("sizes", sizes));
          for (int64_t p = 0; p < step; ++p)
            EXPECT_EQ(sizes.get_integer(p), (rows - p + step - 1) / step);
          const auto value = [&](const Tensor& t, int64_t at) {
            return is_integer(type) ? static_cast<double>(t.get_integer(at)) : t.get(at);
          };
          for (int64_t i = 0; i < rows * columns; ++i)
            ASSERT_EQ(value(y, i), value(x, i))
                << name(type) << " step " << step << " of " << columns << " columns at " << i;
          EXPECT_TRUE(y.untouched_outside());
        }
}

// Matmuls with a slice of x's rows as operand, loaded by TMA copies where the target has them. If
// `turned`, the result is slice^T slice, with the slice's rows along k. Otherwise each tile of the
// slice is multiplied by w, from one tile before the slice to one after it.
struct Products {
  static constexpr int64_t kRows = 200, kTile = 64, kTiles = kRows / kTile + 3, kMatrices = 3;
  bool turned;
  bool nested;  // slices a slice of x that lacks the first two rows and the last row

  int64_t first() const { return nested ? 2 : 0; }
  int64_t size() const { return nested ? kRows - 3 : kRows; }
  int64_t results() const { return turned ? 1 : kTiles; }

  kernels::Step step() const {
    KernelBuilder k("products_of_slices");
    View y = k.view("y", f32, {dyn, kTile, kTile}), x = k.view("x", bf16, {kMatrices, dyn, kTile}),
         w = k.view("w", bf16, {kTile, kTile}), numbers = k.view("numbers", i64, {dyn, 2});
    const Scalar program = k.program_id(0), p = program / static_cast<int32_t>(results()),
                 tile = program % static_cast<int32_t>(results()) - 1,
                 matrix = p % static_cast<int32_t>(kMatrices);
    const View all = nested ? x.slice(1, first(), first() + size()) : x;
    const Partition rows =
        all.slice(1, numbers.load({p, 0}), numbers.load({p, 1})).partition({squeeze, kTile, kTile});
    const Partition weights = w.partition({kTile, kTile});
    auto [sums] = k.for_range(
        turned ? -1 : 0, turned ? kTiles - 1 : 1, 1,
        LoopOptions{.num_stages = 3, .tensor_copies = true}, carry(k.zeros({kTile, kTile}, f32)),
        [&](const Scalar& step, const Tile& sums) {
          const Tile block =
              rows.load({matrix, turned ? step : tile, turned ? k.constant(0, i32) : step});
          return carry(turned ? dot(block.permute({1, 0}), rows.load({matrix, step, 0}), sums)
                              : dot(block, weights.load({step, 0}), sums));
        });
    y.partition({squeeze, kTile, kTile}).store({program, 0, 0}, sums);
    return {.program = k.finish(), .launch = kernels::library_launch(Size::rows(), 4)};
  }

  // Returns the expected result for a matrix, from its rows inside the slice.
  Values expected(const Values& x, const Values& w, int64_t matrix, int64_t begin,
                  int64_t end) const {
    const auto at = [&](int64_t row, int64_t column) {
      const bool inside = row >= 0 && row < end - begin;
      return inside ? x[(matrix * kRows + first() + begin + row) * kTile + column] : 0;
    };
    Values sums(results() * kTile * kTile, 0.0);
    for (int64_t i = 0; i < results() * kTile; ++i)
      for (int64_t j = 0; j < kTile; ++j)
        for (int64_t n = 0; n < (turned ? kTiles * kTile : kTile); ++n)
          sums[i * kTile + j] += turned ? at(n, i) * at(n, j) : at(i - kTile, n) * w[n * kTile + j];
    return sums;
  }
};

// Elements next to a slice never appear in its tiles.
TEST(Slice, MatmulsOfTiles) {
  constexpr int64_t kTile = Products::kTile, kRows = Products::kRows;
  for (const bool turned : {false, true})
    for (const bool nested : {false, true}) {
      SCOPED_TRACE(std::string(turned ? "turned" : "") + (nested ? " nested" : ""));
      const Products products{turned, nested};
      const std::vector<Range> all = ranges(products.size());
      const auto programs = static_cast<int64_t>(all.size());
      Tensor w(bf16, {kTile, kTile});
      for (int64_t i = 0; i < w.size(); ++i) w.set(i, static_cast<double>(i * 7 % 5 - 2));
      for (int64_t first = 0; first < programs; first += Products::kMatrices) {
        // Each slice has its own matrix.
        const int64_t count = std::min(Products::kMatrices, programs - first);
        const std::vector<Range> some(all.begin() + first, all.begin() + first + count);
        Tensor x = Tensor(bf16, {Products::kMatrices, kRows, kTile},
                          {(kRows + 1) * (kTile + 8), kTile + 8, 1});
        for (int64_t i = 0; i < x.size(); ++i) x.set(i, i % 2 ? INFINITY : NAN);
        for (int64_t p = 0; p < count; ++p)
          for (int64_t row = clamped_begin(some[p], products.size());
               row < clamped_end(some[p], products.size()); ++row)
            for (int64_t column = 0; column < kTile; ++column)
              x.set((p * kRows + products.first() + row) * kTile + column,
                    static_cast<double>((row * 3 + column) % 7 - 3));
        Tensor some_y(f32, {count * products.results(), kTile, kTile});
        backend().run({.steps = {products.step()}}, count * products.results(),
                      Arguments()
                          .tensor("y", some_y)
                          .tensor("x", x)
                          .tensor("w", w)
                          .tensor("numbers", numbers_of(some)));
        const Values values = x.values(), found = some_y.values();
        for (int64_t p = 0; p < count; ++p) {
          const Values wanted =
              products.expected(values, w.values(), p, clamped_begin(some[p], products.size()),
                                clamped_end(some[p], products.size()));
          const Values mine(found.begin() + p * static_cast<int64_t>(wanted.size()),
                            found.begin() + (p + 1) * static_cast<int64_t>(wanted.size()));
          EXPECT_EQ(mine, wanted) << some[p].begin << " to " << some[p].end;
        }
      }
    }
}

// A program moves a window of 64 elements. Threads read through one slice what other threads wrote
// through another.
kernels::Step moving_window() {
  KernelBuilder k("moving_window");
  View x = k.view("x", f32, {dyn});
  k.for_range(0, x.dim(0) - 64, 1, [&](const Scalar& i) {
    const Tile block = x.slice(0, i, i + 64).partition({64}).load({0});
    x.slice(0, i + 1, i + 65).partition({64}).store({0}, block + 1.0f);
  });
  return {.program = k.finish(), .launch = kernels::library_launch(1, 2)};
}

TEST(Slice, ReadsStoresOfAnotherSlice) {
  constexpr int64_t kSize = 75;
  Tensor x(f32, {kSize});
  Values expected;
  for (int64_t i = 0; i < kSize; ++i)
    x.set(i, static_cast<double>(i * i % 17)), expected.push_back(x.get(i));
  for (int64_t i = 0; i + 64 < kSize; ++i) {
    const Values block(expected.begin() + i, expected.begin() + i + 64);
    for (int64_t j = 0; j < 64; ++j) expected[i + 1 + j] = block[j] + 1;
  }
  backend().run({.steps = {moving_window()}}, 1, Arguments().tensor("x", x));
  for (int64_t i = 0; i < kSize; ++i) ASSERT_EQ(x.get(i), expected[i]) << i;
}

}  // namespace
}  // namespace ligerdsl::test::slice_test
