#include "kernels/softmax/sparsemax_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(sparsemax_forward) {
  return {{"y", {sparsemax_reference(call["x"], call.size("N"), call.size("H"))}}};
}

LIGERDSL_REFERENCE(sparsemax_backward) {
  return {{"d_x", {sparsemax_gradient_reference(call["d_y"], call["y"], call.size("N"), call.size("H"))}}};
}

}  // namespace ligerdsl::reference
