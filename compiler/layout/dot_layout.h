// Layouts of the tiles of a matmul, [m, k] by [k, n] added to [m, n], on the threads of a GPU.
#pragma once

#include <optional>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

/// Size of one mma.sync, with the same number of bytes along k for all types. PTX ISA, "Matrix
/// Fragments for mma.m16n8k16" for 16-bit types, m16n8k32 for i8, m16n8k8 for tf32.
inline constexpr int64_t kMmaM = 16, kMmaN = 8, kMmaBytes = 32;
/// Elements of `bytes` bytes along k of one instruction, and in one register.
constexpr int64_t mmaK(int64_t bytes) {
  return kMmaBytes / bytes;
}
constexpr int64_t perRegister(int64_t bytes) {
  return 4 / bytes;
}

/// Rows of one wgmma, which four warps share, and its largest number of columns. Its k is that of
/// mma.sync. PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16".
inline constexpr int64_t kWgmmaM = 64, kMostWgmmaN = 256, kGroupWarps = 4;
/// Largest number of accumulator registers per thread; more would leave too few for other values.
inline constexpr int64_t kMostWgmmaSums = 192;

/// Part of the accumulator that a warp holds:
/// - square: a part that is nearly square,
/// - rows: whole rows, as long as there are rows for all warps,
/// - group: the rows of one of the four warps of a wgmma, also whole.
enum class WarpPart { square, rows, group };

struct DotShape {
  int64_t m, n, k;
  int64_t warps, ctas = 1;  // CTAs of a cluster split the rows of WarpPart::group; otherwise each
                            // holds the whole tile
  WarpPart part = WarpPart::square;
  int64_t bytes = 2;  // bytes per element of an operand: 1 for i8, 4 for tf32
};

struct DotLayouts {
  LinearLayout a, b, sums;
};

/// Returns the layout of the accumulator, for any instruction; it has whole fragments if they fit.
/// With whole rows, an accumulator that becomes an operand of another matmul already has the layout
/// of that operand's fragments.
LinearLayout sumsLayout(const DotShape& shape);

/// Returns the shape of a matmul with this k whose accumulator has this layout.
DotShape shapeOf(const LinearLayout& sums, int64_t k, int64_t bytes = 2);

/// Returns the fragments of mma.sync. Warps with the same rows all hold the fragments of A, and
/// warps with the same columns those of B. Returns nothing if a tile is not a multiple of whole
/// fragments.
std::optional<DotLayouts> mmaLayouts(const DotShape& shape);

/// Returns true if wgmma supports this number of columns: a multiple of 8, or for i8 with more than
/// 32 columns a multiple of 16.
bool fitsWgmmaColumns(const DotShape& shape);
/// Returns true if wgmma can compute the matmul, with the accumulator, and an operand in registers,
/// distributed by WarpPart::group.
bool fitsWgmma(const DotShape& shape);

/// Returns layouts in which every thread holds the rows of A and the columns of B for its
/// accumulator.
DotLayouts threadLayouts(const DotShape& shape);

}  // namespace ligerdsl::compiler
