// Settings "config.NAME=VALUE", which override fields of a kernel's schedule
// (kernels/core/config.h).
#pragma once

#include <string>
#include <vector>

#include "lib/abi/kernel_configs.h"
#include "lib/instance/settings.h"

namespace ligerdsl::cli {

class ConfigSettings final : public lib::KernelConfigs {
 public:
  // If the setting's name begins with "config.", stores it and returns true.
  bool take(const Setting& setting);

  // Returns true if a setting chooses the field.
  bool gives(const std::string& field) const { return given_.count(field) > 0; }

  // Throws Failure (kUsage) for a name that the kernel lacks, or a value that is not one of its
  // choices.
  MetaValues changed(const std::shared_ptr<const lib::ConfigQuestion>& question) override;

  // Sets the source of values that settings override; null means the heuristic.
  void set_base(lib::KernelConfigs* base) { base_ = base; }

  // Kernel of a plan, and the values of its configuration.
  struct Kernel {
    std::string name;
    std::vector<MetaField> fields;
  };
  const std::vector<Kernel>& kernels() const { return kernels_; }
  void forget_kernels() { kernels_.clear(); }
  // Throws Failure (kUsage) if settings were given but no kernel of the operation has a schedule.
  void require_taken(const std::string& operation) const;

 private:
  MetaValues given_;
  lib::KernelConfigs* base_ = nullptr;
  std::vector<Kernel> kernels_;
};

}  // namespace ligerdsl::cli
