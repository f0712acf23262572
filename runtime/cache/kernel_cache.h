// Loads the kernel for a program's bytes from memory, else from disk, else by a compile.
//
// Level 1 holds artifacts (PTX or object with its metadata). Its key is the program bytes, the
// build id and the options, which include target, architecture, features and PTX version. Level 2,
// for GPUs, holds cubins. Its key is the PTX, the compute capability and the driver's version.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "program/options.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/cache/single_flight.h"
#include "runtime/environment/stage_files.h"
#include "runtime/kernel/kernel.h"
#include "runtime/system/fork.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {

// Error for a kernel that is not cached while compiles are forbidden (LIGERDSL_NO_JIT).
struct NotCached : Error {
  using Error::Error;
};

// The kernel has edited stages. Every process must compile it, so no cache can hold it.
struct EditedNotCached : NotCached {
  using NotCached::NotCached;
};

// Returns the target of `options` as text for people: "cpu (znver3)", "sm_90a, PTX 9.0".
std::string target_text(const program::CompileOptions& options);

// Measures phases. Each lap() ends a phase that began at the previous lap() or the constructor.
class PhaseClock {
 public:
  explicit PhaseClock(LoadReport& report);
  void lap(const char* phase);

 private:
  LoadReport& report_;
  int64_t last_ns_;
};

class KernelCache {
 public:
  using Compile = std::function<std::string(std::string_view program,
                                            std::string_view options)>;  // artifact bytes

  // The steps of a load that depend on the device.
  struct Steps {
    Compile compile;
    std::function<std::shared_ptr<LoadedKernel>(program::Artifact, const EditedStages&,
                                                LoadReport&)>
        instantiate;
    // Called for each kernel that was not in memory, with null if it could not be compiled or
    // loaded.
    std::function<void(std::string_view program, const program::CompileOptions& options,
                       const LoadedKernel*, const EditedStages&)>
        loaded;
  };

  KernelCache(const DiskCache& disk, Steps steps);

  // Among all contexts and processes that share a cache folder, one thread at a time compiles a key
  // (single_flight.h). Other callers wait for the result. Failures are not cached. Edited stages
  // (LIGERDSL_OVERRIDE_DIR) are compiled once per context and never stored on disk.
  std::shared_ptr<LoadedKernel> load(std::string_view program,
                                     const program::CompileOptions& options, bool may_compile,
                                     LoadReport& report);

  static Digest key(std::string_view program, std::string_view options);

  // Stores the artifact in the disk cache without loading it, so that its device need not be
  // present. Compiles only if the artifact is not stored yet. Throws CACHE_ERROR if it cannot write
  // and the cache mode is `required`.
  static Origin keep(const DiskCache& disk, const Compile& compile, std::string_view program,
                     const program::CompileOptions& options);

 private:
  struct Entry {
    std::shared_ptr<LoadedKernel> kernel;  // null while a thread builds it
    uint32_t building_since =
        fork_generation();  // a forked child does not wait for a build of its parent
  };

  struct Request {
    Digest key;
    std::string_view program;
    const program::CompileOptions& wanted;
    std::string options;  // serialised
    std::string target;   // shown to users
  };

  std::shared_ptr<LoadedKernel> build(const Request& request, bool may_compile, LoadReport& report);
  std::shared_ptr<LoadedKernel> find_or_compile(const Request& request, const EditedStages& edited,
                                                bool may_compile, LoadReport& report);
  std::shared_ptr<LoadedKernel> from_disk(const Request& request, PhaseClock& clock,
                                          LoadReport& report);
  std::shared_ptr<LoadedKernel> from_others(const Request& request, const SingleFlight& flight,
                                            PhaseClock& clock, LoadReport& report);
  std::shared_ptr<LoadedKernel> compile_and_store(const Request& request,
                                                  const EditedStages& edited, SingleFlight* flight,
                                                  LoadReport& report);
  std::string compile(const Request& request, const EditedStages& edited) const;
  std::shared_ptr<LoadedKernel> instantiate(program::Artifact artifact, const EditedStages& edited,
                                            LoadReport& report) const;

  const DiskCache& disk_;
  Steps steps_;
  std::shared_ptr<LoadedKernel> find_or_begin(const Digest& digest);

  ForkMutex mutex_;  // guards the entries
  EventCount built_;
  std::map<Digest, Entry> entries_;
};

}  // namespace ligerdsl::runtime
