// mma.sync and ldmatrix.
#include <stdexcept>

#include "tests/support/ptx/mma_operand.h"
#include "tests/support/ptx/warp.h"

namespace ligerdsl::test::ptx {

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
void Warp::multiply(const Instruction& i) {
  constexpr int kMostDepth = 32;
  const Accumulator acc{word_of(i.opcode, 6) == "s32"};
  const MmaOperand operand = mma_operand_named(word_of(i.opcode, 7));
  const int depth = operand.depth();
  const auto &to = i.operands[0].parts, &left = i.operands[1].parts, &right = i.operands[2].parts,
             &addend = i.operands[3].parts;
  if (to.size() != 4 || left.size() != 4 || right.size() != 2 || addend.size() != 4)
    throw std::runtime_error("fragments of m16n8 have 4, 4, 2 and 4 registers");
  double a[16][kMostDepth], b[kMostDepth][8], d[16][8];
  const auto at_acc = [](int lane, int reg) {
    return std::pair{lane / 4 + 8 * (reg / 2), lane % 4 * 2 + reg % 2};
  };
  for (int reg = 0; reg < 4; ++reg) {
    const Lanes words = read(left[reg], kAllLanes), own = read(addend[reg], kAllLanes);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int n = 0; n < operand.each(); ++n)
        a[MmaOperand::row(lane) + 8 * (reg % 2)][operand.k(lane, n, reg / 2)] =
            operand.at(words[lane], n);
      const auto [row, column] = at_acc(lane, reg);
      d[row][column] = acc.number(own[lane]);
    }
  }
  for (int reg = 0; reg < 2; ++reg) {
    const Lanes words = read(right[reg], kAllLanes);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int n = 0; n < operand.each(); ++n)
        b[operand.k(lane, n, reg)][MmaOperand::row(lane)] = operand.at(words[lane], n);
  }
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column)
      for (int k = 0; k < depth; ++k) d[row][column] += a[row][k] * b[k][column];
  for (int reg = 0; reg < 4; ++reg) {
    Lanes& out = write(to[reg], kAllLanes);
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto [row, column] = at_acc(lane, reg);
      out[lane] = acc.bits(d[row][column]);
    }
  }
}

// PTX ISA, ldmatrix: lanes 8 j to 8 j + 7 contain the addresses of the eight rows of matrix j. From
// each matrix, a lane gets two contiguous elements of row lane / 4 or, if transposed, of column
// lane / 4.
void Warp::load_matrix(const Instruction& i) {
  constexpr int kSide = 8, kBytes = 2;
  const auto& to = i.operands[0].parts;
  const Operand& where = i.operands[1];
  if (to.size() != i.matrices) throw std::runtime_error("ldmatrix writes one register per matrix");
  const Lanes base = read(where.parts[0], kAllLanes);
  for (size_t matrix = 0; matrix < to.size(); ++matrix) {
    uint64_t numbers[kSide][kSide];
    for (int row = 0; row < kSide; ++row) {
      lane_ = static_cast<int>(matrix) * kSide + row;
      const Place place = resolve(address(where, base, lane_, kSide * kBytes), i.space);
      for (int column = 0; column < kSide; ++column)
        numbers[row][column] =
            place.cta.shared.load(place.at + column * kBytes, kBytes, order_, now_);
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
