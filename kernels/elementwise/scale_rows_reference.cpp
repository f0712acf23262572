#include "kernels/core/reference.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(scale) {
  return {{"out", {scaled_rows(call["x"], call["factor"], call.size("H"))}}};
}

}  // namespace ligerdsl::reference
