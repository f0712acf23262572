// What a descriptor of wgmma addresses, by the strides of the PTX ISA ("Strides", "Matrix Descriptor"), is where swizzled rows
// have the elements.
#include "compiler/layout/wgmma_descriptor.h"

#include <gtest/gtest.h>

#include "compiler/layout/dot_layout.h"

namespace ligerdsl::compiler {
namespace {

// A factor's part of a slot: its rows in memory, and how many numbers they have.
struct Part {
  int64_t rows, columns;
};

// Where an instruction looks for element (at, k) of its factor, whose descriptor names the byte `begin`: eight rows of a
// panel, then the next eight `stride` bytes on, then the next panel `leading` bytes on; the units of 16 bytes exchanged by the
// address's own bits.
int64_t addressed(uint64_t descriptor, int64_t begin, bool transposed, int64_t at, int64_t k) {
  const auto field = [&](int shift) { return static_cast<int64_t>(descriptor >> shift & 0x3fff) * 16; };
  const int64_t mode = static_cast<int64_t>(descriptor >> 62), panel = mode == 1 ? 128 : mode == 2 ? 64 : 32;
  const int64_t row = transposed ? k : at, byte = 2 * (transposed ? at : k);
  const int64_t plain = begin + row % 8 * panel + row / 8 * field(32) + byte / panel * field(16) + byte % panel;
  return plain ^ (plain >> 7) % (panel / 16) * 16;
}

TEST(WgmmaDescriptor, AddressesTheElements) {
  for (const Part part : {Part{64, 64}, {128, 16}, {128, 32}, {16, 256}, {32, 96}, {256, 128}, {24, 48}}) {
    const int64_t bytes = Swizzle::widest(part.rows, part.columns * 2);
    ASSERT_GT(bytes, 0);
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(std::to_string(part.rows) + "x" + std::to_string(part.columns) + (transposed ? " transposed" : ""));
      const WgmmaFactor factor{Swizzle(part.rows, bytes), transposed};
      const int64_t m = transposed ? part.columns : part.rows, depth = transposed ? part.rows : part.columns;
      const int64_t block = m % kWgmmaM == 0 ? kWgmmaM : m;  // all of n, or 64 rows of m
      for (int64_t first = 0; first < m; first += block)
        for (int64_t k = 0; k + kMmaK <= depth; k += kMmaK)
          for (int64_t at = 0; at < block; ++at)
            for (int64_t along = 0; along < kMmaK; ++along) {
              const int64_t row = transposed ? k + along : first + at, column = transposed ? first + at : k + along;
              ASSERT_EQ(addressed(factor.descriptor(), factor.offset(first, k), transposed, at, along),
                        factor.swizzle.offset(row, column * 2))
                  << first << "+" << at << ", " << k << "+" << along;
            }
      EXPECT_EQ(factor.offset(0, kMmaK) % Swizzle::kUnit, 0);
    }
  }
}

}  // namespace
}  // namespace ligerdsl::compiler
