// Operands of mma.sync and wgmma: their element type, and the positions of their elements in a
// warp's registers.
#pragma once

#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/support/fp8.h"
#include "tests/support/half.h"
#include "tests/support/tf32.h"

namespace ligerdsl::test::ptx {

struct MmaOperand {
  int bytes;  // per element
  double (*number)(uint32_t bits);

  int depth() const { return 32 / bytes; }  // elements along k of one instruction
  int each() const { return 4 / bytes; }    // elements per register
  // PTX ISA, "Matrix Fragments for mma.m16n8k..." and wgmma:
  // - k: position along k of element `i` of a lane's register, which belongs to half 0 or 1 of k
  // - row: row of A or column of B, within 8
  int k(int lane, int i, int half) const { return lane % 4 * each() + i + depth() / 2 * half; }
  static int row(int lane) { return lane / 4; }
  double at(uint64_t word, int i) const {
    const uint32_t bits = static_cast<uint32_t>(word) >> 8 * bytes * i;
    return number(bytes == 4 ? bits : bits & ((1u << 8 * bytes) - 1));
  }
};

inline MmaOperand mma_operand_named(const std::string& type) {
  if (type == "f16")
    return {2, [](uint32_t bits) { return double{from_f16(static_cast<uint16_t>(bits))}; }};
  if (type == "bf16")
    return {2, [](uint32_t bits) { return double{from_bf16(static_cast<uint16_t>(bits))}; }};
  if (type == "e4m3")
    return {1, [](uint32_t bits) { return from_fp8(kE4m3, static_cast<uint8_t>(bits)); }};
  if (type == "e5m2")
    return {1, [](uint32_t bits) { return from_fp8(kE5m2, static_cast<uint8_t>(bits)); }};
  if (type == "s8")
    return {1, [](uint32_t bits) { return static_cast<double>(static_cast<int8_t>(bits)); }};
  if (type == "tf32")
    return {4, [](uint32_t bits) {
              const float number = std::bit_cast<float>(bits);
              if (number == number && to_tf32(number) != number)
                throw std::runtime_error("an operand that was not rounded to tf32");
              return double{number};
            }};
  throw std::runtime_error("unknown operand type " + type);
}

// Type of the accumulator: f32, or i32 with wrapping additions.
struct Accumulator {
  bool whole;
  double number(uint64_t bits) const {
    const auto word = static_cast<uint32_t>(bits);
    return whole ? static_cast<double>(static_cast<int32_t>(word)) : std::bit_cast<float>(word);
  }
  uint32_t bits(double sum) const {
    return whole ? static_cast<uint32_t>(static_cast<int64_t>(sum))
                 : std::bit_cast<uint32_t>(static_cast<float>(sum));
  }
};

// Returns the part of an opcode with this number, counted from 0: part 1 of mma.sync is "sync".
inline std::string word_of(const std::string& opcode, int number) {
  size_t begin = 0;
  for (; number > 0; --number) begin = opcode.find('.', begin) + 1;
  return opcode.substr(begin, opcode.find('.', begin) - begin);
}

}  // namespace ligerdsl::test::ptx
