// What a tuner's worker tries configurations of: a kernel with data, the float64 answer, and guards around its memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/cli/kernels/authors.h"
#include "lib/src/context.h"
#include "lib/text/output.h"
#include "lib/tune/trial.h"
#include "runtime/device/measure.h"

namespace ligerdsl::cli {

// A configuration that is loaded, on all problems.
class TunedCandidate {
 public:
  virtual ~TunedCandidate() = default;
  // On the device, with every output and workspace filled with NaNs before: "" where the outputs are right and nothing
  // else was written.
  struct Fault {
    tune::Fate fate = tune::Fate::ok;
    std::string text;
  };
  virtual Fault check() = 0;
  virtual size_t problems() const = 0;
  // Queues the problem once.
  virtual runtime::Work work(size_t problem) = 0;
  virtual std::vector<const lib::Launcher*> launchers() const = 0;
};

class TuneSubject {
 public:
  virtual ~TuneSubject() = default;
  // Settings of the problems that outputs are compared on.
  virtual std::vector<std::string> checked() const = 0;
  // Of one call, by problem; 0 where arithmetic bounds it.
  virtual std::vector<double> bytes_moved() const = 0;
  // Throws what compiling and loading throw.
  virtual std::unique_ptr<TunedCandidate> load(const MetaValues& config) = 0;
};

struct TuneProblems {
  std::string kernel;
  std::vector<std::vector<std::string>> settings;  // by problem; one configuration serves them all
  std::vector<std::string> check_with;             // settings of the problem that outputs are checked on; empty: chosen
};

// A kernel of --load, or an operation. Throws Failure (kUsage) for settings that do not fit it.
std::unique_ptr<TuneSubject> make_tune_subject(const lib::ContextRef& context, const AuthorKernels& authors,
                                               const TuneProblems& problems);

}  // namespace ligerdsl::cli
