// What the description of a fused linear cross-entropy says, checked, as kernels and chunks take it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cross_entropy/cross_entropy.h"
#include "lib/src/fused_linear/chunks.h"
#include "lib/src/fused_linear/views.h"

namespace ligerdsl::lib::head {

// Throw for what fits no call.
void check_types(const Desc& d);
void check_wanted(const Desc& d);

bool with_gradient(const Desc& d);
DType weight_type(const Desc& d);

// product_type: of the matrix products.
kernels::CrossEntropyOptions kernel_options(const Desc& d, DType product_type, bool keeps_lse);

// Whether a contiguous d_weight may hold exponentials until it is made: what adds to it needs it whole, and d_bias the rows of all
// classes.
bool may_use_d_weight(const Desc& d, DType product_type);

LinearChunkOptions chunk_options(const Desc& d, bool from_lse, DType product_type, int64_t few_rows,
                                 size_t product_workspace);

}  // namespace ligerdsl::lib::head
