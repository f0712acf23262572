// Defaults of an operation's settings and tensors, from its row (kernels/*/*.op.py).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "lib/abi/op_info.h"

namespace ligerdsl::cli {

// Function that returns a size by its letter, or a number of the descriptor or arguments by its
// name.
using Numbers = std::function<double(std::string_view)>;
// Formula of a row, or null.
using Formula = double (*)(const Numbers&);

struct Follower {
  std::string_view leader, name;  // dtype fields: the default of `name` is the setting of `leader`
};

struct DerivedDefault {
  std::string_view name;  // letter of a size, or a field of the descriptor
  Formula formula;
};

struct TensorDefaults {
  std::string_view tensor;
  std::string_view bounds;      // letter of the size that a tensor of bounds splits into groups
  std::string_view accumulate;  // inout: flag that makes a call read the tensor; "" = always
  bool positive = false;        // random numbers are positive
  bool contiguous = false;      // rows must be contiguous
  Formula mean = nullptr;       // mean of random numbers; null means 0
  Formula deviation = nullptr;  // standard deviation of random numbers; null means 1
  Formula moved = nullptr;      // number of elements that a call moves; null means all
};

struct OpDefaults {
  std::string_view op;
  std::vector<int64_t> sizes;  // sizes in the order of OpInfo::symbols
  std::vector<int64_t> small;  // sizes of `ligerdsl check`, in this order; 0: the size in `sizes`
  std::string_view rows;       // letter of the number of rows
  std::vector<std::string_view> usual;  // fields of optional tensors that are passed by default
  std::vector<Follower> followers;
  std::vector<DerivedDefault> derived;  // they override `sizes` and the descriptor's defaults
  std::vector<TensorDefaults> tensors;  // tensors that differ from TensorDefaults{}
  Formula flops = nullptr;  // floating-point operations, of one part if bounds split a size; null
                            // if memory limits the time

  // Returns true if this field's optional tensor is passed by default.
  bool is_usual(std::string_view field) const;
  const TensorDefaults& of(std::string_view tensor) const;
};

const OpDefaults& defaults_of(const lib::OpInfo& info);

}  // namespace ligerdsl::cli
