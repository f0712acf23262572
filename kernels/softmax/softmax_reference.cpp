#include "kernels/softmax/softmax_reference.h"

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

Expected softmax(const ReferenceCall& call, bool backward) {
  const int64_t n = call.size("N"), h = call.size("H");
  const int64_t queries = call.flag("causal") ? call.integer("n_queries") : 0;
  const double scale = call.number("scale", 1);
  if (!backward) return {{"y", {softmax_reference(call["x"], n, h, scale, queries)}}};
  return {{"d_x", {softmax_gradient_reference(call["d_y"], call["y"], n, h, scale, queries)}}};
}

}  // namespace

LIGERDSL_REFERENCE(softmax_forward) {
  return softmax(call, false);
}

LIGERDSL_REFERENCE(softmax_backward) {
  return softmax(call, true);
}

}  // namespace ligerdsl::reference
