// What every kernel family hands to its caller: an Operation, which is a list of launches in order plus the scratch
// buffers that connect them.
//
// The caller binds arguments by name. An argument of a launch is one of
//   * a tensor or scalar of the operation's interface (the family's header lists names, shapes and types),
//   * a scratch buffer of Operation::workspace, as a contiguous tensor of the shape given there.
// Row counts are run-time values: grids and workspace sizes are functions of the number of rows (the family's header
// says what a row is; count.h what happens to numbers that are too large), so one Operation serves every number of
// rows. The number and order of partial results depend on shape, machine and options only, never on how many threads a
// CPU runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/count.h"
#include "program/gpu_arch.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::kernels {

// What launch rules may depend on beside the shape: a CPU, or a GPU of an architecture.
struct Machine {
  const program::GpuArch* arch = nullptr;  // null: a CPU
  int sms = 0;                             // streaming multiprocessors of the GPU
  int max_cluster = 1;                     // CTAs of a cluster that code for its driver can have; 1: no clusters

  bool is_gpu() const { return arch; }
};

// A GPU, by the architecture that code is compiled for ("sm_90a") and the PTX version that its driver takes, times ten.
// 0 SMs: as many as its usual chip has. Throws if there is no such architecture.
Machine gpu(const std::string& arch, int sms, int ptx_version);

// Programs along x, y and z; a 0 anywhere means: nothing to launch.
using Grid = std::array<int64_t, 3>;
constexpr Grid grid_of(Count x) {
  return {x.value(), 1, 1};
}

// The dimensions of a scratch buffer. Like Grid it allocates nothing: both are asked for at every call.
class Extents {
 public:
  constexpr Extents(std::initializer_list<Count> dims) : rank_(dims.size()) {
    std::transform(dims.begin(), dims.end(), dims_.begin(), [](Count dim) { return dim.value(); });
  }
  constexpr size_t size() const { return rank_; }
  constexpr int64_t operator[](size_t i) const { return dims_[i]; }
  constexpr const int64_t* begin() const { return dims_.data(); }
  constexpr const int64_t* end() const { return dims_.data() + rank_; }

 private:
  size_t rank_;
  std::array<int64_t, 4> dims_{};
};

struct Launch {
  program::Program program;
  int num_warps = 4;        // nvptx
  int num_ctas = 1;         // nvptx: CTAs per cluster
  int num_stages = 1;       // nvptx
  int min_ctas_per_sm = 0;  // nvptx: registers and resident rows leave room for as many CTAs
  std::function<Grid(Count rows)> grid;
};

struct Scratch {
  std::string name;
  DType dtype = DType::f32;
  std::function<Extents(Count rows)> shape;
  // What is reserved, where more rows may need less than fewer do: a workspace for many rows serves fewer. Empty: the
  // shape.
  std::function<Extents(Count rows)> room;
};

struct Operation {
  std::vector<Launch> launches;
  std::vector<Scratch> workspace;
};

// Adds a launch whose program was recorded by tickets (record.h). What it counts with is scratch ("tickets"), set to 0
// by a launch before it; the caller binds "programs", which is launch.grid's number.
void add_by_tickets(Operation& operation, Launch launch);

struct RowParts;  // tile_shape.h
// Adds a launch over rows, by tickets with the parts' resources where rows are shared.
void add_rows(Operation& operation, Launch launch, const RowParts& parts);
Operation row_operation(Launch launch, const RowParts& parts);

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
constexpr int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace ligerdsl::kernels
