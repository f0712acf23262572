// Subject of a tuner's worker: a kernel with its data, the expected results in float64, and guard
// bytes around its memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/cli/kernels/authors.h"
#include "lib/text/output.h"
#include "lib/tune/trial.h"
#include "runtime/device/measure.h"

namespace ligerdsl::cli {

// A configuration that is loaded for all problems.
class TunedCandidate {
 public:
  virtual ~TunedCandidate() = default;
  // check() runs the checked problem with outputs and workspace filled with NaNs. It returns
  // Fate::ok if outputs are correct and no other memory was written.
  struct Fault {
    tune::Fate fate = tune::Fate::ok;
    std::string text;
  };
  virtual Fault check() = 0;
  virtual size_t problems() const = 0;
  // Returns work that enqueues the problem once.
  virtual runtime::Work work(size_t problem) = 0;
  virtual std::vector<const lib::Launcher*> launchers() const = 0;
};

class TuneSubject {
 public:
  virtual ~TuneSubject() = default;
  // Returns the settings of the problems whose outputs are compared.
  virtual std::vector<std::string> checked() const = 0;
  // Returns the bytes per call of each problem, or 0 if arithmetic bounds its time.
  virtual std::vector<double> bytes_moved() const = 0;
  // Loads a configuration. Throws compile and load errors.
  virtual std::unique_ptr<TunedCandidate> load(const MetaValues& config) = 0;
};

struct TuneProblems {
  std::string kernel;
  std::vector<std::vector<std::string>>
      settings;  // settings by problem; all problems share one configuration
  std::vector<std::string>
      check_with;  // settings of the problem whose outputs are checked; empty: chosen automatically
};

// Makes the subject of a kernel loaded with --load, or of an operation. Throws Failure (kUsage) for
// settings that it does not accept.
std::unique_ptr<TuneSubject> make_tune_subject(const lib::ContextRef& context,
                                               const AuthorKernels& authors,
                                               const TuneProblems& problems);

}  // namespace ligerdsl::cli
