// Settings "config.NAME=VALUE": a choice of a kernel's schedule in the place of the heuristic's (kernels/core/config.h).
#pragma once

#include <string>
#include <vector>

#include "lib/instance/settings.h"
#include "lib/src/kernel_configs.h"

namespace ligerdsl::cli {

class ConfigSettings final : public lib::KernelConfigs {
 public:
  // Takes a setting if it is one of these.
  bool take(const Setting& setting);

  // Whether a setting chooses the field.
  bool gives(const std::string& field) const { return given_.count(field) > 0; }

  // Throws Failure (kUsage) for a name that the kernel does not have, and for a value that is none of its choices.
  MetaValues changed(const std::shared_ptr<const lib::ConfigQuestion>& question) override;

  // Who is asked first: settings change what these say, or else the heuristic's choice.
  void set_base(lib::KernelConfigs* base) { base_ = base; }

  // The kernels that were asked about, with the values that they have.
  struct Kernel {
    std::string name;
    std::vector<MetaField> fields;
  };
  const std::vector<Kernel>& kernels() const { return kernels_; }
  void forget_kernels() { kernels_.clear(); }
  // Throws Failure (kUsage) if there are settings, but the operation has no kernel to choose for.
  void require_taken(const std::string& operation) const;

 private:
  MetaValues given_;
  lib::KernelConfigs* base_ = nullptr;
  std::vector<Kernel> kernels_;
};

}  // namespace ligerdsl::cli
