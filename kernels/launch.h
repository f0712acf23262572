// What every kernel family hands to its caller: an Operation, which is a list of launches in order plus the scratch
// buffers that connect them.
//
// The caller binds arguments by name. An argument of a launch is one of
//   * a tensor or scalar of the operation's interface (the family's header lists names, shapes and types),
//   * a scratch buffer of Operation::workspace, as a contiguous tensor of the shape given there.
// Row counts are run-time values: grids and workspace sizes are functions of the number of rows (the family's header
// says what a row is), so one Operation serves every number of rows. The number and order of partial results depend on
// shape, machine and options only, never on how many threads a CPU runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::kernels {

using program::Target;

// What launch rules may depend on beside the shape.
struct Machine {
  Target target = Target::cpu;
  int processors = 132;  // nvptx: streaming multiprocessors; ignored on the CPU
};

using Grid = std::vector<int64_t>;  // programs along x (and y, z when present); a 0 anywhere means: nothing to launch

struct Launch {
  program::Program program;
  int num_warps = 4;   // nvptx
  int num_stages = 1;  // nvptx
  std::function<Grid(int64_t rows)> grid;
};

struct Scratch {
  std::string name;
  DType dtype = DType::f32;
  std::function<std::vector<int64_t>(int64_t rows)> shape;
};

struct Operation {
  std::vector<Launch> launches;
  std::vector<Scratch> workspace;
};

// For each argument of the program: does any store or atomic of the program write through it?
std::vector<bool> written_arguments(const program::Program& program);

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
constexpr int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace ligerdsl::kernels
