// From program bytes to a loaded kernel: memory, then disk, then the compiler.
//
// Level 1 holds artifacts (PTX or object with its metadata), keyed by program bytes, options (target, architecture,
// features, PTX version and every choice are among them) and build id. Level 2, used by GPUs, holds cubins, keyed by
// the PTX, the SM and the driver's version.
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

// A kernel is in no cache and must not be compiled.
struct NotCached : Error {
  using Error::Error;
};

// "cpu (znver3)", "sm_90a, PTX 9.0": what options compile for, for people.
std::string target_text(const program::CompileOptions& options);

// Collects phases; each lap() ends the phase that began at the last one.
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
  using Compile = std::function<std::string(std::string_view program, std::string_view options)>;  // artifact bytes

  // The device's part of the work.
  struct Steps {
    Compile compile;
    std::function<std::shared_ptr<LoadedKernel>(program::Artifact, const EditedStages&, LoadReport&)> instantiate;
    // Told of each kernel that was not in memory; null where it could not be compiled or loaded.
    std::function<void(std::string_view program, const program::CompileOptions& options, const LoadedKernel*,
                       const EditedStages&)>
        loaded;
  };

  KernelCache(const DiskCache& disk, Steps steps);

  // One compile per key at a time, among contexts and among processes that share a cache folder (single_flight.h): a
  // second caller of the same key waits for the first. A failure is not kept. What was edited (LIGERDSL_OVERRIDE_DIR) is
  // compiled anew by each context and never on disk.
  std::shared_ptr<LoadedKernel> load(std::string_view program, const program::CompileOptions& options, bool may_compile,
                                     LoadReport& report);

  static Digest key(std::string_view program, std::string_view options);

  // Puts the artifact into the disk cache without loading it, for a device that need not be here; compiles it unless it
  // is there. Throws CACHE_ERROR where the cache cannot be written.
  static Origin keep(const DiskCache& disk, const Compile& compile, std::string_view program,
                     const program::CompileOptions& options);

 private:
  struct Entry {
    std::shared_ptr<LoadedKernel> kernel;         // null while a thread builds it
    uint32_t building_since = fork_generation();  // a thread of the parent builds nothing for a forked child
  };

  struct Request {
    Digest key;
    std::string_view program;
    const program::CompileOptions& wanted;
    std::string options;  // their bytes
    std::string target;   // for people
  };

  std::shared_ptr<LoadedKernel> build(const Request& request, bool may_compile, LoadReport& report);
  std::shared_ptr<LoadedKernel> find_or_compile(const Request& request, const EditedStages& edited, bool may_compile,
                                                LoadReport& report);
  std::shared_ptr<LoadedKernel> from_disk(const Request& request, PhaseClock& clock, LoadReport& report);
  std::shared_ptr<LoadedKernel> from_others(const Request& request, const SingleFlight& flight, PhaseClock& clock,
                                            LoadReport& report);
  std::shared_ptr<LoadedKernel> compile_and_store(const Request& request, const EditedStages& edited,
                                                  SingleFlight* flight, LoadReport& report);
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
