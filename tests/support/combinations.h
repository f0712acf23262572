// Combinations of settings that a test tries. All combinations would take too long: by default, a
// test tries a subset that contains every pair of settings. With LIGERDSL_TEST_COMBINATIONS=all it
// tries all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/gates.h"

namespace ligerdsl::test {

// Returns true if LIGERDSL_TEST_COMBINATIONS is "all".
bool all_combinations();

// Returns combinations of one index from each list, given the lists' sizes. Every pair of indices
// from two lists is in at least one combination.
std::vector<std::vector<size_t>> pairwise_combinations(const std::vector<size_t>& sizes);

// Returns all combinations of one index from each list.
std::vector<std::vector<size_t>> every_combination(const std::vector<size_t>& sizes);

// Returns combinations of one value from each list, for a test that loops over three or more
// settings. These are all combinations, or a subset with every pair of values.
template <class... T>
std::vector<std::tuple<T...>> combinations(const std::vector<T>&... lists) {
  const std::vector<size_t> sizes{lists.size()...};
  std::vector<std::tuple<T...>> out;
  for (const auto& at :
       all_combinations() ? every_combination(sizes) : pairwise_combinations(sizes))
    out.push_back([&]<size_t... i>(std::index_sequence<i...>) {
      return std::tuple<T...>(lists[at[i]]...);
    }(std::index_sequence_for<T...>()));
  return out;
}

// Returns each value, such as a width, with one of the types. After each cycle through the types,
// the assignment shifts by one. A second setting that also cycles with the values is therefore
// combined with different types. With all combinations, returns each value with each type.
template <class T>
std::vector<std::pair<T, DType>> values_and_types(const std::vector<T>& values,
                                                  const std::vector<DType>& types) {
  std::vector<std::pair<T, DType>> out;
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = 0; j < types.size(); ++j)
      if (all_combinations() || (i + i / types.size()) % types.size() == j)
        out.emplace_back(values[i], types[j]);
  return out;
}

}  // namespace ligerdsl::test
