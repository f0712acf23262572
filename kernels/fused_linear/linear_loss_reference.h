// float64 logits of a linear layer, and gradients through them.
#pragma once

#include <cstdint>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

// Returns x w^T [n, v] of x [n, h] and w [v, h].
Values logits_of(const Values& x, const Values& w, int64_t n, int64_t v, int64_t h);

struct OperandGradients {
  Values d_x, d_weight;
};

// Returns d_x = d w and d_weight = d^T x, given the gradient d [n, v] of x w^T.
OperandGradients operand_gradients(const ReferenceCall& call, const Values& d, const Values& x,
                                   const Values& weight);

// Adds the gradients of the call's x and weight to its expected outputs.
void add_gradients(const ReferenceCall& call, const Values& d, Expected* expected);

}  // namespace ligerdsl::reference
