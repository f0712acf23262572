// Tests the tiles that ldmatrix reads against the PTX ISA, element by element. Tests swizzled rows:
// each element has its own address, the same as with TMA copies, and a warp's accesses have no bank
// conflicts.
#include "compiler/layout/matrix_read.h"

#include <gtest/gtest.h>

#include <set>

#include "compiler/layout/dot_layout.h"
#include "compiler/layout/swizzle.h"

namespace ligerdsl::compiler {
namespace {

using Coordinates = LinearLayout::Coordinates;

// Returns the tile coordinates of the element in register `reg` of a lane after the ldmatrix
// instructions of `read`. Elements have `bytes` bytes. An instruction moves pairs of bytes, and a
// lane's register holds four bytes.
Coordinates loaded(const MatrixRead& read, int64_t reg, int64_t lane, int64_t warp, int64_t bytes) {
  const int64_t each = 4 / bytes, word = reg / each, i = reg % each;
  const int64_t matrix = word % read.matrices, instruction = word / read.matrices;
  const int64_t row = read.transposed ? lane % 4 * 2 + i : lane / 4;
  const int64_t column = read.transposed ? lane / 4 : lane % 4 * each + i;
  const Coordinates named =
      read.rows.coordinates({.reg = instruction, .lane = 8 * matrix + row, .warp = warp});
  return {named[0], named[1] * (16 / bytes) + column};
}

void expect_read(const LinearLayout& tile, bool transposed, int64_t bytes = 2) {
  SCOPED_TRACE(tile.str());
  const std::optional<MatrixRead> read = matrixRead(tile, bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->transposed, transposed);
  EXPECT_EQ(read->rows.registers() * read->matrices * (4 / bytes), tile.registers());
  for (int64_t warp = 0; warp < tile.warps(); ++warp)
    for (int64_t lane = 0; lane < tile.lanes(); ++lane)
      for (int64_t reg = 0; reg < tile.registers(); ++reg)
        ASSERT_EQ(loaded(*read, reg, lane, warp, bytes),
                  tile.coordinates({.reg = reg, .lane = lane, .warp = warp}))
            << "register " << reg << " of lane " << lane << " of warp " << warp;
}

const std::vector<DotShape> kShapes = {{16, 8, 16, 1},
                                       {64, 64, 32, 4},
                                       {128, 256, 16, 8},
                                       {48, 24, 16, 2},
                                       {80, 40, 112, 4},
                                       {64, 64, 64, 4, 2},
                                       {128, 64, 64, 8, 1, WarpPart::rows}};

TEST(MatrixRead, ReadsTheFragmentsOfDots) {
  for (const DotShape& shape : kShapes) {
    const DotLayouts layouts = *mmaLayouts(shape);
    expect_read(layouts.a, false);
    expect_read(layouts.b, true);
    expect_read(layouts.a.permute({1, 0}), true);
    expect_read(layouts.b.permute({1, 0}), false);
  }
}

// Elements of 1 or 4 bytes can be read only along k, because ldmatrix transposes pairs of bytes.
TEST(MatrixRead, ReadsOtherElementSizesAlongK) {
  for (const int64_t bytes : {1, 4})
    for (DotShape shape : kShapes) {
      shape.bytes = bytes;
      if (bytes == 1) shape.k *= 2;  // k has at least 32 bytes
      const DotLayouts layouts = *mmaLayouts(shape);
      expect_read(layouts.a, false, bytes);
      expect_read(layouts.b.permute({1, 0}), false, bytes);
      EXPECT_FALSE(matrixRead(layouts.b, bytes));
      EXPECT_FALSE(matrixRead(layouts.a.permute({1, 0}), bytes));
      EXPECT_FALSE(matrixRead(layouts.a, 2));
    }
}

TEST(MatrixRead, RejectsOtherLayouts) {
  EXPECT_FALSE(matrixRead(accumulatorLayout({4, 4, 16, 1})));
  EXPECT_FALSE(matrixRead(LinearLayout::blocked({64, 64}, 8, 32, 4)));
  EXPECT_FALSE(matrixRead(LinearLayout::blocked({64}, 2, 32, 1)));
  EXPECT_FALSE(matrixRead(threadLayouts({64, 64, 32, 4}).a));
}

struct Rows {
  int64_t rows, bytes;
};
const std::vector<Rows> kRows = {{8, 128}, {64, 512}, {128, 64}, {16, 32},
                                 {48, 96}, {24, 384}, {80, 224}};

TEST(Swizzle, EveryUnitHasItsOwnAddress) {
  for (const auto& [rows, bytes] : kRows) {
    const Swizzle swizzle(rows, Swizzle::widest(rows, bytes));
    ASSERT_GT(swizzle.bytes, 0);
    std::set<int64_t> taken;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t byte = 0; byte < bytes; ++byte) taken.insert(swizzle.offset(row, byte));
    EXPECT_EQ(static_cast<int64_t>(taken.size()), rows * bytes);
    EXPECT_EQ(*taken.rbegin(), rows * bytes - 1);
  }
  EXPECT_EQ(Swizzle::widest(8, 48), 0);
  EXPECT_EQ(Swizzle::widest(12, 128), 0);
}

// PTX ISA, "Swizzling Modes": bits 4 to 6 of an address are xored with bits 7 to 9. Narrower panels
// use only the first one or two of these bits.
TEST(Swizzle, MatchesThePtxIsa) {
  for (const int64_t bytes : {32, 64, 128}) {
    const Swizzle swizzle(64, bytes);
    const int bits = bytes == 128 ? 3 : bytes == 64 ? 2 : 1;
    for (int64_t at = 0; at < 64 * bytes; at += Swizzle::kUnit)
      for (int bit = 0; bit < 3; ++bit)
        EXPECT_EQ(swizzle.offset(at / bytes, at % bytes) >> (4 + bit) & 1,
                  (at >> (4 + bit) & 1) ^ (bit < bits ? at >> (7 + bit) & 1 : 0));
  }
}

// Eight rows of one matrix use eight different groups of four banks. The lanes of a copy write 128
// contiguous bytes, whose eight 16-byte units also use different groups.
TEST(Swizzle, RowsAndColumnsHaveNoBankConflicts) {
  const auto banks = [](int64_t offset) { return offset / Swizzle::kUnit % 8; };
  for (const auto& [rows, bytes] : kRows) {
    const Swizzle swizzle(rows, Swizzle::widest(rows, bytes));
    for (int64_t row = 0; row < rows; row += 8)
      for (int64_t byte = 0; byte < bytes; byte += Swizzle::kUnit) {
        std::set<int64_t> met;
        for (int64_t i = 0; i < 8; ++i) met.insert(banks(swizzle.offset(row + i, byte)));
        EXPECT_EQ(met.size(), 8u) << row << " " << byte << " of " << rows << " rows of " << bytes;
      }
    if (swizzle.bytes < 128) continue;
    for (int64_t row = 0; row < rows; ++row) {
      std::set<int64_t> met;
      for (int64_t unit = 0; unit < 8; ++unit)
        met.insert(banks(swizzle.offset(row, unit * Swizzle::kUnit)));
      EXPECT_EQ(met.size(), 8u);
    }
  }
}

}  // namespace
}  // namespace ligerdsl::compiler
