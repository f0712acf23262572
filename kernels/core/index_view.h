// Views of labels and indices.
#pragma once

#include <string>

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Returns a vector argument with any non-negative stride: labels may be a column of a larger
// tensor. Aligned variants assume that it is contiguous (argument_facts.h).
inline View index_view(KernelBuilder& k, const std::string& name, DType type) {
  return k.view(name, type, {dyn}, {.strides = {dyn}});
}

}  // namespace ligerdsl::kernels
