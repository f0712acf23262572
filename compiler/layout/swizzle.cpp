#include "compiler/layout/swizzle.h"

namespace ligerdsl::compiler {

int64_t Swizzle::widest(int64_t rows, int64_t row_bytes) {
  if (rows % kPeriod != 0) return 0;
  for (int64_t bytes = 128; bytes >= 2 * kUnit; bytes /= 2)
    if (row_bytes % bytes == 0) return bytes;
  return 0;
}

}  // namespace ligerdsl::compiler
