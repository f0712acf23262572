// Linear algebra over F2: a vector is a bit mask, addition is exclusive or.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ligerdsl::compiler {

// The span of the vectors inserted so far. Remembers how each vector of the span is a sum of
// inserted ones, so that it can both answer "is v in the span" and "which of them add up to v".
// Holds at most 64 inserted vectors.
class F2Span {
 public:
  // Adds a vector. Returns true if it was independent of those before; a dependent vector never
  // joins a solution.
  bool insert(uint64_t vector) {
    uint64_t combination = uint64_t{1} << inserted_++;
    reduce(vector, combination);
    if (vector == 0) return false;
    rows_.push_back({vector, combination});
    return true;
  }

  bool contains(uint64_t vector) const {
    uint64_t combination = 0;
    reduce(vector, combination);
    return vector == 0;
  }

  // Returns the inserted vectors (bit i = i-th insertion) whose sum is `vector`; nothing if it is
  // outside the span.
  std::optional<uint64_t> solve(uint64_t vector) const {
    uint64_t combination = 0;
    reduce(vector, combination);
    if (vector != 0) return std::nullopt;
    return combination;
  }

  int rank() const { return static_cast<int>(rows_.size()); }

 private:
  struct Row {
    uint64_t vector;       // its highest bit is set in no later row
    uint64_t combination;  // the inserted vectors it is the sum of
  };

  void reduce(uint64_t& vector, uint64_t& combination) const {
    for (const Row& row : rows_) {
      uint64_t leading = uint64_t{1} << (63 - __builtin_clzll(row.vector));
      if (vector & leading) {
        vector ^= row.vector;
        combination ^= row.combination;
      }
    }
  }

  std::vector<Row> rows_;
  int inserted_ = 0;
};

}  // namespace ligerdsl::compiler
