#include "lib/instance/op_defaults.h"

#include <algorithm>
#include <cmath>

namespace ligerdsl::cli {

bool OpDefaults::is_usual(std::string_view field) const {
  return std::find(usual.begin(), usual.end(), field) != usual.end();
}

const TensorDefaults& OpDefaults::of(std::string_view tensor) const {
  static const TensorDefaults other;
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TensorDefaults& each) {
    return each.tensor == tensor;
  });
  return found == tensors.end() ? other : *found;
}

const OpDefaults& defaults_of(const lib::OpInfo& info) {
  static const std::vector<OpDefaults> all = {
#include "op_defaults.inc"
  };
  return all[static_cast<size_t>(info.index)];
}

}  // namespace ligerdsl::cli
