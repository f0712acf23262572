// Tasks of `ligerdsl tune`: a kernel and the problems that share its configuration.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/cli/kernels/authors.h"
#include "lib/cli/support/commands.h"
#include "lib/tune/space.h"

namespace ligerdsl::cli {

struct TuneTask {
  std::string operation;  // operation, or kernel loaded with --load, that is executed
  std::string kernel;     // kernel whose configuration is searched, with its name in table keys
  int version = 1;
  std::string options;  // the kernel's options, as in table keys
  std::vector<std::vector<std::string>> problems;
  std::vector<std::string> check_with;
  std::string loaded;      // digest of the --load files
  std::string entry = {};  // configuration in the table of --export, to be tried first, or empty
  tune::Space space;
  // Returns a text that describes the built kernel; identical texts mean identical code and
  // launches.
  std::function<std::string(const MetaValues&)> built;
  // Compiles into the disk cache, on any thread. Throws compile errors.
  std::function<void(const MetaValues&)> compile;
  // Predicts a relative time from launch settings, before anything is compiled.
  std::function<double(const tune::Config&)> predicted;
};

// Returns the tasks. Settings may be lists, H=4096,8192; each combination is a problem. Problems of
// one kernel with the same options, which may differ for example in rows, form one task. `device`
// is the worker's description. Running compiles end when the descriptor `stop` becomes readable.
// Throws Failure (kUsage) for a kernel without a schedule to choose.
std::vector<TuneTask> tune_tasks(const Globals& globals, const TuneRequest& request,
                                 const AuthorKernels& authors, const Json& device, int stop);

}  // namespace ligerdsl::cli
