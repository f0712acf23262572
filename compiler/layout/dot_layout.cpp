#include "compiler/layout/dot_layout.h"

#include <algorithm>

namespace ligerdsl::compiler {
namespace {

constexpr int64_t kWarpThreads = 32;
using Basis = LinearLayout::Basis;
using Bases = LinearLayout::Bases;

// Bits of an index along one dimension. The lowest `whole` bits are inside a fragment, and the
// lowest own() bits are inside one warp. The highest `warps` bits come from the number of the warp.
// With WarpSplit::groups, the two lowest warp bits are just above the fragment's bits instead.
struct Extent {
  int total, whole, warps = 0;
  int own() const { return total - warps; }
};

struct WarpSplit {
  Extent m, n;
  int idle = 0;         // bits of the warp's number that only replicate
  bool groups = false;  // the two lowest warp bits select 16 of the 64 rows of a wgmma

  int rowsOfGroup() const { return groups ? m.whole + kGroupBits : m.whole; }
  static constexpr int kGroupBits = 2;
};

int bitsOf(int64_t size) {
  return splitOdd(size).second;
}

// Returns the number of row bits that select the CTA. They are the highest row bits.
int ctaRowBits(const DotShape& shape) {
  return shape.part == WarpPart::group ? bitsOf(shape.ctas) : 0;
}

WarpSplit splitWarps(const DotShape& shape) {
  WarpSplit split{{bitsOf(shape.m) - ctaRowBits(shape), std::min(bitsOf(shape.m), bitsOf(kMmaM))},
                  {bitsOf(shape.n), std::min(bitsOf(shape.n), bitsOf(kMmaN))}};
  if (shape.part == WarpPart::group) {
    split.groups = true;
    split.m.warps = bitsOf(shape.warps);
    return split;
  }
  for (int left = bitsOf(shape.warps); left > 0; --left) {
    const bool rows = split.m.own() > split.m.whole, columns = split.n.own() > split.n.whole;
    if (rows && (!columns || shape.part == WarpPart::rows || split.m.own() >= split.n.own()))
      ++split.m.warps;
    else if (columns)
      ++split.n.warps;
    else
      ++split.idle;
  }
  return split;
}

void along(Bases* bases, int dim, int from, int to) {
  for (int bit = from; bit < to; ++bit) {
    Basis basis(2, 0);
    basis[dim] = int64_t{1} << bit;
    bases->push_back(basis);
  }
}

void idle(Bases* bases, int bits) {
  bases->insert(bases->end(), bits, Basis(2, 0));
}

// Appends the row bits that a warp holds in registers, above those inside a fragment.
void ownRows(Bases* bases, const WarpSplit& split) {
  along(bases, 0, split.rowsOfGroup(),
        split.m.total - split.m.warps + (split.groups ? WarpSplit::kGroupBits : 0));
}

// Returns the bases of the warp number's bits: first row bits, then column bits, then idle bits.
// The accumulator's rows are along dimension `rows` of the tile, and its columns along `columns`.
// An argument of -1 means that the tile does not have this dimension.
Bases warpBases(const WarpSplit& split, int rows, int columns) {
  Bases bases;
  if (rows < 0) {
    idle(&bases, split.m.warps);
  } else {
    if (split.groups) along(&bases, rows, split.m.whole, split.rowsOfGroup());
    along(&bases, rows, split.m.total - split.m.warps + static_cast<int>(bases.size()),
          split.m.total);
  }
  columns < 0 ? idle(&bases, split.n.warps) : along(&bases, columns, split.n.own(), split.n.total);
  idle(&bases, split.idle);
  return bases;
}

// Returns the layout of a tile. `rows` is true if its rows are rows of the accumulator, which CTAs
// may split.
LinearLayout layout(LinearLayout::Shape shape, Bases reg, Bases lane, Bases warp,
                    const DotShape& of, bool rows) {
  Bases ctas(bitsOf(of.ctas), Basis(2, 0));
  if (const int bits = rows ? ctaRowBits(of) : 0; bits > 0) {
    ctas.clear();
    along(&ctas, 0, bitsOf(of.m) - bits, bitsOf(of.m));
  }
  return {std::move(shape), std::move(reg), std::move(lane), std::move(warp), std::move(ctas)};
}

bool fitsFragments(const DotShape& shape) {
  return bitsOf(shape.m) >= bitsOf(kMmaM) && bitsOf(shape.n) >= bitsOf(kMmaN);
}

// Lane 4 g + t holds row g and the `each` columns that begin at column t times `each`.
Bases lanesOfRows(int64_t each) {
  return {{0, each}, {0, 2 * each}, {1, 0}, {2, 0}, {4, 0}};
}

}  // namespace

LinearLayout accumulatorLayout(const DotShape& shape) {
  if (!fitsFragments(shape))
    return LinearLayout::blocked({shape.m, shape.n}, 1, kWarpThreads, shape.warps,
                                 {shape.ctas, {}});
  const WarpSplit split = splitWarps(shape);
  Bases reg{{0, 1}, {8, 0}};
  along(&reg, 1, split.n.whole, split.n.own());
  ownRows(&reg, split);
  return layout({shape.m, shape.n}, reg, lanesOfRows(2), warpBases(split, 0, 1), shape, true);
}

DotShape shapeOf(const LinearLayout& acc, int64_t k, int64_t bytes) {
  DotShape shape{acc.shape()[0], acc.shape()[1], k, acc.warps(), acc.ctas()};
  shape.bytes = bytes;
  for (WarpPart part : {WarpPart::group, WarpPart::square, WarpPart::rows}) {
    shape.part = part;
    if ((part != WarpPart::group || fitsWgmma(shape)) && accumulatorLayout(shape) == acc) break;
  }
  return shape;
}

// Elements in one register are contiguous along k. A fragment's next register bits select the
// second half of its rows (operand A only), then the second half of its k.
std::optional<DotLayouts> mmaLayouts(const DotShape& shape) {
  const int64_t each = perRegister(shape.bytes), depth = mmaK(shape.bytes);
  if (!fitsFragments(shape) || bitsOf(shape.k) < bitsOf(depth)) return std::nullopt;
  const WarpSplit split = splitWarps(shape);
  Bases a, b;
  along(&a, 1, 0, bitsOf(each));
  a.push_back({8, 0});
  a.push_back({0, depth / 2});
  along(&a, 1, bitsOf(depth), bitsOf(shape.k));
  ownRows(&a, split);
  along(&b, 0, 0, bitsOf(each));
  b.push_back({depth / 2, 0});
  along(&b, 0, bitsOf(depth), bitsOf(shape.k));
  along(&b, 1, split.n.whole, split.n.own());
  const Bases lanesOfB{{each, 0}, {2 * each, 0}, {0, 1}, {0, 2}, {0, 4}};
  return DotLayouts{
      layout({shape.m, shape.k}, a, lanesOfRows(each), warpBases(split, 0, -1), shape, true),
      layout({shape.k, shape.n}, b, lanesOfB, warpBases(split, -1, 1), shape, false),
      accumulatorLayout(shape)};
}

bool fitsWgmmaColumns(const DotShape& shape) {
  constexpr int64_t kMostAnyColumns = 32;
  const bool any = shape.bytes != 1 || shape.n <= kMostAnyColumns;
  return shape.n <= kMostWgmmaN && shape.n % (any ? kMmaN : 2 * kMmaN) == 0;
}

bool fitsWgmma(const DotShape& shape) {
  const bool groups =
      shape.warps % kGroupWarps == 0 && (shape.m & -shape.m) >= kMmaM * shape.warps * shape.ctas;
  if (shape.m * shape.n > kMostWgmmaSums * kWarpThreads * shape.warps * shape.ctas) return false;
  if (shape.ctas > 1 && (shape.m & (shape.m - 1)) != 0)
    return false;  // the rows of a CTA must be contiguous
  return groups && fitsWgmmaColumns(shape) && shape.k % mmaK(shape.bytes) == 0;
}

DotLayouts threadLayouts(const DotShape& shape) {
  const LinearLayout acc = accumulatorLayout(shape);
  return {acc.slice(1).expandDims(1).broadcastTo({shape.m, shape.k}),
          acc.slice(0).expandDims(0).broadcastTo({shape.k, shape.n}), acc};
}

}  // namespace ligerdsl::compiler
