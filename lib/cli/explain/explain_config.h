// Configuration of each kernel in a plan, for `ligerdsl explain`. Each field has its source:
// setting, table or heuristic.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/instance/kernel_config.h"
#include "lib/text/output.h"
#include "ligerdsl/dsl/kernel.h"

namespace ligerdsl::cli {

// Looks up configurations in the context's tables, like a plan without this object, and stores the
// results.
class ExplainedConfigs final : public lib::KernelConfigs {
 public:
  explicit ExplainedConfigs(lib::Context& context) : context_(context) {}
  MetaValues changed(const std::shared_ptr<const lib::ConfigQuestion>& question) override;

  // Returns the stored configurations. A value that `settings` override is replaced by the new
  // value. `settings` are those of the plan that called changed().
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

// Returns the configuration of a kernel loaded with --load as ligerdsl::tuned finds it. Adds the
// chosen schedule values to `settings`.
Json author_config(lib::Context& context, const AnyKernel& kernel,
                   std::vector<std::string>* settings);

void print_configs(const Globals& globals, const Json& configs);

}  // namespace ligerdsl::cli
