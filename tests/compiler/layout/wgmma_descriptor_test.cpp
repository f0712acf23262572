// Tests that a wgmma descriptor, interpreted as the PTX ISA defines it ("Strides", "Matrix
// Descriptor"), addresses each element at its offset in swizzled rows.
#include "compiler/layout/wgmma_descriptor.h"

#include <gtest/gtest.h>

#include "compiler/layout/dot_layout.h"

namespace ligerdsl::compiler {
namespace {

// Part of a slot that holds an operand: rows in memory, elements per row, and bytes per element.
struct Part {
  int64_t rows, columns, number = 2;
};

// Returns the byte at which an instruction reads element (at, k) of its operand, if the descriptor
// points to the byte `begin`. Eight rows of a panel are contiguous. The next eight rows start
// `stride` bytes later, and the next panel starts `leading` bytes later. Bits of the address
// permute the 16-byte units.
int64_t addressed(uint64_t descriptor, int64_t begin, int64_t bytes, bool transposed, int64_t at,
                  int64_t k) {
  const auto field = [&](int shift) {
    return static_cast<int64_t>(descriptor >> shift & 0x3fff) * 16;
  };
  const int64_t mode = static_cast<int64_t>(descriptor >> 62), panel = mode == 1   ? 128
                                                                       : mode == 2 ? 64
                                                                                   : 32;
  const int64_t row = transposed ? k : at, byte = bytes * (transposed ? at : k);
  const int64_t plain =
      begin + row % 8 * panel + row / 8 * field(32) + byte / panel * field(16) + byte % panel;
  return plain ^ (plain >> 7) % (panel / 16) * 16;
}

TEST(WgmmaDescriptor, AddressesTheElements) {
  for (const Part part : {Part{64, 64},
                          {128, 16},
                          {128, 32},
                          {16, 256},
                          {32, 96},
                          {256, 128},
                          {24, 48},
                          {64, 128, 1},
                          {128, 32, 1},
                          {32, 192, 1},
                          {64, 32, 4},
                          {128, 8, 4},
                          {40, 48, 4}}) {
    const int64_t bytes = Swizzle::widest(part.rows, part.columns * part.number),
                  step = kMmaBytes / part.number;
    ASSERT_GT(bytes, 0);
    for (const bool transposed : {false, true}) {
      if (transposed && part.number != 2) continue;  // wgmma transposes only 16-bit elements
      SCOPED_TRACE(std::to_string(part.rows) + "x" + std::to_string(part.columns) +
                   (transposed ? " transposed" : ""));
      const WgmmaOperand operand{Swizzle(part.rows, bytes), transposed, part.number};
      const int64_t m = transposed ? part.columns : part.rows,
                    depth = transposed ? part.rows : part.columns;
      const int64_t block = m % kWgmmaM == 0 ? kWgmmaM : m;  // all of n, or 64 rows of m
      for (int64_t first = 0; first < m; first += block)
        for (int64_t k = 0; k + step <= depth; k += step)
          for (int64_t at = 0; at < block; ++at)
            for (int64_t along = 0; along < step; ++along) {
              const int64_t row = transposed ? k + along : first + at,
                            column = transposed ? first + at : k + along;
              ASSERT_EQ(addressed(operand.descriptor(), operand.offset(first, k), part.number,
                                  transposed, at, along),
                        operand.swizzle.offset(row, column * part.number))
                  << first << "+" << at << ", " << k << "+" << along;
            }
      EXPECT_EQ(operand.offset(0, step) % Swizzle::kUnit, 0);
    }
  }
}

}  // namespace
}  // namespace ligerdsl::compiler
