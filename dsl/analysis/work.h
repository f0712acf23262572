// Work of one launch of a recorded kernel: bytes, multiply-adds, instructions, iterations.
//
// A counter evaluates some programs of the grid without the data in memory. Scalars that depend
// only on the grid and the arguments (program ids, sizes, loop bounds) have their values. Tiles
// have a shape and a dtype. Tiles of indices and pointers also have a base and one step per
// dimension, so that the masks of partial tiles are exact.
//
// Values that depend on data in memory are unknown. The counter then assumes:
//
//   value            assumption                                          reported in
//   bound of a loop  Assumptions::iterations                             Unknowns::loops
//   condition        the branch that moves more bytes is taken           Unknowns::branches
//   index of a tile  the tile is inside the view                         Unknowns::indices
//   mask of a tile   all elements are true                               Unknowns::masks
//
// The counter samples programs and iterations. It evaluates the first program, the last program and
// two programs between them. If all of these except the first do equal work, all programs after the
// first count as equal. Otherwise the counter evaluates more programs, and the sum is an estimate.
// In a grid of at most kAllPrograms programs, every program is evaluated.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "program/program.h"

namespace ligerdsl::analysis {

using Grid = std::array<int64_t, 3>;

inline constexpr int64_t kAllPrograms = 16;

// Bytes that a launch moves between an argument and the SMs, without masked elements.
struct Traffic {
  double loaded = 0;    // by all programs; a byte counts once per load
  double stored = 0;    // by stores and atomic additions of all programs
  double to_dots = 0;   // part of `loaded` that becomes an operand of a dot
  double resident = 0;  // part of `loaded`: blocks of resident rows, loaded again
  double element_bytes = 0;
  double size = 0;          // bytes of the view, or of the range accessed through pointers
  double read() const;      // distinct bytes loaded: at most `size`
  double written() const;   // distinct bytes stored: at most `size`
  double repeated() const;  // bytes loaded again: `loaded` - read()
};

// Multiply-adds of one `dot` of the kernel, in all programs of the launch.
struct DotWork {
  DType dtype = DType::f32;
  bool tf32 = false;  // f32 operands are rounded to tf32
  int64_t m = 0, n = 0, k = 0;
  bool in_loop = false;
  bool loads_a = false;  // operand A is a loaded tile, which tensor cores read from shared memory
  double multiply_adds = 0;
};

// Numbers of unknown values in a launch; see the table above.
struct Unknowns {
  double loops = 0, branches = 0, indices = 0, masks = 0;
  bool any() const { return loops + branches + indices + masks > 0; }
};

struct ProgramWork {
  double bytes = 0;       // loaded and stored bytes
  double lanes = 0;       // instructions of the ordinary units, summed over lanes
  double functions = 0;   // exponentials, reciprocals and other functions of the MUFU
  double dots = 0;        // multiply-adds
  double iterations = 0;  // iterations of loops that load
  double waits = 0;       // number of memory latencies that a program waits for
  double reductions = 0;  // reductions and scans of tiles
  double scalars = 0;     // instructions on scalars, which every warp executes
};

struct Work {
  int64_t programs = 0;
  bool persistent = false;          // a program's work depends on num_programs
  bool dynamic_persistent = false;  // each CTA takes its next program from a counter
  ProgramWork total, largest;       // sum over all programs; the largest program
  std::vector<Traffic> traffic;     // one entry per argument; scalars move no bytes
  std::vector<DotWork> dots;
  int stages = 1;         // most iterations in flight in a loop, including the current one
  double ring_bytes = 0;  // bytes of the slots of the largest pipelined loop
  double live_bytes = 0;  // peak bytes of tiles that are live at once
  double row_bytes = 0;   // bytes of resident rows that the largest program loads again
  Unknowns unknown;

  double read() const;
  double written() const;
  double repeated() const;
};

struct Assumptions {
  double iterations = 1;  // iterations of a loop with an unknown bound
};

struct PreparedProgram;

// Counts the work of launches of one kernel. The constructor takes longer than count().
class WorkCounter {
 public:
  // The program must outlive the counter. `num_stages` applies to loops that do not set their own.
  explicit WorkCounter(const program::Program& program, int num_stages = 1);
  ~WorkCounter();

  // Counts a launch with these argument slots, in the order of Program::arguments. Reads no
  // argument's memory.
  Work count(const uint64_t* slots, const Grid& grid, const Assumptions& assumptions = {}) const;

 private:
  std::unique_ptr<PreparedProgram> prepared_;
};

Work count_work(const program::Program& program, const uint64_t* slots, const Grid& grid,
                int num_stages = 1, const Assumptions& assumptions = {});

}  // namespace ligerdsl::analysis
