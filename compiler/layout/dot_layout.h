// Layouts of a matmul's operands, [m, k] and [k, n], and its accumulator, [m, n], on the threads of
// a GPU.
#pragma once

#include <optional>

#include "compiler/layout/linear_layout.h"

namespace ligerdsl::compiler {

/// Size of one mma.sync: kMmaM by kMmaN elements of the accumulator, and kMmaBytes along k for
/// every type. PTX ISA, "Matrix Fragments for mma.m16n8k16" for 16-bit types, m16n8k32 for i8,
/// m16n8k8 for tf32.
inline constexpr int64_t kMmaM = 16, kMmaN = 8, kMmaBytes = 32;
/// Number of elements of `bytes` bytes along k of one instruction (mmaK), and in one register
/// (perRegister).
constexpr int64_t mmaK(int64_t bytes) {
  return kMmaBytes / bytes;
}
constexpr int64_t perRegister(int64_t bytes) {
  return 4 / bytes;
}

/// Rows of one wgmma, its largest number of columns, and the warps that share it. Its k is the k of
/// mma.sync. PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16".
inline constexpr int64_t kWgmmaM = 64, kMostWgmmaN = 256, kGroupWarps = 4;
/// Largest number of accumulator registers per thread; more would leave too few for other values.
inline constexpr int64_t kMostWgmmaSums = 192;

/// Part of the accumulator that a warp holds:
/// - square: a part that is nearly square,
/// - rows: whole rows, as long as there are rows for all warps,
/// - group: whole rows, as one of the four warps of a wgmma holds them.
enum class WarpPart { square, rows, group };

struct DotShape {
  int64_t m, n, k;
  int64_t warps, ctas = 1;  // With WarpPart::group, CTAs of a cluster split the rows; otherwise
                            // each holds the whole tile
  WarpPart part = WarpPart::square;
  int64_t bytes = 2;  // bytes per element of an operand: 1 for i8, 4 for tf32
};

struct DotLayouts {
  LinearLayout a, b, acc;
};

/// Returns the accumulator's layout for any instruction, with whole fragments if the shape allows
/// them. With WarpPart::rows, an accumulator that becomes another matmul's operand already has the
/// layout of that operand's fragments.
LinearLayout accumulatorLayout(const DotShape& shape);

/// Returns the DotShape of a matmul with this k whose accumulator has this layout.
DotShape shapeOf(const LinearLayout& acc, int64_t k, int64_t bytes = 2);

/// Returns the layouts of mma.sync. Warps with the same rows hold the same fragments of A; warps
/// with the same columns hold the same fragments of B. Returns nothing if a tile does not consist
/// of whole fragments.
std::optional<DotLayouts> mmaLayouts(const DotShape& shape);

/// Returns true if wgmma supports this number of columns: at most 256, and a multiple of 8, or of
/// 16 for 1-byte elements with more than 32 columns.
bool fitsWgmmaColumns(const DotShape& shape);
/// Returns true if wgmma can compute the matmul, with the accumulator and any operand in registers
/// distributed by WarpPart::group.
bool fitsWgmma(const DotShape& shape);

/// Returns layouts in which every thread holds the rows of A and columns of B for its accumulator
/// elements.
DotLayouts threadLayouts(const DotShape& shape);

}  // namespace ligerdsl::compiler
