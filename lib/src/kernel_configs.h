// Where a plan looks up how its kernels are configured (kernels/core/config.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/core/launch.h"
#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::lib {

// A kernel that a plan is about to build. It may be kept, and asked as long as anyone likes.
class ConfigQuestion {
 public:
  virtual ~ConfigQuestion() = default;
  virtual std::string kernel() const = 0;
  virtual int version() const = 0;          // of the meaning of its fields
  virtual std::string options() const = 0;  // "cols=4096 type=bf16": all that its plan says
  virtual std::vector<MetaField> heuristic() const = 0;
  // Why the kernel cannot be built with these fields in the place of the heuristic's; empty: it can. A name or value
  // that there is not is a reason too.
  virtual std::string refusal(const MetaValues& values) const = 0;
  // Of what is built with them: equal text, equal code and equal launches on this device. Throws where refusal() is a
  // reason.
  virtual std::string built(const MetaValues& values) const = 0;
};

// Equal where code and launches are; a CPU has no warps.
std::string built_text(const program::Program& program, const Launch& launch, bool gpu);
std::string built_text(const kernels::Operation& operation, bool gpu);

class KernelConfigs {
 public:
  virtual ~KernelConfigs() = default;
  // The fields of the kernel's configuration that are to be other than the heuristic's. Asked once for each kernel of a
  // plan that has a configuration, while the plan is made.
  virtual MetaValues changed(const std::shared_ptr<const ConfigQuestion>& question) = 0;
};

}  // namespace ligerdsl::lib
