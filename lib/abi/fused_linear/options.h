// Checks the descriptor of a fused linear cross-entropy and converts it to options of kernels and
// chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cross_entropy/cross_entropy.h"
#include "lib/abi/fused_linear/chunks.h"
#include "lib/abi/fused_linear/views.h"

namespace ligerdsl::lib::head {

// Fail if no call with this descriptor can be valid.
void check_types(const Desc& d);
void check_wanted(const Desc& d);

bool with_gradient(const Desc& d);
DType weight_type(const Desc& d);

// product_type: dtype of the matmuls.
kernels::CrossEntropyOptions kernel_options(const Desc& d, DType product_type, bool keeps_lse);

// Returns true if the memory of a contiguous d_weight may hold exponentials before d_weight is
// computed. This requires a workspace limit. It is not possible if the call adds to d_weight, or if
// d_bias needs whole rows of exponentials.
bool may_use_d_weight(const Desc& d, DType product_type);

LinearChunkOptions chunk_options(const Desc& d, bool from_lse, DType product_type, int64_t few_rows,
                                 size_t product_workspace);

}  // namespace ligerdsl::lib::head
