// A configuration that replaces the heuristic's, for operations and kernels loaded with --load.
#pragma once

#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/abi/kernel_configs.h"
#include "lib/cli/kernels/authors.h"

namespace ligerdsl::cli {

// While an object lives, the context's plans use these values instead of the heuristic's.
class GivenConfig final : public lib::KernelConfigs {
 public:
  GivenConfig(lib::Context& context, MetaValues values)
      : context_(context), before_(context.kernel_configs()), values_(std::move(values)) {
    context_.set_kernel_configs(this);
  }
  ~GivenConfig() { context_.set_kernel_configs(before_); }
  GivenConfig(const GivenConfig&) = delete;
  GivenConfig& operator=(const GivenConfig&) = delete;

  MetaValues changed(const std::shared_ptr<const lib::ConfigQuestion>&) override { return values_; }

 private:
  lib::Context& context_;
  lib::KernelConfigs* before_;
  MetaValues values_;
};

// Stores each kernel that a plan configures, and changes no value of the heuristic's configuration.
class KeptQuestions final : public lib::KernelConfigs {
 public:
  using Question = std::shared_ptr<const lib::ConfigQuestion>;
  MetaValues changed(const Question& asked) override {
    questions_.push_back(asked);
    return {};
  }
  // Returns the stored kernels, in the order of the plan's questions.
  const std::vector<Question>& all() const { return questions_; }

 private:
  std::vector<Question> questions_;
};

// Returns the settings of a kernel loaded with --load, with the configuration's values as settings
// of its meta-parameters.
std::vector<std::string> with_config(std::vector<std::string> settings, const MetaValues& config);

// Like load_kernels() in authors.h, with this configuration.
void load_kernels(const AuthorKernels& authors, const std::string& kernel,
                  const std::vector<std::string>& settings, const MetaValues& config,
                  const lib::ContextRef& context);

}  // namespace ligerdsl::cli
