// Where a plan looks up how its kernels are configured. Without one, the heuristic of each kernel decides.
#pragma once

#include <string>
#include <vector>

#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::lib {

class KernelConfigs {
 public:
  virtual ~KernelConfigs() = default;
  // The fields of a kernel's configuration that are to be other than the heuristic's, which are `fields`. Asked once
  // for each kernel of a plan that has a configuration, while the plan is made.
  virtual MetaValues changed(const std::string& kernel, const std::vector<MetaField>& fields) = 0;
};

}  // namespace ligerdsl::lib
