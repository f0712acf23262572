// Defaults of an operation's settings and tensors, from its row (kernels/*/*.op.py).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "lib/abi/op_info.h"

namespace ligerdsl::cli {

// Returns a size by its letter, or a number of the descriptor or arguments by its name.
using Numbers = std::function<double(std::string_view)>;
// A formula of the row, or null.
using Formula = double (*)(const Numbers&);

struct Follower {
  std::string_view leader, name;  // dtype fields: `name` takes the setting of `leader`
};

struct DerivedDefault {
  std::string_view name;  // letter of a size, or a field of the descriptor
  Formula formula;
};

struct TensorDefaults {
  std::string_view tensor;
  std::string_view bounds;  // letter of the size that these bounds divide into groups or sequences
  std::string_view accumulate;  // inout: flag with which a call reads the tensor; "": always
  bool positive = false;        // random numbers are positive
  bool contiguous = false;      // rows have no stride of their own
  Formula mean = nullptr;       // of random numbers; null: 0
  Formula deviation = nullptr;  // standard deviation of random numbers; null: 1
  Formula moved = nullptr;      // elements that a call moves; null: all
};

struct OpDefaults {
  std::string_view op;
  std::vector<int64_t> sizes;  // by letter, in the order of OpInfo::symbols
  std::vector<int64_t> small;  // sizes of `ligerdsl check` in the same order; 0: that of `sizes`
  std::string_view rows;       // letter that counts rows
  std::vector<std::string_view> usual;  // fields of optional tensors that are passed
  std::vector<Follower> followers;
  std::vector<DerivedDefault> derived;  // they replace `sizes` and the descriptor's defaults
  std::vector<TensorDefaults> tensors;  // tensors that differ from TensorDefaults{}
  Formula flops = nullptr;  // null: memory bounds the time. For one part if bounds divide a size.

  // Returns true if the optional tensor that this field decides on is passed.
  bool is_usual(std::string_view field) const;
  const TensorDefaults& of(std::string_view tensor) const;
};

const OpDefaults& defaults_of(const lib::OpInfo& info);

}  // namespace ligerdsl::cli
