// Slices of views at numbers that a program reads: what they give, hold, and never touch.
#include <algorithm>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test {
namespace {

struct Range {
  int64_t begin, end;
};

// Begins and ends that the view has, and that it has not.
std::vector<Range> ranges(int64_t size) {
  return {{0, size}, {3, 3}, {5, size - 2}, {1, 2}, {-4, 7}, {6, size + 9}, {size + 1, size + 5}, {9, 4},
          {-9, -2}, {INT64_MIN, INT64_MAX}, {INT64_MAX, INT64_MIN}};
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

// Program p copies the slice to the p-th matrix of y, tile by tile and a tile more, where it is at the begin; the rest is the pad.
kernels::Step copy_slice(DType type, int axis, int64_t rows, int64_t columns) {
  KernelBuilder k("copy_slice");
  View y = k.view("y", type, {dyn, dyn, columns}), x = k.view("x", type, {dyn, columns}),
       numbers = k.view("numbers", i64, {dyn, 2}), sizes = k.view("sizes", i64, {dyn});
  Scalar p = k.program_id(0);
  View slice = x.slice(axis, numbers.load({p, 0}), numbers.load({p, 1}));
  sizes.store({p}, slice.dim(axis));
  constexpr int64_t kRows = 4, kColumns = 16;
  const Partition from = slice.partition({kRows, kColumns}), to = y.partition({squeeze, kRows, kColumns});
  k.for_range(0, ceil_div(rows, kRows) + 1, 1, [&](const Scalar& i) {
    for (int64_t j = 0; j < ceil_div(columns, kColumns); ++j) to.store({p, i, j}, from.load({i, j}, {.pad = 7}));
  });
  return {.program = k.finish(), .launch = kernels::library_launch(Size::rows(), 2)};
}

TEST(Slice, IsTheElementsThatTheViewHas) {
  int64_t number = 0;
  for (const DType type : {f32, bf16, i32})
    for (const int axis : {0, 1})
      for (const int64_t columns : {40, 33}) {
        const int64_t rows = 21, size = axis == 0 ? rows : columns;
        const std::vector<Range> all = ranges(size);
        const auto programs = static_cast<int64_t>(all.size());
        Tensor x = Tensor::rows(type, rows, columns, gap_of(number++)), y(type, {programs, rows, columns}), sizes(i64, {programs});
        for (int64_t i = 0; i < x.size(); ++i) is_integer(type) ? x.set_integer(i, i) : x.set(i, static_cast<double>(i % 200));
        backend().run({.steps = {copy_slice(type, axis, rows, columns)}}, programs,
                      Arguments().tensor("y", y).tensor("x", x).tensor("numbers", numbers_of(all)).tensor("sizes", sizes));
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
              ASSERT_EQ(value(y, (p * rows + i) * columns + j), inside ? value(x, row * columns + column) : 7)
                  << name(type) << " axis " << axis << " program " << p << " at " << i << ", " << j;
            }
        }
        EXPECT_TRUE(y.untouched_outside());
      }
}

// Program p writes its number to the rows of its slice, and takes the slice of a slice.
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

TEST(Slice, StoresStayWithinIt) {
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

// A program that moves a window: what it wrote by one slice it reads by another one, whose tiles other threads hold.
kernels::Step moving_window() {
  KernelBuilder k("moving_window");
  View x = k.view("x", f32, {dyn});
  k.for_range(0, x.dim(0) - 64, 1, [&](const Scalar& i) {
    const Tile block = x.slice(0, i, i + 64).partition({64}).load({0});
    x.slice(0, i + 1, i + 65).partition({64}).store({0}, block + 1.0f);
  });
  return {.program = k.finish(), .launch = kernels::library_launch(1, 2)};
}

TEST(Slice, SeesWhatAnotherOneWrote) {
  constexpr int64_t kSize = 75;
  Tensor x(f32, {kSize});
  Values expected;
  for (int64_t i = 0; i < kSize; ++i) x.set(i, static_cast<double>(i * i % 17)), expected.push_back(x.get(i));
  for (int64_t i = 0; i + 64 < kSize; ++i) {
    const Values block(expected.begin() + i, expected.begin() + i + 64);
    for (int64_t j = 0; j < 64; ++j) expected[i + 1 + j] = block[j] + 1;
  }
  backend().run({.steps = {moving_window()}}, 1, Arguments().tensor("x", x));
  for (int64_t i = 0; i < kSize; ++i) ASSERT_EQ(x.get(i), expected[i]) << i;
}

}  // namespace
}  // namespace ligerdsl::test
