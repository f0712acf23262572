// What `ligerdsl tune` searches: kernels whose configuration is asked for, with the problems that one serves.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/cli/kernels/authors.h"
#include "lib/cli/support/commands.h"
#include "lib/tune/space.h"

namespace ligerdsl::cli {

struct TuneTask {
  std::string operation;  // or a kernel of --load: what is run
  std::string kernel;     // whose configuration is searched; a table's key has it
  int version = 1;
  std::string options;  // of the kernel: what a table's key has
  std::vector<std::vector<std::string>> problems;
  std::vector<std::string> check_with;
  std::string loaded;      // digests of the files of --load
  std::string entry = {};  // the configuration that the table has which is exported to: tried first; empty: none
  tune::Space space;
  // Of what is built: equal text, equal code and launches.
  std::function<std::string(const MetaValues&)> built;
  // Into the disk cache, from any thread. Throws what compiling throws.
  std::function<void(const MetaValues&)> compile;
  // A time of some unit, from what a launch says before anything is compiled.
  std::function<double(const tune::Config&)> predicted;
};

// Settings may hold lists, H=4096,8192: each combination is a problem. Problems of one kernel with equal options, as
// those that differ in their rows, are one task. `device` is what the worker says of it; when the descriptor `stop` becomes
// readable, compiles that run end. Throws Failure (kUsage) for a kernel without a configuration to choose.
std::vector<TuneTask> tune_tasks(const Globals& globals, const TuneRequest& request, const AuthorKernels& authors,
                                 const Json& device, int stop);

}  // namespace ligerdsl::cli
