// Configuration of each kernel in a plan, with the source of each field, for `ligerdsl explain`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/instance/kernel_config.h"
#include "lib/text/output.h"
#include "ligerdsl/dsl/kernel.h"

namespace ligerdsl::cli {

// Queries the context's tables like plans do, and stores the answers.
class ExplainedConfigs final : public lib::KernelConfigs {
 public:
  explicit ExplainedConfigs(lib::Context& context) : context_(context) {}
  MetaValues changed(const std::shared_ptr<const lib::ConfigQuestion>& question) override;

  // Returns the answers, and the values after `settings`, the caller of this object, overrode them.
  Json json(const ConfigSettings& settings) const;

 private:
  struct Answer {
    std::string kernel, key;
    std::vector<MetaField> heuristic;
    lib::ConfigSource source;
  };

  lib::Context& context_;
  std::vector<Answer> answers_;
};

// Returns the same for a kernel of --load, for which ligerdsl::tuned queries. Adds the chosen
// schedule values to `settings`.
Json author_config(lib::Context& context, const AnyKernel& kernel,
                   std::vector<std::string>* settings);

void print_configs(const Globals& globals, const Json& configs);

}  // namespace ligerdsl::cli
