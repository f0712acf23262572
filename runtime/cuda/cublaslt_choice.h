// Which of the kernels that cuBLASLt proposes makes a product. Its first proposal is a model's guess; where
// measurements say better, a table does. The choice is a function of the proposals alone, never of a timing, so that
// every process with the same library on the same kind of GPU chooses the same kernel and gets the same bits.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "ligerdsl/dtype.h"
#include "runtime/kernel/matmul.h"

namespace ligerdsl::runtime {

// What decides: a tile of the result as cublasLtMatmulTile_t numbers it, and how many times the GPU is filled with
// them.
struct ProposedKernel {
  int tile;
  float waves;
};

// The place of the kernel to use among `proposed`, which is not empty and in cuBLASLt's order. 0 where nothing better
// is known: on another architecture than `arch` "sm_90a", of f32 operands, or of fewer than 24 waves, where the
// last wave decides and cuBLASLt counts it.
size_t choose_kernel(std::string_view arch, Product product, DType operands, DType result,
                     std::span<const ProposedKernel> proposed);

}  // namespace ligerdsl::runtime
