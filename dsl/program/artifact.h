// Result of a compile as plain data: the code, and all facts that a launcher needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"
#include "program/options.h"

namespace ligerdsl::program {

struct PhaseTime {
  std::string name;  // "import", "layouts", "ptx", ...
  double milliseconds = 0;
};

// A phase of a compile or one of its passes. Times are microseconds of CLOCK_MONOTONIC.
struct Span {
  std::string name, detail;
  int64_t begin_us = 0, duration_us = 0;
};

// A program's request that the compiler did not fulfil: place, reason, and what to change.
struct Remark {
  std::string file;  // the author's source file; empty if unknown
  uint32_t line = 0, column = 0;
  std::string pass;  // pass that emitted the remark
  std::string text;
  std::string id;  // from program/remarks.def; empty for a diagnostic of MLIR itself
};

// "file:line:column: remark: [pass] text [id]"
inline std::string to_string(const Remark& remark) {
  const std::string place = remark.file.empty() ? std::string()
                                                : remark.file + ":" + std::to_string(remark.line) +
                                                      ":" + std::to_string(remark.column) + ": ";
  return place + "remark: " + (remark.pass.empty() ? std::string() : "[" + remark.pass + "] ") +
         remark.text + (remark.id.empty() ? std::string() : " [" + remark.id + "]");
}

// Tensor map of a view, for TMA copies: a kernel parameter of 128 bytes (CUtensorMap) after the
// slots.
//
// Only the device knows the start and end of a slice. A map for slices along one dimension
// therefore has two extra dimensions. They place all rows after the end of the slice outside the
// map.
//
//   * The sliced dimension has 2^30 rows, and the slice is the last `size` rows. Row i of the slice
//     [begin, begin + size) has the coordinate 2^30 - size + i.
//   * The next dimension has a step of one row. Its coordinate, begin + size, adds the rows before
//     the slice's end.
//   * The last dimension has a step of 2^34 elements less one row. Its coordinate 2^30 subtracts
//     2^30 rows, because addresses wrap at 64 bits.
struct TensorMap {
  static constexpr size_t kMostDims = 5, kSliceDims = 2;
  static constexpr int64_t kSliceRows = int64_t{1} << 30, kSliceStep = int64_t{1} << 34;

  uint32_t slot = 0;         // slot of the view's pointer; sizes and strides follow it
  DType type = DType::f32;   // type of its elements; loads to shared memory round f32 to tf32
  std::vector<int64_t> box;  // elements per copy in each dimension, the last one contiguous
  int32_t swizzle = 0;       // bytes of a segment in which 16-byte units are permuted
  int32_t sliced = -1;       // dimension along which the view is sliced, or -1
  bool stores = false;       // copies store to the view

  size_t dims() const { return box.size() + (sliced < 0 ? 0 : kSliceDims); }
  bool operator==(const TensorMap&) const = default;
};

struct Artifact {
  Target target = Target::cpu;
  std::string arch;
  std::string entry;  // symbol of the kernel
  std::string
      code;  // nvptx: PTX; cpu: a relocatable object; with CompileOptions::emit: text of the stage
  uint32_t slots = 0;           // 8-byte argument slots
  int32_t threads = 0;          // nvptx: threads per CTA
  int32_t cluster = 1;          // nvptx: CTAs per cluster
  int64_t shared_bytes = 0;     // nvptx: dynamic shared memory per CTA
  bool launch_overlap = false;  // nvptx: the kernel itself waits for earlier grids (griddepcontrol)
  bool persistent = false;  // nvptx: reads num_programs, so a program's work depends on the grid
  bool dynamic_persistent =
      false;  // nvptx: a grid of any size runs all programs, so CTAs that fit at once suffice
  int64_t arena_bytes = 0;      // cpu: bytes of scratch per worker, 64-byte aligned
  int32_t ptx_version = 0;      // nvptx: emitted PTX version, times ten
  std::vector<TensorMap> maps;  // nvptx: tensor maps that the kernel takes after its slots
  std::vector<ArgFacts> facts;  // facts about the arguments that the code assumes
  std::vector<Remark> remarks;  // without repeated texts, in pass order
  std::vector<PhaseTime> times;
  std::vector<Span> spans;  // with CompileOptions::spans
};

// Entry point of a CPU artifact. Runs programs [begin, end) of the grid in row-major order (x
// fastest).
//   slots: argument slots
//   grid: programs per axis x, y, z
//   arena: scratch memory of arena_bytes, owned by the calling worker
using CpuEntry = void (*)(const uint64_t* slots, const int32_t* grid, int64_t begin, int64_t end,
                          void* arena);

}  // namespace ligerdsl::program
