// Tests copies of rows with an alignment offset (View::alignment_offset). Wherever rows begin and
// end, each element of a row is copied and no other memory changes. Elements outside the row read
// as the pad.
#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::alignment_offset_test {
namespace {

struct Case {
  DType type, offset_type;  // dtype of the copied rows, and of the rows that give the offset
  int64_t columns, block;
  bool own;              // x gives the offset; otherwise `other` does
  int64_t rows_of_tile;  // 0: the dimension is squeezed
};

// Computes y = x, and the sum of (element - 1) over all loaded elements. The pad is 1, so it adds
// 0.
kernels::Step copy(const Case& c) {
  KernelBuilder k("copy_with_lead");
  View y = k.view("y", c.type, {dyn, c.columns}), x = k.view("x", c.type, {dyn, c.columns}),
       other = k.view("other", c.offset_type, {dyn, c.columns}), sums = k.view("sums", f32, {dyn});
  Scalar at = k.program_id(0);
  const View& offset_of = c.own ? x : other;
  Scalar alignment_offset =
      offset_of.alignment_offset({at * static_cast<int>(std::max<int64_t>(c.rows_of_tile, 1))});
  Scalar blocks = cdiv(x.dim(1).to(i32) + offset_of.max_alignment_offset(), c.block);
  const Shape cut{c.rows_of_tile, c.block};
  auto [total] = k.for_range(0, blocks, 1, carry(k.constant(0, f32)), [&](Scalar b, Scalar total) {
    Tile t = x.partition(cut).load({at, b}, {.pad = 1, .alignment_offset = alignment_offset});
    y.partition(cut).store({at, b}, t, {.alignment_offset = alignment_offset});
    return carry(total + sum(t.to(f32).reshape({std::max<int64_t>(c.rows_of_tile, 1) * c.block})));
  });
  sums.store({at}, total - (blocks * static_cast<int>(c.block)).to(f32));
  return {.program = k.finish(), .launch = kernels::library_launch(2, 2)};
}

Tensor small_numbers(const Case& c, int64_t rows, int64_t gap, int64_t shift) {
  Tensor tensor = Tensor::rows(c.type, rows, c.columns, gap, shift);
  for (int64_t i = 0; i < tensor.size(); ++i)
    is_integer(c.type) ? tensor.set_integer(i, i % 5) : tensor.set(i, static_cast<double>(i % 5));
  return tensor;
}

void expect_copies(const Case& c, int64_t gap, int64_t shift, int64_t shift_of_copy) {
  const int64_t high = std::max<int64_t>(c.rows_of_tile, 1), rows = 2 * high;
  Tensor x = small_numbers(c, rows, gap, shift),
         y = Tensor::rows(c.type, rows, c.columns, gap, shift_of_copy),
         other = Tensor::rows(c.offset_type, rows, c.columns, gap, 1), sums(f32, {2});
  backend().run(
      {.steps = {copy(c)}}, rows,
      Arguments().tensor("y", y).tensor("x", x).tensor("other", other).tensor("sums", sums));
  SCOPED_TRACE(std::string(name(c.type)) + " columns " + std::to_string(c.columns) + " block " +
               std::to_string(c.block) + " gap " + std::to_string(gap) + " shift " +
               std::to_string(shift) + ", " + std::to_string(shift_of_copy) +
               (c.own ? " own alignment offset"
                      : std::string(" alignment offset of ") + name(c.offset_type)));
  EXPECT_TRUE(y.same_bits(x));
  EXPECT_TRUE(y.untouched_outside());
  for (int64_t i = 0; i < 2 && high == 1; ++i) {
    double expected = -static_cast<double>(c.columns);
    for (int64_t j = 0; j < c.columns; ++j)
      expected += is_integer(c.type) ? static_cast<double>(x.get_integer(i * c.columns + j))
                                     : x.get(i * c.columns + j);
    EXPECT_EQ(sums.get(i), expected);
  }
}

TEST(AlignmentOffset, RowsAtEveryByteOfAVector) {
  for (DType type : {f32, bf16, i64}) {
    const int64_t vector = 16 / size_of(type);
    for (int64_t columns : {int64_t{1}, vector - 1, int64_t{67}, int64_t{300}}) {
      for (int64_t shift = 0; shift < vector; ++shift) {
        const Case c{type, type, columns, 64 * vector, true, squeeze};
        expect_copies(c, 0, shift, shift);
        expect_copies(c, 1, shift, shift + 1);
        expect_copies({type, type, columns, 128, true, squeeze}, 0, shift, shift + vector);
      }
    }
  }
}

// The alignment offset comes from other rows, whose elements may be wider or narrower. It may
// exceed the number of elements in a 16-byte vector of the copied rows.
TEST(AlignmentOffset, RowsWithTheOffsetOfOtherRows) {
  for (DType alignment_offset : {bf16, f32, i64}) {
    for (DType type : {f32, bf16}) {
      for (int64_t columns : {3, 67, 300})
        for (int64_t shift : {0, 1, 3})
          expect_copies({type, alignment_offset, columns, 256, false, squeeze}, 1, shift, shift);
    }
  }
}

// Rows of one tile begin at different offsets in a vector.
TEST(AlignmentOffset, TilesOfSeveralRows) {
  for (DType type : {f32, bf16})
    for (int64_t columns : {67, 300})
      for (int64_t shift : {0, 3})
        expect_copies({type, type, columns, 128, true, 2}, 1, shift, shift + 1);
}

// Tiles smaller than the alignment offset: several tiles hold columns before the row.
TEST(AlignmentOffset, TilesSmallerThanTheOffset) {
  for (DType type : {f32, bf16}) {
    const int64_t vector = 16 / size_of(type);
    for (int64_t block : {int64_t{1}, vector / 2, vector, 3 * vector})
      for (int64_t columns : {int64_t{1}, vector - 1, int64_t{37}})
        for (int64_t shift : {int64_t{1}, vector - 1})
          expect_copies({type, type, columns, block, true, squeeze}, 1, shift, shift);
  }
  expect_copies({f32, bf16, 37, 4, false, squeeze}, 1, 0, 0);
}

// Computes y = x and the sum of each row, in a loop whose step keeps the alignment offset of the
// first row. Contiguous rows are copied ahead to shared memory, with the elements before them.
TEST(AlignmentOffset, LoopsOverRows) {
  constexpr int kPrograms = 8, kStages = 3;
  for (DType type : {f32, bf16, i32})
    for (int64_t columns : {1001, 1002, 1004})
      for (int64_t gap : {0, 1, 8}) {
        KernelBuilder k("copy_rows_ahead");
        View y = k.view("y", type, {dyn, columns}), x = k.view("x", type, {dyn, columns}),
             z = k.view("z", type, {dyn, columns}), sums = k.view("sums", f32, {dyn});
        const Scalar first = k.program_id(0), offset = x.alignment_offset({first});
        const Shape row_of{squeeze, 1024};
        auto [count] = k.for_range(
            first, x.dim(0), assume_divisible(k.num_programs(0), kPrograms), pipelined(kStages),
            carry(k.constant(0, i32)), [&](Scalar row, Scalar count) {
              Tile t = x.partition(row_of).load({row, 0}, {.alignment_offset = offset}),
                   u = z.partition(row_of).load({row, 0}, {.alignment_offset = offset});
              y.partition(row_of).store({row, 0}, t, {.alignment_offset = offset});
              sums.store({row}, sum(t.to(f32)) + sum(u.to(f32)));
              return carry(count + 1);
            });
        constexpr int64_t kRows = 19;
        const Case c{type, type, columns, 1024, true, squeeze};
        Tensor from = small_numbers(c, kRows, gap, 0), other = small_numbers(c, kRows, gap, 0),
               to = Tensor::rows(type, kRows, columns, gap), total(f32, {kRows});
        backend().took_generic();
        backend().run(
            {.steps = {{.program = k.finish(), .launch = kernels::library_launch(kPrograms, 2)}}},
            kRows,
            Arguments().tensor("y", to).tensor("x", from).tensor("z", other).tensor("sums", total));
        if (gap == 0) {
          EXPECT_EQ(backend().took_generic(), std::vector<std::string>());
        }
        SCOPED_TRACE(std::string(name(type)) + " columns " + std::to_string(columns) + " gap " +
                     std::to_string(gap));
        EXPECT_TRUE(to.same_bits(from));
        EXPECT_TRUE(to.untouched_outside());
        for (int64_t i = 0; i < kRows; ++i) {
          double expected = 0;
          for (int64_t j = i * columns; j < (i + 1) * columns; ++j)
            expected += 2 * static_cast<double>(j % 5);
          EXPECT_EQ(total.get(i), expected) << i;
        }
      }
}

// Copies a weight to each row of y, with the alignment offset of rows of x.
TEST(AlignmentOffset, WeightOfRows) {
  for (DType type : {f32, bf16, i32})
    for (DType type_of_rows : {f32, bf16})
      for (int64_t columns : {9, 67, 301, 1001})
        for (int64_t block : {256, 2048}) {
          KernelBuilder k("copy_weight_to_rows");
          View y = k.view("y", type, {dyn, columns}), x = k.view("x", type_of_rows, {dyn, columns}),
               w = k.view("w", type, {columns});
          const Scalar row = k.program_id(0), offset = x.alignment_offset({row});
          const Scalar blocks = cdiv(x.dim(1).to(i32) + x.max_alignment_offset(), block);
          k.for_range(0, blocks, 1, [&](Scalar b) {
            Tile t = w.partition({block}).load({b}, {.alignment_offset = offset});
            y.partition({squeeze, block}).store({row, b}, t, {.alignment_offset = offset});
          });
          constexpr int64_t kRows = 9;
          const Case c{type, type, columns, block, true, squeeze};
          Tensor from(type_of_rows, {kRows, columns}), to(type, {kRows, columns}),
              weight = small_numbers(c, 1, 0, 0).view({columns}, {1});
          backend().run(
              {.steps = {{.program = k.finish(), .launch = kernels::library_launch(kRows, 2)}}},
              kRows, Arguments().tensor("y", to).tensor("x", from).tensor("w", weight));
          SCOPED_TRACE(std::string(name(type)) + " offset of " + name(type_of_rows) + " columns " +
                       std::to_string(columns) + " block " + std::to_string(block));
          EXPECT_TRUE(to.untouched_outside());
          for (int64_t i = 0; i < kRows * columns; ++i) {
            const int64_t expected = i % columns % 5;
            ASSERT_EQ(is_integer(type) ? static_cast<double>(to.get_integer(i)) : to.get(i),
                      static_cast<double>(expected))
                << i;
          }
        }
}

}  // namespace
}  // namespace ligerdsl::test::alignment_offset_test
