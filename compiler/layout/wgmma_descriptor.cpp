#include "compiler/layout/wgmma_descriptor.h"

namespace ligerdsl::compiler {
namespace {

constexpr int64_t kGroupRows = 8;  // rows per group; the second stride is from group to group

uint64_t units(int64_t bytes) {
  return static_cast<uint64_t>(bytes / Swizzle::kUnit);
}

}  // namespace

uint64_t WgmmaOperand::descriptor() const {
  // For a transposed operand, the first stride is the distance between panels along its rows.
  // Otherwise the hardware ignores it.
  const int64_t panels = transposed ? swizzle.rows * swizzle.bytes : Swizzle::kUnit;
  const uint64_t mode = swizzle.bytes == 128 ? 1 : swizzle.bytes == 64 ? 2 : 3;
  return units(panels) << 16 | units(kGroupRows * swizzle.bytes) << 32 | mode << 62;
}

int64_t WgmmaOperand::offset(int64_t row, int64_t k) const {
  return transposed ? swizzle.plain(k, row * bytes) : swizzle.plain(row, k * bytes);
}

}  // namespace ligerdsl::compiler
