#include "compiler/layout/f2.h"

#include <gtest/gtest.h>

#include <random>

namespace ligerdsl::compiler {
namespace {

TEST(F2Span, SolvesExactlyTheVectorsOfTheSpan) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> vectors(1 + random() % 7);
    for (auto& vector : vectors) vector = random() % 64;
    F2Span span;
    uint64_t independent = 0;
    for (size_t i = 0; i < vectors.size(); ++i)
      if (span.insert(vectors[i])) independent |= uint64_t{1} << i;
    std::vector<bool> reachable(64, false);
    for (uint64_t subset = 0; subset < uint64_t{1} << vectors.size(); ++subset) {
      uint64_t sum = 0;
      for (size_t i = 0; i < vectors.size(); ++i)
        if (subset >> i & 1) sum ^= vectors[i];
      reachable[sum] = true;
    }
    for (uint64_t target = 0; target < 64; ++target) {
      auto solution = span.solve(target);
      ASSERT_EQ(solution.has_value(), reachable[target]);
      ASSERT_EQ(span.contains(target), reachable[target]);
      if (!solution) continue;
      EXPECT_EQ(*solution & ~independent, 0u) << "a dependent vector joined a solution";
      uint64_t sum = 0;
      for (size_t i = 0; i < vectors.size(); ++i)
        if (*solution >> i & 1) sum ^= vectors[i];
      EXPECT_EQ(sum, target);
    }
    EXPECT_EQ(span.rank(), __builtin_popcountll(independent));
  }
}

}  // namespace
}  // namespace ligerdsl::compiler
