// Labels and indices, as kernels take them.
#pragma once

#include <string>

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// A vector of any stride that is not negative: labels may be a column of a larger tensor. Aligned variants take them to be contiguous
// (argument_facts.h).
inline View index_view(KernelBuilder& k, const std::string& name, DType type) {
  return k.view(name, type, {dyn}, {.strides = {dyn}});
}

}  // namespace ligerdsl::kernels
