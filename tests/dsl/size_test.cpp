// Tests grids and workspaces as expressions of a call's row count.
#include "ligerdsl/dsl/size.h"

#include <gtest/gtest.h>

#include "ligerdsl/dsl.h"

namespace ligerdsl {
namespace {

const Size kRows = Size::rows();

TEST(Size, EvaluatesArithmeticOverRows) {
  const Size tiles = ceil_div(kRows, 4), spread = ceil_div(tiles, max(ceil_div(tiles, 132), 1));
  for (const int64_t rows : {0, 1, 4, 5, 528, 529, 4096, 1000003}) {
    const int64_t t = (rows + 3) / 4, most = std::max<int64_t>((t + 131) / 132, 1);
    EXPECT_EQ(tiles.at(rows), t);
    EXPECT_EQ(spread.at(rows), (t + most - 1) / most) << rows;
    EXPECT_EQ((min(kRows, 10) + 3).at(rows), std::min<int64_t>(rows, 10) + 3);
    EXPECT_EQ(where_at_least(kRows, 528, kRows * 2).at(rows), rows >= 528 ? rows * 2 : 0);
  }
}

TEST(Size, AdditionAndMultiplicationSaturate) {
  EXPECT_EQ((kRows * 3).at(INT64_MAX / 2), INT64_MAX);
  EXPECT_EQ((kRows + 1).at(INT64_MAX), INT64_MAX);
  EXPECT_EQ(ceil_div(kRows, 2).at(INT64_MAX), INT64_MAX / 2 + 1);
}

TEST(Size, PrintsItsExpression) {
  EXPECT_EQ((ceil_div(kRows, 4) * 8).text(), "ceil_div(rows, 4) * 8");
  EXPECT_EQ(((kRows + 1) % 4 * 8).text(), "((rows + 1) % 4) * 8");
  EXPECT_EQ(((kRows + 1) % 4 * 8).at(5), 16);
  EXPECT_EQ(((kRows + 1) * max(kRows, 2)).text(), "(rows + 1) * max(rows, 2)");
  EXPECT_EQ(where_at_least(kRows, 5, min(kRows, 7)).text(), "(rows >= 5) * min(rows, 7)");
  EXPECT_EQ(Size(12), Size(int64_t{12}));
  EXPECT_NE(kRows, Size(12));
}

TEST(Size, NumberRequiresAnExpressionWithoutRows) {
  EXPECT_EQ((Size(3) * 4).number(), 12);
  try {
    static_cast<void>(ceil_div(kRows, 4).number());
    FAIL() << "number() must reject a size that depends on rows";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "error: expected a number, got ceil_div(rows, 4), which depends on the call's number of "
        "rows; evaluate it with at(rows)");
  }
}

TEST(Size, RejectsDeepNesting) {
  Size deep = kRows;
  for (int i = 0; i < 100; ++i) deep = deep + 1;  // left operands may form a long chain
  EXPECT_EQ(deep.at(1), 101);
  EXPECT_THROW(
      {
        Size nested = 1;
        for (int i = 0; i < 20; ++i) nested = 1 + nested;
      },
      Error);
}

TEST(Size, RejectsDivisorsBelowOne) {
  EXPECT_THROW(ceil_div(kRows, 0), Error);
  EXPECT_THROW(ceil_div(kRows, -4), Error);
  EXPECT_THROW(kRows % 0, Error);
  EXPECT_EQ(ceil_div(7, kRows).at(0), INT64_MAX)
      << "a divisor of 0 at a launch must give a size that every limit rejects";
}

TEST(LaunchGrid, MissingAxesAreOne) {
  const Launch launch{.grid = {ceil_div(kRows, 2), 3}};
  EXPECT_EQ(launch.grid_at(9), (std::array<int64_t, 3>{5, 3, 1}));
  EXPECT_THROW(launch.programs(), Error);
  EXPECT_EQ((Launch{.grid = {7}}.programs()), (std::array<int64_t, 3>{7, 1, 1}));
  EXPECT_THROW(Launch{.grid = {}}.programs(), Error);
  EXPECT_THROW((Launch{.grid = {1, 1, 1, 1}}.programs()), Error);
}

}  // namespace
}  // namespace ligerdsl
