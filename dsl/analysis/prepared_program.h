// Facts about a program that WorkCounter computes once, before any launch.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/lane_cost.h"
#include "program/op_info.h"
#include "program/program.h"

namespace ligerdsl::analysis {

struct PreparedBlock;

// An operation that ProgramRun evaluates.
struct PreparedOp {
  const program::Op* op = nullptr;
  program::Family family = program::Family::control;
  double elements = 1;  // number of elements in the accessed tile
  double element_bytes = 0;
  bool feeds_dot = false;       // a load whose tile becomes a dot operand
  bool repeats = false;         // a load of a resident row, after the first load of that row
  bool loads = false;           // a loop that loads outside its inner loops
  int stages = 1;               // a loop's iterations in flight, including the current one
  std::vector<size_t> carried;  // indices of the carried values that addresses or conditions need
  std::vector<PreparedBlock> regions;
};

// A region. Costs that do not depend on a launch are summed once, in this struct. ProgramRun
// evaluates only `ops`: memory accesses, control flow, and the operations that compute their
// operands.
struct PreparedBlock {
  const program::Region* region = nullptr;
  LaneCost cost;
  double scalars = 0, reductions = 0;
  std::vector<int> dots;  // indices in PreparedProgram::dots
  std::vector<PreparedOp> ops;
  const program::Op* yield = nullptr;
};

struct PreparedDot {
  DType dtype = DType::f32;
  bool tf32 = false;
  bool in_loop = false;
  bool loads_a = false;  // operand A is a loaded tile, which is in shared memory
  int64_t m = 0, n = 0, k = 0;
  double multiply_adds() const {
    return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

struct PreparedProgram {
  PreparedProgram(const program::Program& program, int num_stages);

  const program::Program& program;
  PreparedBlock body;
  std::vector<PreparedDot> dots;
  bool counts_programs = false;  // reads num_programs, and is not dynamic persistent
  bool dynamic_persistent = false;
  int stages = 1;         // largest num_stages of a loop that loads
  double ring_bytes = 0;  // bytes of the slots of the largest pipelined loop
  double live_bytes = 0;  // peak bytes of loaded, carried and accumulated tiles
};

}  // namespace ligerdsl::analysis
