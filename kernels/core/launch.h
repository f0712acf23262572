// What every kernel family hands to its caller: an Operation, which is a list of kernels in order plus the scratch
// buffers that connect them.
//
// The caller binds arguments by name. An argument of a kernel is one of
//   * a tensor or scalar of the operation's interface (the family's header lists names, shapes and types),
//   * a scratch buffer of Operation::workspace, as a tensor of the shape given there with padded rows (workspace.h).
// Row counts are run-time values: grids and workspace sizes are arithmetic over the number of rows (Size; the family's
// header says what a row is), so one Operation serves every number of rows. The number and order of partial results
// depend on shape, machine and options only, never on how many threads a CPU runs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/count.h"
#include "ligerdsl/dsl/kernel.h"
#include "ligerdsl/dsl/target.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::kernels {

// What launch rules may depend on beside the shape: what authors outside are given, too.
using Machine = Target;

// A GPU, by the architecture that code is compiled for ("sm_90a") and the PTX version that its driver takes, times ten.
// 0 SMs: as many as its usual chip has. Throws if there is no such architecture.
Machine gpu(const std::string& arch, int sms, int ptx_version);

using Grid = std::array<int64_t, 3>;  // programs along x, y and z; a 0 anywhere means: nothing to launch

// A recorded kernel and how it is launched. The grid is one of rows.
struct Step {
  program::Program program;
  Launch launch;
};

// A launch of the library's: a loop is pipelined where the kernel says so, not by default (num_stages is 1 here, 2 for
// authors).
Launch library_launch(Size programs, int num_warps);

struct Scratch {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Size> shape;
  // What is reserved, where more rows may need less than fewer do: a workspace for many rows serves fewer. Empty: the
  // shape.
  std::vector<Size> room;
};

struct Operation {
  std::vector<Step> steps;
  std::vector<Scratch> workspace;
};

// Adds a step. If its program was recorded as dynamic persistent (record.h), what it counts with is scratch
// ("next_program"), set to 0 by a step before it; the caller binds "programs", which is the grid's number.
void add_step(Operation& operation, Step step);
Operation operation_of(Step step);

using ligerdsl::ceil_div;  // beside those of this namespace
constexpr int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace ligerdsl::kernels
