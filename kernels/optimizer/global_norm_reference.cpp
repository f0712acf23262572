#include <cmath>
#include <string>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(global_norm) {
  double squares = 0;
  for (const std::string& name : call.tensors()) {
    if (!name.starts_with("tensors[")) continue;
    for (const double value : call[name]) squares += value * value;
  }
  const double norm = std::sqrt(squares);
  const double factor = std::fmin(1.0, call.number("max_norm") / (norm + 1e-6));
  const double nonfinite = std::isfinite(norm) ? 0 : 1;
  Expected expected{{"norm", {{norm}}}, {"clip_factor", {{factor}}}, {"nonfinite", {{nonfinite}}}};
  if (call.has("steps")) expected["steps"] = {{call["steps"][0] + 1 - nonfinite}};
  if (call.has("skipped")) expected["skipped"] = {{call["skipped"][0] + nonfinite}};
  return expected;
}

}  // namespace ligerdsl::reference
