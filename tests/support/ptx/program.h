// The PTX of one kernel as instructions that the machine can run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ligerdsl::test::ptx {

inline constexpr int kLanes = 32;
using Lanes = std::array<uint64_t, kLanes>;  // one register of a warp; values are zero-extended

// What a pure instruction computes in one lane.
using Function = uint64_t (*)(uint64_t, uint64_t, uint64_t);
struct Pure {
  Function function;
  size_t operands;
};
const Pure* find_pure(const std::string& opcode);  // null: not known

enum class Kind { pure, move, pack, unpack, load, store, atomic, shuffle, barrier, branch, exit, hint };
enum class Space { param, global, shared };

struct Operand {
  enum class Kind { reg, constant, vector, address, name };
  Kind kind = Kind::constant;
  int reg = -1;
  Lanes constant{};            // the value in every lane
  std::vector<Operand> parts;  // of a vector; the base of an address
  int64_t offset = 0;          // of an address
  std::string name;            // of a label or parameter
};

struct Instruction {
  int line = 0;
  std::string text, opcode;
  int predicate = -1;  // a register
  bool negated = false;
  Kind kind = Kind::pure;
  Function function = nullptr;  // pure and atomic
  Space space = Space::global;
  int bytes = 0;      // of one element: memory, move, atomic
  size_t target = 0;  // of a branch
  std::vector<Operand> operands;
};

// Shared memory begins here; no buffer of the host does.
inline constexpr uint64_t kSharedBase = 1 << 16;

struct Program {
  std::string entry;
  int threads = 0;  // .reqntid
  std::vector<Instruction> instructions;
  std::map<std::string, int> registers;  // special ones (%tid.x) included
};

// Throws std::runtime_error on anything it does not know.
Program parse(const std::string& text);

}  // namespace ligerdsl::test::ptx
