// A kernel that is ready to run, and a report about its load.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/artifact.h"
#include "runtime/kernel/cuda_api.h"

namespace ligerdsl::runtime {

using Stream = cuda::Stream;  // == cudaStream_t; ignored on the CPU

struct Grid {
  int64_t x = 1, y = 1,
          z = 1;  // programs per axis; for a dynamic persistent kernel, a GPU starts only the CTAs
                  // that fit at once
};

// Resources of the machine code. On a CPU, fields without a meaning are 0.
struct KernelResources {
  int32_t registers = 0;     // per thread
  int32_t spill_bytes = 0;   // local memory per thread
  int64_t shared_bytes = 0;  // per CTA, static + dynamic
  int32_t threads = 0;       // per CTA
  int32_t cluster = 1;       // CTAs per cluster
  int32_t ctas_per_sm = 0;   // CTAs that fit on an SM at once
  int64_t code_bytes = 0;    // size of the cubin or object
  std::string log;           // log of the driver's assembler; empty for a cached cubin
};

enum class Origin : uint8_t { memory, disk, compiled };
const char* name(Origin origin);

// Origin and time of one load(). Phases are in execution order: "lookup", "mlir", "llvm", ...,
// "driver", "link".
struct LoadReport {
  Origin origin = Origin::memory;
  bool cubin_from_disk = false;  // nvptx: cached cubin; the driver's assembler did not run
  std::vector<program::PhaseTime> times;
};

class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;

  // Starts the kernel with Artifact::slots argument slots of 8 bytes, which launch() reads before
  // it returns. On a GPU the work is queued on `stream`. On a CPU it is finished when launch()
  // returns. A grid with an empty axis does nothing. Throws INVALID_SHAPE (grid too large),
  // STICKY_DEVICE_ERROR, FORKED_PROCESS, EXECUTION_FAILED or OUT_OF_DEVICE_MEMORY. On a GPU it
  // allocates no memory and takes no lock. Any number of threads may call it.
  virtual void launch(const uint64_t* slots, const Grid& grid, Stream stream) = 0;

  // Returns the largest number of programs per axis that launch() accepts.
  virtual Grid largest_grid() const { return {INT32_MAX, INT32_MAX, INT32_MAX}; }

  const program::Artifact& artifact() const { return artifact_; }
  const KernelResources& resources() const { return resources_; }

 protected:
  program::Artifact artifact_;
  KernelResources resources_;
};

}  // namespace ligerdsl::runtime
