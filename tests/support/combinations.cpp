#include "tests/support/combinations.h"

#include <cstdlib>
#include <set>
#include <string_view>

namespace ligerdsl::test {
namespace {

// A pair of choices: a list and an index in it, then another list and an index in that list.
using Pair = std::tuple<size_t, size_t, size_t, size_t>;

std::vector<Pair> pairs_of(const std::vector<size_t>& combination) {
  std::vector<Pair> out;
  for (size_t i = 0; i < combination.size(); ++i)
    for (size_t j = i + 1; j < combination.size(); ++j)
      out.emplace_back(i, combination[i], j, combination[j]);
  return out;
}

}  // namespace

bool all_combinations() {
  const char* value = std::getenv("LIGERDSL_TEST_COMBINATIONS");
  return value && std::string_view(value) == "all";
}

std::vector<std::vector<size_t>> every_combination(const std::vector<size_t>& sizes) {
  std::vector<std::vector<size_t>> out{{}};
  for (const size_t size : sizes) {
    std::vector<std::vector<size_t>> longer;
    for (const std::vector<size_t>& begin : out)
      for (size_t i = 0; i < size; ++i) {
        longer.push_back(begin);
        longer.back().push_back(i);
      }
    out = std::move(longer);
  }
  return out;
}

// Repeatedly takes the combination with the most pairs that no earlier one has.
std::vector<std::vector<size_t>> pairwise_combinations(const std::vector<size_t>& sizes) {
  const std::vector<std::vector<size_t>> all = every_combination(sizes);
  std::set<Pair> missing;
  for (const std::vector<size_t>& each : all)
    for (const Pair& pair : pairs_of(each)) missing.insert(pair);
  if (missing.empty()) return all;  // fewer than two lists
  std::vector<std::vector<size_t>> out;
  while (!missing.empty()) {
    const auto count = [&](const std::vector<size_t>& combination) {
      const std::vector<Pair> pairs = pairs_of(combination);
      return std::count_if(pairs.begin(), pairs.end(),
                           [&](const Pair& pair) { return missing.contains(pair); });
    };
    const auto best = std::max_element(
        all.begin(), all.end(),
        [&](const auto& left, const auto& right) { return count(left) < count(right); });
    out.push_back(*best);
    for (const Pair& pair : pairs_of(*best)) missing.erase(pair);
  }
  return out;
}

}  // namespace ligerdsl::test
