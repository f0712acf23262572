#include "kernels/cross_entropy/target_counts_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(target_counts) {
  return {{"counts",
           {counts_reference(call.integers("labels"), call.integer("ignore_index"),
                             call["class_weight"])}}};
}

}  // namespace ligerdsl::reference
