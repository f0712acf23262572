// A kernel that is ready to run, and how it came to be.
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
          z = 1;  // programs per axis; a GPU starts no more CTAs of a dynamic persistent kernel than run at a time
};

// What the machine code uses; zero where it means nothing (CPU).
struct KernelResources {
  int32_t registers = 0;     // per thread
  int32_t spill_bytes = 0;   // local memory per thread
  int64_t shared_bytes = 0;  // per CTA, static + dynamic
  int32_t threads = 0;       // per CTA
  int32_t cluster = 1;       // CTAs per cluster
  int32_t ctas_per_sm = 0;   // occupancy limit
  int64_t code_bytes = 0;    // cubin or object
  std::string log;           // the driver's assembler log, when it just compiled
};

enum class Origin : uint8_t { memory, disk, compiled };
const char* name(Origin origin);

// What one load() cost. Times in the order in which the phases ran: "lookup", "mlir", "llvm", ..., "driver", "link".
struct LoadReport {
  Origin origin = Origin::memory;
  bool cubin_from_disk = false;  // nvptx: the driver's assembler did not run
  std::vector<program::PhaseTime> times;
};

class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;

  // Starts the kernel with Artifact::slots 8-byte argument slots. The slots are read before launch() returns. On a GPU
  // the work is queued on `stream`; on the CPU it is finished on return. A grid with an empty axis does nothing. Throws
  // INVALID_SHAPE (grid too large), STICKY_DEVICE_ERROR, FORKED_PROCESS, EXECUTION_FAILED, OUT_OF_DEVICE_MEMORY.
  // Takes no memory and no lock on the GPU path; may be called from any number of threads.
  virtual void launch(const uint64_t* slots, const Grid& grid, Stream stream) = 0;

  // Programs along each axis that launch() takes at most.
  virtual Grid largest_grid() const { return {INT32_MAX, INT32_MAX, INT32_MAX}; }

  const program::Artifact& artifact() const { return artifact_; }
  const KernelResources& resources() const { return resources_; }

 protected:
  program::Artifact artifact_;
  KernelResources resources_;
};

}  // namespace ligerdsl::runtime
