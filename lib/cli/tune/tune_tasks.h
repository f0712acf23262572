// Tasks of `ligerdsl tune`: a kernel with a configuration, and the problems that share it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/cli/kernels/authors.h"
#include "lib/cli/support/commands.h"
#include "lib/tune/space.h"

namespace ligerdsl::cli {

struct TuneTask {
  std::string operation;  // or kernel of --load, which is run
  std::string kernel;     // kernel whose configuration is searched, as in keys of tables
  int version = 1;
  std::string options;  // options of the kernel, as in keys of tables
  std::vector<std::vector<std::string>> problems;
  std::vector<std::string> check_with;
  std::string loaded;  // digest of the files of --load
  std::string entry =
      {};  // configuration in the table of --export, which is tried first; empty: none
  tune::Space space;
  // Returns a text of the kernel that is built: equal texts mean equal code and launches.
  std::function<std::string(const MetaValues&)> built;
  // Compiles into the disk cache, on any thread. Throws what compiling throws.
  std::function<void(const MetaValues&)> compile;
  // Predicts a relative time from launch settings, before anything is compiled.
  std::function<double(const tune::Config&)> predicted;
};

// Returns the tasks. Settings may be lists, H=4096,8192; each combination is a problem. Problems of
// one kernel with equal options, for example those that differ only in rows, form one task.
// `device` is the worker's description. When the descriptor `stop` becomes readable, running
// compiles end. Throws Failure (kUsage) for a kernel without a configuration.
std::vector<TuneTask> tune_tasks(const Globals& globals, const TuneRequest& request,
                                 const AuthorKernels& authors, const Json& device, int stop);

}  // namespace ligerdsl::cli
