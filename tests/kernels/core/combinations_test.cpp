#include "tests/support/combinations.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ligerdsl::test::combinations_test {
namespace {

TEST(Combinations, EveryIndexOfEveryList) {
  const auto all = every_combination({2, 3, 4});
  EXPECT_EQ(all.size(), 24u);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 24u);
  EXPECT_TRUE(every_combination({2, 0, 3}).empty());
}

TEST(Combinations, PairwiseHasEveryPair) {
  for (const std::vector<size_t>& sizes :
       {std::vector<size_t>{2, 6, 2, 2}, {4, 3, 5}, {3, 3}, {5, 1, 7}}) {
    const auto some = pairwise_combinations(sizes);
    for (size_t first = 0; first < sizes.size(); ++first)
      for (size_t second = first + 1; second < sizes.size(); ++second) {
        std::set<std::pair<size_t, size_t>> found;
        for (const auto& each : some) found.emplace(each[first], each[second]);
        EXPECT_EQ(found.size(), sizes[first] * sizes[second]);
      }
  }
}

TEST(Combinations, PairwiseHasFewCombinations) {
  EXPECT_EQ(pairwise_combinations({3, 3}).size(), 9u);
  EXPECT_LE(pairwise_combinations({2, 6, 2, 2}).size(), 14u);
  EXPECT_LE(pairwise_combinations({4, 3, 5}).size(), 24u);
  EXPECT_EQ(pairwise_combinations({7}).size(), 7u);
}

TEST(Combinations, EveryWidthAndTypeOccurs) {
  const std::vector<int64_t> widths{1, 2, 3, 4, 5};
  std::set<int64_t> found_widths;
  std::set<DType> found_types;
  for (const auto& [width, type] : values_and_types(widths, {DType::f32, DType::bf16})) {
    found_widths.insert(width);
    found_types.insert(type);
  }
  EXPECT_EQ(found_widths.size(), 5u);
  EXPECT_EQ(found_types.size(), 2u);
}

TEST(Combinations, ValuesOfLists) {
  const std::vector<std::string> names{"a", "b"};
  const std::vector<int> numbers{1, 2, 3};
  const auto some = combinations(names, numbers);
  EXPECT_EQ(some.size(), 6u);
  EXPECT_EQ(std::set(some.begin(), some.end()).size(), 6u);
}

}  // namespace
}  // namespace ligerdsl::test::combinations_test
