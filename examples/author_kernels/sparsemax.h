// Sparsemax: Martins, Astudillo, "From softmax to sparsemax", ICML 2016, equations 2 and 3. It
// projects a row onto the simplex:
//
//   y_j = max(x_j - tau, 0), with the tau for which the y_j sum to 1.
//
// The kernel neither sorts nor bisects. f(tau) = sum_j max(x_j - tau, 0) - 1 is convex, decreasing
// and piecewise linear. Newton's method starts at tau = max x - 1, where f >= 0, and climbs to the
// root. It is exact once no element leaves the support:
//
//   tau <- tau + f(tau) / (number of x_j > tau)
//
// x, y [n, cols]. A row that fits in a tile is read once: 2 n cols sizeof(type) bytes. A CTA of a
// cluster can hold about 32,768 columns. A wider row is read again in every Newton step; normally
// distributed rows need 5 to 10 steps.
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct SparsemaxMeta {
  DType type = bf16;
  int64_t cols = 4096;
  int64_t block = 4096;  // columns per tile: the whole row, or a block of a loop
  int64_t vectors = 2;   // 16-byte vectors per thread and block
  int64_t ctas = 1;      // CTAs that share a row, on a GPU with clusters
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("cols", cols);
    v("block", block, powers_of_two(64, 262144), Bits::row);
    v("vectors", vectors, choices({1, 2, 4}), Bits::row);
    v("ctas", ctas, powers_of_two(1, 16), Bits::row);
  }
};

namespace detail {

// The program's row of x: one tile, or a sequence of blocks.
class SparsemaxRow {
 public:
  SparsemaxRow(KernelBuilder& k, const SparsemaxMeta& m, const View& x, const Scalar& row)
      : k_(k),
        row_(row),
        tiles_(x.partition({squeeze, m.block})),
        blocks_(ceil_div(m.cols, m.block)) {
    if (blocks_ == 1) top_ = max(whole_ = load(0));
    if (blocks_ == 1) return;
    auto [lanes] = k.for_range(0, blocks_, 1, carry(k.full({m.block}, -INFINITY, f32)),
                               [&](Scalar b, Tile lanes) { return carry(max(lanes, load(b))); });
    top_ = max(lanes);
  }

  // Returns the sum of max(x - max x - tau, 0) and the number of nonzero terms.
  Carry<Scalar, Scalar> above(const Scalar& tau) const {
    const Tile zeros = k_.zeros(tiles_.shape(), f32);
    auto add = [&](const Tile& x, const Tile& excess, const Tile& count) {
      Tile more = over(x, tau);
      return carry(excess + more, count + where(more > 0.0f, 1.0f, zeros));
    };
    auto [excess, count] =
        blocks_ == 1 ? add(whole_, zeros, zeros)
                     : k_.for_range(0, blocks_, 1, carry(zeros, zeros),
                                    [&](Scalar b, Tile e, Tile c) { return add(load(b), e, c); });
    return carry(sum(excess), sum(count));
  }

  void store_over(const View& y, const Scalar& tau) const {
    auto store = [&](const ScalarArg& b, const Tile& x) {
      y.partition(tiles_.tile_shape()).store({row_, b}, over(x, tau).to(y.dtype()));
    };
    if (blocks_ == 1) return store(0, whole_);
    k_.for_range(0, blocks_, 1, [&](Scalar b) { store(b, load(b)); });
  }

 private:
  Tile load(const ScalarArg& b) const { return tiles_.load({row_, b}, {.pad = -INFINITY}).to(f32); }
  // Returns max(x - max x - tau, 0), which is between 0 and 1. `tau` is relative to the row's
  // maximum.
  Tile over(const Tile& x, const Scalar& tau) const { return max(x - top_ - tau, 0.0f); }

  KernelBuilder& k_;
  Scalar row_;
  Partition tiles_;
  int64_t blocks_;
  Tile whole_;
  Scalar top_;
};

}  // namespace detail

inline void sparsemax(KernelBuilder& k, const SparsemaxMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  const detail::SparsemaxRow row(k, m, x, k.program_id(0));
  auto [tau, support, before] = k.while_(
      carry(k.constant(-1.0, f32), k.constant(2.0 * m.cols, f32), k.constant(3.0 * m.cols, f32)),
      [](Scalar, Scalar support, Scalar before) { return support < before; },
      [&](Scalar tau, Scalar support, Scalar) {
        auto [excess, count] = row.above(tau);
        return carry(tau + (excess - 1.0f) / count, count, support);
      });
  row.store_over(y, tau);
}

inline const Kernel<SparsemaxMeta> sparsemax_kernel{
    .name = "sparsemax",
    .description = "the point of the simplex that is nearest to a row",
    .build = sparsemax,
    .launch = [](const SparsemaxMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {a.dim("x", 0)},
                    .num_warps = warps_for(m.block / m.ctas, m.type, m.vectors),
                    .num_ctas = static_cast<int>(m.ctas),
                    .no_alias = true};
    }};

}  // namespace author_kernels
