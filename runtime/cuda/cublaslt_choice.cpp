#include "runtime/cuda/cublaslt_choice.h"

#include <array>

namespace ligerdsl::runtime {
namespace {

// Values of cublasLtMatmulTile_t: rows and columns of the column-major result.
enum Tile : int { k128x256 = 23, k256x128 = 24, k128x160 = 29, k168x128 = 197, k176x128 = 201 };

using Preferences = std::array<Tile, 3>;

// Tiles in order of preference, the fastest first. docs/design/decisions/011 has the measured times
// of all proposals of cuBLAS 13.1 on an H200.
constexpr Preferences kWideResult = {k176x128, k168x128, k128x256};  // a b^T: logits
constexpr Preferences kF32Result = {k128x160, k256x128,
                                    k128x256};  // a^T b into f32: accumulation of a gradient
constexpr Preferences kShortResult = {k256x128, k128x160,
                                      k128x256};  // a^T b into the type of the operands

constexpr float kManyWaves = 24;

const Preferences* preferences(std::string_view arch, Product product, DType operands,
                               DType result) {
  if (arch != "sm_90a" || operands == f32 || product == Product::nn) return nullptr;
  if (product == Product::nt) return result == f32 ? nullptr : &kWideResult;
  return result == f32 ? &kF32Result : &kShortResult;
}

}  // namespace

size_t choose_kernel(std::string_view arch, Product product, DType operands, DType result,
                     std::span<const ProposedKernel> proposed) {
  const Preferences* preferred = preferences(arch, product, operands, result);
  if (!preferred) return 0;
  for (const Tile tile : *preferred) {
    for (size_t i = 0; i < proposed.size(); ++i) {
      if (proposed[i].tile == tile && proposed[i].waves >= kManyWaves) return i;
    }
  }
  return 0;
}

}  // namespace ligerdsl::runtime
