// Interface through which a plan gets the configurations of its kernels
// (kernels/core/config.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/core/launch.h"
#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::lib {

// A kernel that a plan is about to build. KernelConfigs may keep it and call its functions at any
// time.
class ConfigQuestion {
 public:
  virtual ~ConfigQuestion() = default;
  virtual std::string kernel() const = 0;
  virtual int version() const = 0;          // changes if the meaning of the fields changes
  virtual std::string options() const = 0;  // fixed by the plan: "cols=4096 type=bf16"
  virtual std::vector<MetaField> heuristic() const = 0;
  // Returns the reason why the kernel cannot be built with these fields in place of the
  // heuristic's, or "". An unknown name or value is a reason too.
  virtual std::string refusal(const MetaValues& values) const = 0;
  // Returns a text of the kernel built with these fields: the same text means the same code and
  // the same launches on this device. Throws if refusal() returns a reason.
  virtual std::string built(const MetaValues& values) const = 0;
};

// Returns a text that is the same for configurations with the same code and launches. On a CPU it
// omits warps and other GPU settings.
std::string built_text(const program::Program& program, const Launch& launch, bool gpu);
std::string built_text(const kernels::Operation& operation, bool gpu);

class KernelConfigs {
 public:
  virtual ~KernelConfigs() = default;
  // Returns the fields whose values differ from the heuristic's. Called once for each configurable
  // kernel of a plan, while the plan is made.
  virtual MetaValues changed(const std::shared_ptr<const ConfigQuestion>& question) = 0;
};

}  // namespace ligerdsl::lib
