// For `ligerdsl explain`: the configuration of each kernel of a plan, and who decided on each of its fields.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/instance/kernel_config.h"
#include "lib/src/context.h"
#include "lib/text/output.h"
#include "ligerdsl/dsl/kernel.h"

namespace ligerdsl::cli {

// Asks the context's tables as plans do, and keeps what they said.
class ExplainedConfigs final : public lib::KernelConfigs {
 public:
  explicit ExplainedConfigs(lib::Context& context) : context_(context) {}
  MetaValues changed(const std::shared_ptr<const lib::ConfigQuestion>& question) override;

  // With what `settings`, which asked these, made of the answers.
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

// The same of a kernel of --load, for which ligerdsl::tuned asks. `settings` become those of the call that it explains:
// with all that is a choice.
Json author_config(lib::Context& context, const AnyKernel& kernel, std::vector<std::string>* settings);

void print_configs(const Globals& globals, const Json& configs);

}  // namespace ligerdsl::cli
