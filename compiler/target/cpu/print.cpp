// Prints the values of tile.print on the host.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <vector>

#include "compiler/target/cpu/jit.h"

namespace ligerdsl::compiler::cpu {

static float halfToFloat(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
               : exponent == 31
                   ? (fraction ? NAN : INFINITY)
                   : std::ldexp(1.0f + static_cast<float>(fraction) / 1024, exponent - 15);
  return bits & 0x8000 ? -size : size;
}

static float bitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static void printIndex(std::ostream& line, const char* dims, int64_t index) {
  std::istringstream sizes(dims);
  std::vector<int64_t> shape, at;
  for (int64_t size; sizes >> size;) shape.push_back(size);
  at.resize(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; index /= shape[dim]) at[dim] = index % shape[dim];
  line << "[";
  for (size_t dim = 0; dim < at.size(); ++dim) line << (dim ? ", " : "") << at[dim];
  line << "]";
}

void printFromKernel(const char* text, int32_t x, int32_t y, int32_t z, int64_t index, int32_t kind,
                     uint64_t bits) {
  std::ostringstream line;
  line << "(" << x << ", " << y << ", " << z << ") " << text;
  if (index >= 0) printIndex(line << " ", text + std::strlen(text) + 1, index);
  line.precision(9);
  switch (kind) {
    case 1:
      line << " " << static_cast<int64_t>(bits);
      break;
    case 2:
      line << " " << halfToFloat(static_cast<uint16_t>(bits));
      break;
    case 3:
      line << " " << bitsToFloat(static_cast<uint32_t>(bits) << 16);
      break;
    case 4:
      line << " " << bitsToFloat(static_cast<uint32_t>(bits));
      break;
    case 5:
      line << " 0x" << std::hex << bits;
      break;
    default:
      break;
  }
  line << "\n";
  std::fputs(line.str().c_str(), stdout);
}

}  // namespace ligerdsl::compiler::cpu
