#include "kernels/elementwise/bias_add_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(bias_add_forward) {
  return {{"y", {bias_reference(call["x"], call["bias"])}}};
}

LIGERDSL_REFERENCE(bias_add_backward) {
  return {{"d_bias", call.over_rows("d_bias", column_sums_reference(call["d_y"], call.size("F")))}};
}

}  // namespace ligerdsl::reference
