// Matrix products of a warp.
#include <bit>
#include <stdexcept>

#include "tests/support/half.h"
#include "tests/support/ptx/warp.h"

namespace ligerdsl::test::ptx {
namespace {

float number(uint64_t bits, bool is_f16) {
  const auto half = static_cast<uint16_t>(bits);
  return is_f16 ? from_f16(half) : from_bf16(half);
}

}  // namespace

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type". A lane is 4 group + thread.
void Warp::multiply(const Instruction& i) {
  const bool is_f16 = i.opcode.find(".f16") != std::string::npos;
  const auto &to = i.operands[0].parts, &left = i.operands[1].parts, &right = i.operands[2].parts,
             &sums = i.operands[3].parts;
  if (to.size() != 4 || left.size() != 4 || right.size() != 2 || sums.size() != 4)
    throw std::runtime_error("fragments of m16n8k16 have 4, 4, 2 and 4 registers");
  double a[16][16], b[16][8], d[16][8];
  const auto at_sum = [](int lane, int reg) { return std::pair{lane / 4 + 8 * (reg / 2), lane % 4 * 2 + reg % 2}; };
  for (int reg = 0; reg < 4; ++reg) {
    const Lanes pairs = read(left[reg], kAllLanes), own = read(sums[reg], kAllLanes);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int half = 0; half < 2; ++half)
        a[lane / 4 + 8 * (reg % 2)][lane % 4 * 2 + half + 8 * (reg / 2)] = number(pairs[lane] >> 16 * half, is_f16);
      const auto [row, column] = at_sum(lane, reg);
      d[row][column] = std::bit_cast<float>(static_cast<uint32_t>(own[lane]));
    }
  }
  for (int reg = 0; reg < 2; ++reg) {
    const Lanes pairs = read(right[reg], kAllLanes);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int half = 0; half < 2; ++half)
        b[lane % 4 * 2 + half + 8 * reg][lane / 4] = number(pairs[lane] >> 16 * half, is_f16);
  }
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column)
      for (int k = 0; k < 16; ++k) d[row][column] += a[row][k] * b[k][column];
  for (int reg = 0; reg < 4; ++reg) {
    Lanes& out = write(to[reg], kAllLanes);
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto [row, column] = at_sum(lane, reg);
      out[lane] = std::bit_cast<uint32_t>(static_cast<float>(d[row][column]));
    }
  }
}

// PTX ISA, ldmatrix: lanes 8 j to 8 j + 7 name the rows of matrix j. A lane gets two neighbours of row lane / 4, or of column
// lane / 4 if it is transposed.
void Warp::load_matrix(const Instruction& i) {
  constexpr int kSide = 8, kBytes = 2;
  const auto& to = i.operands[0].parts;
  const Operand& where = i.operands[1];
  if (to.size() != i.matrices) throw std::runtime_error("ldmatrix brings one register of each matrix");
  const Lanes base = read(where.parts[0], kAllLanes);
  for (size_t matrix = 0; matrix < to.size(); ++matrix) {
    uint64_t numbers[kSide][kSide];
    for (int row = 0; row < kSide; ++row) {
      lane_ = static_cast<int>(matrix) * kSide + row;
      const Place place = resolve(address(where, base, lane_, kSide * kBytes), i.space);
      for (int column = 0; column < kSide; ++column)
        numbers[row][column] = place.cta.shared.load(place.at + column * kBytes, kBytes, order_, now_);
    }
    Lanes& out = write(to[matrix], kAllLanes);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int one = lane / 4, other = lane % 4 * 2;
      out[lane] = i.transposed ? numbers[other][one] | numbers[other + 1][one] << 16
                               : numbers[one][other] | numbers[one][other + 1] << 16;
    }
  }
}

}  // namespace ligerdsl::test::ptx
