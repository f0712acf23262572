#include "kernels/core/reference.h"

namespace ligerdsl::reference {

LIGERDSL_REFERENCE(vector_add) {
  Values out = call["a"];
  for (size_t i = 0; i < out.size(); ++i) out[i] += call["b"][i];
  return {{"out", {out}}};
}

}  // namespace ligerdsl::reference
