// Copies of rows with an alignment offset (View::alignment_offset). Wherever rows begin and end,
// every element is copied and nothing else is touched. Elements outside of the row read as the pad.
#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test {
namespace {

struct Case {
  DType type, offset_type;  // dtype of the copied rows, and of the rows that give the offset
  int64_t columns, block;
  bool own;              // the offset is that of the rows that are read; else of others
  int64_t rows_of_tile;  // 0: the dimension is squeezed
};

// y = x, and the sum of the tile elements outside the row: each pad is 1.
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

// Offsets of rows with wider or narrower elements. They may be larger than a vector of the copied
// rows.
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

}  // namespace
}  // namespace ligerdsl::test
