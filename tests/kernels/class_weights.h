// Class weights for tests, with values that f32 represents exactly.
#pragma once

#include <cmath>

#include "tests/kernels/shapes.h"

namespace ligerdsl::test {

// Rounds to float, so that reference and kernel get the same value.
inline double exact(double value) {
  return static_cast<float>(value);
}

inline Values class_weights(int64_t classes) {
  Values w = Random(13).normals(classes);
  for (double& value : w) value = exact(0.1 + std::fabs(value));
  return w;
}

}  // namespace ligerdsl::test
