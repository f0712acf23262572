// Chooses among the kernels that cuBLASLt proposes for a matmul. cuBLASLt orders its proposals by
// estimated times. A table overrides the first proposal if another proposal was measured to be
// faster. The choice depends on the proposals alone, never on a timing. All processes with the same
// cuBLASLt and GPU model therefore choose the same kernel and get the same bits.
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
// order. Returns 0 if the table has no better kernel: if `arch` is not "sm_90a", for f32 operands,
// for Product::nn, for Product::nt into f32, and below 24 waves. With few waves, the last and
// partly filled wave determines the time, and cuBLASLt's estimate accounts for it.
size_t choose_kernel(std::string_view arch, Product product, DType operands, DType result,
                     std::span<const ProposedKernel> proposed);

}  // namespace ligerdsl::runtime
