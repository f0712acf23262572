// Linear algebra over F2: vectors are bit masks, and addition is exclusive or.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ligerdsl::compiler {

// Span of up to 64 inserted vectors. It can test whether a vector is in the span, and find inserted
// vectors with a given sum.
class F2Span {
 public:
  // Inserts a vector. Returns true if it is independent of the earlier ones. solve() does not use
  // dependent vectors.
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

  // Returns the inserted vectors (bit i = i-th insertion) whose sum is `vector`, or nothing if it
  // is outside the span.
  std::optional<uint64_t> solve(uint64_t vector) const {
    uint64_t combination = 0;
    reduce(vector, combination);
    if (vector != 0) return std::nullopt;
    return combination;
  }

  int rank() const { return static_cast<int>(rows_.size()); }

 private:
  struct Row {
    uint64_t vector;       // no later row has its highest bit
    uint64_t combination;  // the inserted vectors with this sum
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
