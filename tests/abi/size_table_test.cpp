#include "lib/abi/size_table.h"

#include <gtest/gtest.h>

#include "ligerdsl/dsl.h"

namespace ligerdsl::test::size_table_test {
namespace {

using lib::SizeTable;

const Size kRows = Size::rows();

TEST(SizeTable, EvaluatesEachSize) {
  const Size tiles = ceil_div(kRows, 4), partials = ceil_div(tiles, max(ceil_div(tiles, 132), 1));
  const std::vector<Size> sizes = {0,
                                   kRows,
                                   12,
                                   tiles,
                                   partials,
                                   partials * 4096,
                                   min(tiles, 132) * 4096 + partials,
                                   Size(3) * 4 + 5,
                                   where_at_least(kRows, 528, kRows * 2),
                                   kRows * INT64_MAX};
  SizeTable table;
  std::vector<SizeTable::Index> at;
  for (const Size& size : sizes) at.push_back(table.add(size));
  for (const int64_t rows :
       {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{528}, int64_t{1000003}, INT64_MAX}) {
    SizeTable::Values values;
    table.compute(rows, &values);
    for (size_t i = 0; i < sizes.size(); ++i)
      EXPECT_EQ(values[at[i]], sizes[i].at(rows)) << sizes[i] << " of " << rows << " rows";
  }
}

TEST(SizeTable, SharesEqualSubexpressions) {
  SizeTable table;
  const SizeTable::Index partials = table.add(ceil_div(ceil_div(kRows, 4), 132));
  EXPECT_EQ(table.add(ceil_div(ceil_div(kRows, 4), 132)), partials);
  EXPECT_EQ(table.add(kRows), table.add(kRows));
  EXPECT_EQ(table.add(Size(3) * 4), table.add(12)) << "no rows: computed when it is added";
  EXPECT_NE(table.add(0), table.add(kRows)) << "a number is not the rows, whatever they are";
}

TEST(SizeTable, MissingLaunchAxesAreOne) {
  SizeTable table;
  const auto axes = table.add(Launch{.grid = {ceil_div(kRows, 2), 3}});
  SizeTable::Values values;
  table.compute(9, &values);
  EXPECT_EQ(values[axes[0]], 5);
  EXPECT_EQ(values[axes[1]], 3);
  EXPECT_EQ(values[axes[2]], 1);
}

TEST(SizeTable, HasLimitedCapacity) {
  SizeTable table;
  const auto fill = [&] {
    for (size_t i = 0; i < SizeTable::kMost; ++i) table.add(static_cast<int64_t>(i));
  };
  EXPECT_THROW(fill(), Error);
}

}  // namespace
}  // namespace ligerdsl::test::size_table_test
