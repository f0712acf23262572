#include "kernels/fused_linear/linear_loss_reference.h"

#include <utility>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

Values logits_of(const Values& x, const Values& w, int64_t n, int64_t v, int64_t h) {
  Values logits(n * v, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < v; ++j) {
      for (int64_t k = 0; k < h; ++k) logits[i * v + j] += x[i * h + k] * w[j * h + k];
    }
  }
  return logits;
}

OperandGradients operand_gradients(const ReferenceCall& call, const Values& d, const Values& x,
                                   const Values& weight) {
  const int64_t n = call.size("N"), v = call.size("V"), h = call.size("H");
  OperandGradients out{Values(n * h, 0.0), Values(v * h, 0.0)};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < v; ++j)
      for (int64_t k = 0; k < h; ++k) {
        out.d_x[i * h + k] += d[i * v + j] * weight[j * h + k];
        out.d_weight[j * h + k] += d[i * v + j] * x[i * h + k];
      }
  return out;
}

void add_gradients(const ReferenceCall& call, const Values& d, Expected* expected) {
  OperandGradients g = operand_gradients(call, d, call["x"], call["weight"]);
  const DType type = call.type("x");  // on a GPU also the dtype of d_logits
  (*expected)["d_x"] = {std::move(g.d_x), true, type};
  if (call.has("d_weight"))
    (*expected)["d_weight"] = call.over_rows("d_weight", std::move(g.d_weight), type);
}

}  // namespace ligerdsl::reference
