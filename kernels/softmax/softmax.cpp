// Softmax over rows of H elements; arithmetic in f32, T = type.
//
//   y = round_T(e^(scale x - max) / sum);  masked columns are exactly 0
//   dx = round_T(scale y (dy - sum(dy y)));  masked columns are exactly 0
//
// Bytes, s = sizeof(T): forward 2 n H s, backward 3 n H s; rows wider than a tile are read twice. A
// row whose unmasked columns are all -inf becomes NaN, as in the formula.
#include "kernels/softmax/softmax.h"

#include <numbers>

namespace ligerdsl::kernels {
namespace {

// Mask of the columns that each row includes.
struct Mask {
  Scalar cols;     // i32
  Scalar queries;  // i32, causal only
  bool causal = false;
  bool all = false;  // no tile needs a mask

  Mask(KernelBuilder& k, const SoftmaxMeta& m, const View& x) : causal(m.causal) {
    all = !m.causal && m.cols % m.block == 0;
    cols = x.dim(1).to(i32);
    if (causal) queries = k.scalar("queries", i32);
  }
  // Returns the number of columns that count in each row. `row` is a row index or a tile of row
  // indices.
  template <class Rows>
  Rows limit(const Rows& row) const {
    return row % queries + (cols - queries + 1);
  }
  // Returns t where `counts` is true, and `otherwise` elsewhere.
  Tile where_counted(const Tile& counts, const Tile& t, double otherwise) const {
    return all ? t : where(counts, t, otherwise);
  }
};

}  // namespace

namespace {

// Rows that fit in a tile [rows, block], and their mask.
struct ResidentRows {
  Scalar row;
  Tile counts;  // i1 [rows, block]

  ResidentRows(KernelBuilder& k, const SoftmaxMeta& m, const Mask& mask) : row(k.program_id(0)) {
    Tile column = k.arange(m.block).expand_dims(0).broadcast_to({m.rows, m.block});
    counts = column < mask.cols;
    if (!m.causal) return;
    Tile limit = mask.limit(row * m.rows + k.arange(m.rows)).expand_dims(1);
    counts = counts && column < limit;
  }
};

// One row, in blocks.
struct LoopedRow {
  KernelBuilder& k;
  const SoftmaxMeta& m;
  Scalar row, limit, blocks, used_blocks;
  Shape shape;

  LoopedRow(KernelBuilder& k, const SoftmaxMeta& m, const Mask& mask)
      : k(k), m(m), row(k.program_id(0)), shape(m.lanes.shape()) {
    limit = m.causal ? clamp(mask.limit(row), 0, mask.cols) : mask.cols;
    blocks = cdiv(mask.cols, m.block);
    used_blocks = cdiv(limit, m.block);
  }
  // Returns the row as a resident row, because it is read twice.
  Resident keep(const View& view) const {
    assume(row < view.dim(0));  // one program per row
    return view.partition({squeeze, m.block}).resident({row});
  }
  Tile load(const Resident& kept, const Scalar& b) const {
    return kept.load(b).to(f32).reshape(shape);
  }
  void store(const View& view, const Scalar& b, const Tile& value) const {
    view.partition({squeeze, m.block}).store({row, b}, value.to(m.type).reshape({m.block}));
  }
  Tile counts(const Scalar& b) const {
    return (b * m.block + k.arange(m.block)).reshape(shape) < limit;
  }
  // Calls body(b) for each block, the last one first, because the caches still hold it.
  template <class Body>
  void reversed(Body body) const {
    k.for_range(0, blocks, 1, [&](Scalar i) { body(blocks - 1 - i); });
  }
};

}  // namespace

void softmax_forward(KernelBuilder& k, const SoftmaxMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  Scalar c = k.scalar("scale", f32) * std::numbers::log2e;
  const Mask mask(k, m, x);

  if (!m.looped) {
    const ResidentRows at(k, m, mask);
    Tile xt = x.partition({m.rows, m.block}).load({at.row, 0}).to(f32);
    Tile base = finite_maximum(reduce_max(mask.where_counted(at.counts, xt * c, -INFINITY), 1))
                    .expand_dims(1);
    Tile e = mask.where_counted(at.counts, fast_exp2(fma(xt, c, -base)), 0.0f);
    Tile inverse = (1.0f / sum(e, 1)).expand_dims(1);
    y.partition({m.rows, m.block})
        .store({at.row, 0}, mask.where_counted(at.counts, e * inverse, 0.0f).to(m.type));
    return;
  }
  const LoopedRow at(k, m, mask);
  const Resident kept = at.keep(x);
  const Shape lanes = m.lanes.carried();
  auto [lane_max, lane_sum] = k.for_range(
      0, at.used_blocks, 1, carry(k.full(lanes, -INFINITY, f32), k.zeros(lanes, f32)),
      [&](Scalar b, Tile top, Tile total) {
        Tile xt = at.load(kept, b);
        const OnlineOptions options{.scale_log2 = c, .counts = mask.all ? Tile() : at.counts(b)};
        const OnlineSums next = accumulate({top, total}, m.lanes, xt, options);
        return carry(next.m, next.s);
      });
  const auto [top, total] = combine(OnlineSums{lane_max, lane_sum});
  Scalar base = finite_maximum(top), inverse = 1.0f / total;
  at.reversed([&](const Scalar& b) {
    Tile p = fast_exp2(fma(at.load(kept, b), c, -base)) * inverse;
    at.store(y, b, mask.where_counted(at.counts(b), p, 0.0f));
  });
}

void softmax_backward(KernelBuilder& k, const SoftmaxMeta& m) {
  View d_x = k.view("d_x", m.type, {dyn, m.cols});
  View d_y = k.view("d_y", m.type, {dyn, m.cols});
  View y = k.view("y", m.type, {dyn, m.cols});
  Scalar scale = k.scalar("scale", f32);
  const Mask mask(k, m, y);

  if (!m.looped) {
    const ResidentRows at(k, m, mask);
    auto load = [&](const View& view) {
      Tile t = view.partition({m.rows, m.block}).load({at.row, 0}).to(f32);
      return m.causal ? where(at.counts, t, 0.0f) : t;
    };
    Tile dy = load(d_y), yt = load(y);
    Tile inner = sum(dy * yt, 1).expand_dims(1);
    d_x.partition({m.rows, m.block}).store({at.row, 0}, (scale * yt * (dy - inner)).to(m.type));
    return;
  }
  const LoopedRow at(k, m, mask);
  const Resident kept_d_y = at.keep(d_y), kept_y = at.keep(y);
  auto load = [&](const Resident& kept, const Scalar& b) {
    Tile t = at.load(kept, b);
    return m.causal ? where(at.counts(b), t, 0.0f) : t;
  };
  auto [products] = k.for_range(
      0, at.used_blocks, 1, carry(k.zeros(at.shape, f32)),
      [&](Scalar b, Tile acc) { return carry(fma(load(kept_d_y, b), load(kept_y, b), acc)); });
  Scalar inner = sum(products);
  at.reversed([&](const Scalar& b) {
    at.store(d_x, b, scale * load(kept_y, b) * (load(kept_d_y, b) - inner));
  });
}

}  // namespace ligerdsl::kernels
