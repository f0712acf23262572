// What a compile returns: code and everything a launcher must know, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"
#include "program/options.h"

namespace ligerdsl::program {

struct PhaseTime {
  std::string name;  // "import", "mlir", "llvm", ...
  double milliseconds = 0;
};

// What ran when, in microseconds of CLOCK_MONOTONIC: a phase, or a pass inside one.
struct Span {
  std::string name, detail;
  int64_t begin_us = 0, duration_us = 0;
};

// Something that a program asked for and did not get: where, why not, and what to change.
struct Remark {
  std::string file;  // the author's; empty where none is known
  uint32_t line = 0, column = 0;
  std::string pass;  // that says so
  std::string text;
};

// "file:line:column: remark: [pass] text"
inline std::string to_string(const Remark& remark) {
  const std::string place = remark.file.empty() ? std::string()
                                                : remark.file + ":" + std::to_string(remark.line) + ":" +
                                                      std::to_string(remark.column) + ": ";
  return place + "remark: " + (remark.pass.empty() ? std::string() : "[" + remark.pass + "] ") + remark.text;
}

// How copies of whole tiles find those of a view: the kernel takes it behind its slots, as 128 bytes (CUtensorMap).
//
// Of slices along one dimension, that begin and end where only the device knows, the map has two dimensions more, so that what lies
// behind a slice's end is outside of it. That dimension has 2^30 rows, of which a slice has the last ones: of slice [begin, begin + size),
// row i is 2^30 - size + i. The next dimension goes on by as many rows as there are in front of the slice's end, begin + size. The last one
// goes back by 2^30 rows: 2^30 of its steps of 2^34 elements less a row, as addresses have 64 bits.
struct TensorMap {
  static constexpr size_t kMostDims = 5, kSliceDims = 2;
  static constexpr int64_t kSliceRows = int64_t{1} << 30, kSliceStep = int64_t{1} << 34;

  uint32_t slot = 0;         // of the view's pointer; a size and then a stride of each dimension follow
  DType type = DType::f32;   // of its elements; f32 that is copied to shared memory is rounded to tf32
  std::vector<int64_t> box;  // elements of a copy along each dimension; the last ones are neighbours in memory
  int32_t swizzle = 0;       // bytes of a line whose 16-byte units are exchanged
  int32_t sliced = -1;       // the dimension that copies are of slices of; none: of all
  bool stores = false;       // copies go to the view

  size_t dims() const { return box.size() + (sliced < 0 ? 0 : kSliceDims); }
  bool operator==(const TensorMap&) const = default;
};

struct Artifact {
  Target target = Target::cpu;
  std::string arch;
  std::string entry;         // symbol of the kernel
  std::string code;          // nvptx: PTX text; cpu: a relocatable object; with CompileOptions::emit: that stage's text
  uint32_t slots = 0;        // 8-byte argument slots
  int32_t threads = 0;       // nvptx: threads per CTA
  int32_t cluster = 1;       // nvptx: CTAs per cluster
  int64_t shared_bytes = 0;  // nvptx: dynamic shared memory per CTA
  bool launch_overlap = false;  // nvptx: waits by itself for the grids before it (griddepcontrol)
  bool persistent = false;      // nvptx: asks for the number of programs: the grid decides how much one of them does
  bool dynamic_persistent =
      false;                    // nvptx: a grid of any size runs all programs: more than run at a time are of no use
  int64_t arena_bytes = 0;      // cpu: scratch one worker needs, 64-byte aligned
  int32_t ptx_version = 0;      // nvptx: the version emitted, times ten
  std::vector<TensorMap> maps;  // nvptx: that the kernel takes behind its slots
  std::vector<ArgFacts> facts;  // assumed of the arguments
  std::vector<Remark> remarks;  // each text once, in the order of the passes
  std::vector<PhaseTime> times;
  std::vector<Span> spans;  // with CompileOptions::spans
};

// The host entry of a CPU artifact: runs programs [begin, end) of the grid in row-major order (x fastest).
//   slots: the argument slots; grid: programs per axis x, y, z; arena: arena_bytes of scratch owned by the calling
//   worker.
using CpuEntry = void (*)(const uint64_t* slots, const int32_t* grid, int64_t begin, int64_t end, void* arena);

}  // namespace ligerdsl::program
