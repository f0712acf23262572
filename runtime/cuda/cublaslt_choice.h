// Chooses among the kernels that cuBLASLt proposes for a matmul. cuBLASLt's first proposal is a
// model's guess. A table overrides it where measurements were better. The choice depends on the
// proposals alone, never on a timing. Every process with the same library and kind of GPU therefore
// chooses the same kernel and gets the same bits.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "ligerdsl/dtype.h"
#include "runtime/kernel/matmul.h"

namespace ligerdsl::runtime {

// A proposal: the result's tile as a cublasLtMatmulTile_t, and the number of waves of such tiles on
// the GPU.
struct ProposedKernel {
  int tile;
  float waves;
};

// Returns the index in `proposed` of the kernel to use. `proposed` is not empty and in cuBLASLt's
// order. Returns 0 if no better one is known: if `arch` is not "sm_90a", for f32 operands, and
// below 24 waves. With few waves the last one decides, and cuBLASLt accounts for it.
size_t choose_kernel(std::string_view arch, Product product, DType operands, DType result,
                     std::span<const ProposedKernel> proposed);

}  // namespace ligerdsl::runtime
