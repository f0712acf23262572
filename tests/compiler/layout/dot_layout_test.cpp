// Tests the layouts of matmuls against the formulas of the PTX ISA, element by element:
// mma.m16n8k16, m16n8k32 for i8, m16n8k8 for tf32, and the rows of wgmma.
#include "compiler/layout/dot_layout.h"

#include <gtest/gtest.h>

#include <set>

namespace ligerdsl::compiler {
namespace {

const std::vector<DotShape> kShapes = {
    {16, 8, 16, 1},
    {64, 64, 32, 4},
    {128, 128, 64, 8},
    {16, 256, 16, 4},
    {256, 8, 48, 4},
    {48, 24, 16, 2},
    {80, 40, 112, 4},
    {16, 8, 16, 32},
    {32, 16, 16, 16},
    {64, 64, 64, 4, 2},
    {128, 64, 64, 8, 1, WarpPart::rows},
    {32, 64, 32, 4, 1, WarpPart::rows},
    {64, 8, 16, 4, 1, WarpPart::group},
    {256, 96, 32, 8, 1, WarpPart::group},
    {192, 256, 64, 4, 1, WarpPart::group},
    {16, 8, 32, 1, 1, WarpPart::square, 1},
    {80, 40, 96, 4, 1, WarpPart::square, 1},
    {64, 64, 64, 4, 2, WarpPart::square, 1},
    {128, 64, 128, 8, 1, WarpPart::group, 1},
    {16, 8, 8, 1, 1, WarpPart::square, 4},
    {48, 24, 24, 2, 1, WarpPart::square, 4},
    {128, 64, 32, 8, 1, WarpPart::rows, 4},
    {64, 96, 32, 4, 1, WarpPart::group, 4},
};

// Row and column of an element in a fragment. The PTX ISA writes lane = 4 * groupID +
// threadID_in_group.
struct Place {
  int64_t row, column;
};
// `i`: index among the contiguous elements that a register holds.
Place of_a(int64_t lane, int64_t reg, int64_t i, int64_t bytes) {
  if (bytes == 1) return {lane / 4 + 8 * (reg % 2), lane % 4 * 4 + i + 16 * (reg / 2)};
  if (bytes == 4) return {lane / 4 + 8 * (reg % 2), lane % 4 + 4 * (reg / 2)};
  return {lane / 4 + 8 * (reg % 2), lane % 4 * 2 + i + 8 * (reg / 2)};
}
Place of_b(int64_t lane, int64_t reg, int64_t i, int64_t bytes) {
  if (bytes == 1) return {lane % 4 * 4 + i + 16 * reg, lane / 4};
  if (bytes == 4) return {lane % 4 + 4 * reg, lane / 4};
  return {lane % 4 * 2 + i + 8 * reg, lane / 4};
}
Place of_acc(int64_t lane, int64_t reg) {
  return {lane / 4 + 8 * (reg / 2), lane % 4 * 2 + reg % 2};
}

// Calls check(row, column, warp) with the first element of every fragment, which lane 0 holds.
template <class Check>
void for_fragments(const LinearLayout& layout, int64_t rows, int64_t columns, const Check& check) {
  for (int64_t warp = 0; warp < layout.warps(); ++warp)
    for (int64_t reg = 0; reg < layout.registers(); ++reg) {
      const LinearLayout::Coordinates at = layout.coordinates({.reg = reg, .warp = warp});
      if (at[0] % rows == 0 && at[1] % columns == 0) check(at[0], at[1], warp);
    }
}

// Finds the register in which lane 0 holds `in_lane_0`. Expects that this register of `lane` holds
// `expected`. The lowering looks up lane 0's registers and uses them for all lanes.
void expect_held(const LinearLayout& layout, int64_t lane, int64_t warp, Place origin,
                 Place in_lane_0, Place expected) {
  const LinearLayout::Coordinates first = layout.coordinates({.warp = warp});
  const std::optional<int64_t> reg = layout.registerAt(
      {origin.row - first[0] + in_lane_0.row, origin.column - first[1] + in_lane_0.column});
  ASSERT_TRUE(reg);
  const LinearLayout::Coordinates found =
      layout.coordinates({.reg = *reg, .lane = lane, .warp = warp});
  EXPECT_EQ(found[0], origin.row + expected.row);
  EXPECT_EQ(found[1], origin.column + expected.column);
}

TEST(DotLayout, FragmentsMatchThePtxIsa) {
  for (const DotShape& shape : kShapes) {
    const std::optional<DotLayouts> layouts = mmaLayouts(shape);
    ASSERT_TRUE(layouts);
    for (const int64_t lane : {0, 1, 5, 14, 31}) {
      const int64_t bytes = shape.bytes, depth = bytes == 1 ? 32 : bytes == 2 ? 16 : 8;
      for_fragments(layouts->a, kMmaM, depth, [&](int64_t row, int64_t column, int64_t warp) {
        for (int reg = 0; reg < 4; ++reg)
          for (int i = 0; i < 4 / bytes; ++i)
            expect_held(layouts->a, lane, warp, {row, column}, of_a(0, reg, i, bytes),
                        of_a(lane, reg, i, bytes));
      });
      for_fragments(layouts->b, depth, kMmaN, [&](int64_t row, int64_t column, int64_t warp) {
        for (int reg = 0; reg < 2; ++reg)
          for (int i = 0; i < 4 / bytes; ++i)
            expect_held(layouts->b, lane, warp, {row, column}, of_b(0, reg, i, bytes),
                        of_b(lane, reg, i, bytes));
      });
      for_fragments(layouts->acc, kMmaM, kMmaN, [&](int64_t row, int64_t column, int64_t warp) {
        for (int reg = 0; reg < 4; ++reg)
          expect_held(layouts->acc, lane, warp, {row, column}, of_acc(0, reg), of_acc(lane, reg));
      });
    }
  }
}

// Expects that each warp holds the rows of A and the columns of B of its accumulator, for all of k.
// If mma.sync does not fit the shape, each lane must hold those of its own accumulator elements.
void expect_operands_fit(const DotShape& shape, const DotLayouts& layouts) {
  for (int64_t warp = 0; warp < shape.warps; ++warp) {
    for (int64_t lane = 0; lane < 32; ++lane) {
      const auto held = [&](const LinearLayout& layout, bool whole_warp) {
        std::set<LinearLayout::Coordinates> elements;
        for (int64_t l = whole_warp ? 0 : lane; l < (whole_warp ? 32 : lane + 1); ++l)
          for (int64_t reg = 0; reg < layout.registers(); ++reg)
            elements.insert(layout.coordinates({.reg = reg, .lane = l, .warp = warp}));
        return elements;
      };
      const bool together = mmaLayouts(shape).has_value();
      const auto a = held(layouts.a, together), b = held(layouts.b, together);
      for (const auto& at : held(layouts.acc, together)) {
        for (int64_t k = 0; k < shape.k; ++k) {
          ASSERT_TRUE(a.contains({at[0], k})) << "row " << at[0];
          ASSERT_TRUE(b.contains({k, at[1]})) << "column " << at[1];
        }
      }
      if (together) break;
    }
  }
}

TEST(DotLayout, OperandsAreWhereTheirAccumulatorIs) {
  for (const DotShape& shape : kShapes) expect_operands_fit(shape, *mmaLayouts(shape));
  for (const DotShape shape : {DotShape{8, 8, 4, 1}, {7, 9, 3, 2}, {4, 32, 8, 4}, {24, 4, 5, 2}}) {
    EXPECT_FALSE(mmaLayouts(shape));
    expect_operands_fit(shape, threadLayouts(shape));
  }
}

// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16": warp w of a group has rows 16 w to 16
// w + 15 of 64.
TEST(DotLayout, WarpGroupsHaveTheRowsOfWgmma) {
  for (const DotShape& shape : std::vector<DotShape>{{64, 8, 16, 4},
                                                     {128, 192, 64, 4},
                                                     {256, 96, 32, 8},
                                                     {192, 64, 16, 4},
                                                     {256, 128, 64, 16}}) {
    DotShape by_groups = shape;
    by_groups.part = WarpPart::group;
    ASSERT_TRUE(fitsWgmma(by_groups));
    const LinearLayout acc = accumulatorLayout(by_groups);
    EXPECT_EQ(shapeOf(acc, shape.k).part, WarpPart::group);
    std::set<int64_t> rows;
    for (int64_t warp = 0; warp < shape.warps; ++warp)
      for (int64_t reg = 0; reg < acc.registers(); ++reg) {
        const LinearLayout::Coordinates first = acc.coordinates({.reg = reg, .warp = warp});
        if (first[0] % 16 == 0 && first[1] == 0) rows.insert(first[0]);
        if (first[0] % 16 == 0) {
          EXPECT_EQ(first[0] / 16 % 4, warp % 4);
        }
        for (const int64_t lane : {3, 13, 31}) {
          const LinearLayout::Coordinates at =
              acc.coordinates({.reg = reg, .lane = lane, .warp = warp});
          EXPECT_EQ(at[0], first[0] + lane / 4);
          EXPECT_EQ(at[1], first[1] + lane % 4 * 2);
        }
      }
    EXPECT_EQ(static_cast<int64_t>(rows.size()), shape.m / 16);
  }
  for (const DotShape& shape : std::vector<DotShape>{{64, 64, 16, 8},
                                                     {64, 64, 16, 2},
                                                     {32, 64, 16, 4},
                                                     {64, 512, 16, 4},
                                                     {64, 12, 16, 4},
                                                     {64, 64, 24, 4},
                                                     {128, 256, 64, 4},
                                                     {64, 64, 16, 4, 2},
                                                     {64, 40, 32, 4, 1, WarpPart::group, 1},
                                                     {64, 64, 16, 4, 1, WarpPart::group, 1}})
    EXPECT_FALSE(fitsWgmma(shape));
  for (const DotShape& shape : std::vector<DotShape>{{64, 24, 32, 4, 1, WarpPart::group, 1},
                                                     {64, 48, 32, 4, 1, WarpPart::group, 1},
                                                     {64, 40, 8, 4, 1, WarpPart::group, 4}})
    EXPECT_TRUE(fitsWgmma(shape));
}

TEST(DotLayout, EqualShapesHaveEqualAccumulators) {
  for (const DotShape& shape : kShapes) {
    EXPECT_EQ(mmaLayouts(shape)->acc, accumulatorLayout(shape));
    EXPECT_EQ(threadLayouts(shape).acc, accumulatorLayout(shape));
  }
}

}  // namespace
}  // namespace ligerdsl::compiler
