// Views of labels and indices.
#pragma once

#include <string>

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Declares a vector argument with any non-negative stride, because labels may be a column of a
// larger tensor. The aligned variant requires a stride of 1 (argument_facts.h).
inline View index_view(KernelBuilder& k, const std::string& name, DType type) {
  return k.view(name, type, {dyn}, {.strides = {dyn}});
}

}  // namespace ligerdsl::kernels
