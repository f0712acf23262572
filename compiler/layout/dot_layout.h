// Where the threads of a GPU have the tiles of a matrix product, [m, k] by [k, n] added to [m, n].
#pragma once

#include <optional>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

/// What one mma.sync multiplies, with as many bytes along k of any type: PTX ISA, "Matrix Fragments for mma.m16n8k16" of 16-bit
/// numbers, m16n8k32 of i8, m16n8k8 of tf32.
inline constexpr int64_t kMmaM = 16, kMmaN = 8, kMmaBytes = 32;
/// Of numbers of so many bytes: along k of an instruction, and in a register.
constexpr int64_t mmaK(int64_t bytes) {
  return kMmaBytes / bytes;
}
constexpr int64_t perRegister(int64_t bytes) {
  return 4 / bytes;
}

/// The rows of one wgmma, which four warps share, and the most columns; k as above. PTX ISA, "Register Fragments for
/// wgmma.mma_async.m64nNk16".
inline constexpr int64_t kWgmmaM = 64, kMostWgmmaN = 256, kGroupWarps = 4;
/// Of a thread, in registers all the time: more leave too few for the rest.
inline constexpr int64_t kMostWgmmaSums = 192;

/// Which sums a warp has: a part of them that is near a square, whole rows while there are rows for all warps, or the rows
/// that it has as one of the four of a wgmma, whole too.
enum class WarpPart { square, rows, group };

struct DotShape {
  int64_t m, n, k;
  int64_t warps, ctas = 1;  // CTAs of a cluster share the rows of WarpPart::group; else all have the whole product
  WarpPart part = WarpPart::square;
  int64_t bytes = 2;  // of a factor's number: 1 of i8, 4 of tf32
};

struct DotLayouts {
  LinearLayout a, b, sums;
};

/// The sums, whatever multiplies, of whole fragments where they fit. Of whole rows, sums that become a factor are where that
/// product's fragments are.
LinearLayout sumsLayout(const DotShape& shape);

/// The shape of a product of this depth that has its sums in this layout.
DotShape shapeOf(const LinearLayout& sums, int64_t k, int64_t bytes = 2);

/// Fragments of mma.sync: warps that have the same rows all hold those of a, of the same columns those of b. Nothing where
/// a tile is no multiple of whole fragments.
std::optional<DotLayouts> mmaLayouts(const DotShape& shape);

/// Whether wgmma knows the product's number of columns: a multiple of 8, of i8 one of 16 where there are more than 32.
bool fitsWgmmaColumns(const DotShape& shape);
/// Whether wgmma can make the product, with the sums and a factor in registers dealt by WarpPart::group.
bool fitsWgmma(const DotShape& shape);

/// Every thread has the rows of a and the columns of b that its sums are of.
DotLayouts threadLayouts(const DotShape& shape);

}  // namespace ligerdsl::compiler
