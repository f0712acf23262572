// Operations: the result of every kernel family. An Operation is a list of kernels in order, plus
// the scratch buffers that connect them.
//
// The caller binds arguments by name. An argument of a kernel is either
//   * a tensor or scalar of the operation's interface, listed in the family's header, or
//   * a scratch buffer of Operation::workspace, with padded rows (workspace.h).
//
// The number of rows is known only at run time. Grids and workspace sizes are formulas of that
// number (Size), so one Operation serves every call. The family's header says what a row is. The
// number and order of partial results depend on shape, machine and options, never on the number of
// CPU threads.
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

// Device that a launch rule may depend on. Authors' kernels receive the same struct.
using Machine = Target;

// Returns a GPU. `arch` is the architecture that code is compiled for ("sm_90a"). `ptx_version` is
// ten times the PTX version that its driver accepts. If `sms` is 0, the GPU has the number of SMs
// of its architecture's usual chip. Throws if the architecture is unknown.
Machine gpu(const std::string& arch, int sms, int ptx_version);

using Grid = std::array<int64_t, 3>;  // programs along x, y and z; if any is 0, nothing is launched

// Recorded kernel and its launch. The grid is a formula of the number of rows.
struct Step {
  program::Program program;
  Launch launch;
};

// Returns a launch of a library kernel. Its num_stages is 1, because library kernels pipeline only
// the loops that they mark. The default for other kernels is 2.
Launch library_launch(Size programs, int num_warps);

struct Scratch {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Size> shape;
  // Shape to reserve; empty if it is `shape`. It may be larger, because fewer rows may need more
  // memory, and a workspace for n rows must also serve calls with fewer rows.
  std::vector<Size> room;
};

// Launches and scratch buffers of a call. If a function returns an Operation, `Rows: ...` in its
// comment says what Size::rows() counts.
struct Operation {
  std::vector<Step> steps;
  std::vector<Scratch> workspace;
};

// Appends a step. A program that was recorded as dynamic persistent (record.h) also gets a counter,
// "next_program", as scratch, and a step before it that sets the counter to 0. The caller binds
// "programs", the number of programs of the grid.
void add_step(Operation& operation, Step step);
Operation operation_of(Step step);

using ligerdsl::ceil_div;  // adds its overloads to this namespace
constexpr int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace ligerdsl::kernels
