// Defaults of an operation's settings, from its row (kernels/*/*.op.py).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/src/op_info.h"

namespace ligerdsl::cli {

struct Follower {
  std::string_view leader, name;  // dtype fields: `name` takes the setting of `leader`
};

struct OpDefaults {
  std::string_view op;
  std::vector<int64_t> sizes;           // by letter, in the order of OpInfo::symbols
  std::vector<std::string_view> usual;  // fields of optional tensors that are passed
  std::vector<Follower> followers;
  std::vector<std::string_view> unreduced;  // letters whose product is the number of losses without a reduction

  // Returns true if the optional tensor that this field decides on is passed.
  bool is_usual(std::string_view field) const;
};

const OpDefaults& defaults_of(const lib::OpInfo& info);

}  // namespace ligerdsl::cli
