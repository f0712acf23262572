// Sparsemax over rows of H elements (Martins, Astudillo, ICML 2016, equations 2 and 3); arithmetic
// in f32, T = type.
//
//   y = round_T(max(x - tau, 0)), with the tau for which the sum of y is 1
//   dx = round_T(dy - mean of dy over the support) in the support (y > 0), and 0 elsewhere
//
// The kernel does not sort. f(tau) = sum of max(x - tau, 0) - 1 is convex, decreasing and piecewise
// linear, so Newton's method
//
//   tau <- tau + f(tau) / (number of x > tau)
//
// increases tau up to the root. It has reached the root when a step removes no element from the
// support.
//
// tau starts at max x - 1 or more. The root for a subset of the elements is at most the root for
// all. So the method first runs on the largest element of each part, which is cheap. A part is a
// run of contiguous elements if a thread has kRunsOfThread runs or more, and otherwise a lane's
// elements. If few parts contain two or more elements of the support, the start is near the root.
// Then one step over the whole row often replaces six or more.
//
// x and tau are relative to the row's maximum. The last step's f(tau) / count is the part of tau
// that f32 cannot represent. It is subtracted separately, so that the sum of y is accurate for any
// size of the support.
//
// Bytes, s = sizeof(T): forward 2 n H s, backward 3 n H s, if the registers of a CTA or a cluster
// hold a row. Wider rows are read again for each step and for the result. A row of -inf, or with a
// NaN or +inf, becomes NaN.
#include "kernels/softmax/sparsemax.h"

#include <algorithm>
#include <vector>

namespace ligerdsl::kernels {
namespace {

constexpr int kEarlySteps = 5;    // Newton steps over the largest elements of parts
constexpr int kRunsOfThread = 4;  // with this many runs per thread or more, each run is a part
// Short rows: a step over parts costs a fourth of a step over all elements. After two steps over
// parts, two or three steps over all elements remain instead of five.
constexpr int kEarlyStepsOfShort = 2;
constexpr int64_t kRun = 8;  // most columns of a run, if a tile has several rows

// Root of f as tau + rest, because f32 cannot represent it, and the number of elements above it.
template <class Number>
struct Threshold {
  Number tau, rest, count;

  Tile over(const Tile& x) const { return max((x - tau) - rest, 0.0f); }
};

Scalar any_of(const Scalar& active) {
  return active;
}
Scalar any_of(const Tile& active) {
  return any(active);
}

Tile ones_where(KernelBuilder& k, const Tile& positive) {
  return where(positive > 0.0f, 1.0f, k.zeros(positive.shape(), f32));
}

// Start of Newton's method. `count` is the number of parts whose largest element is above tau, or 0
// if tau is not yet the root for the parts' largest elements.
template <class Number>
struct Start {
  Number tau, count;
};

template <class Number>
Number quotient(const SparsemaxMeta& m, const Number& sum, const Number& count) {
  return m.exact_division ? sum / count : fast_div(sum, count);
}

// Runs Newton's method on elements relative to the largest one. above(tau) returns the sum of
// max(x - tau, 0) and the number of nonzero terms. The loop ends when all rows of the tile are
// done. A row is done when a step does not reduce the number of elements above tau; rounding may
// even increase it. A row is also done if its first step finds exactly start.count elements.
template <class Number, class Above>
Threshold<Number> newton(KernelBuilder& k, const SparsemaxMeta& m, const Start<Number>& start,
                         const Above& above) {
  const auto cols = static_cast<double>(m.cols);
  const Number zero = start.tau * 0.0f, many = zero + 2 * cols, first = zero + 3 * cols;
  auto [tau, rest, count, before] = k.while_(
      carry(start.tau, zero, start.count, first),
      [](Number, Number, Number count, Number before) { return any_of(count < before); },
      [&](Number tau, Number rest, Number count, Number before) {
        const auto active = count < before;
        // The largest element is always in the support.
        const Number next = where(active, min(tau + rest, -1 / cols), tau);
        auto [excess, support] = above(next);
        const Number known = where(before > many && support > count, many, count);
        return carry(next, quotient(m, excess - 1.0f, support), support,
                     where(active, known, zero));
      });
  return {tau, rest, count};
}

// One row of x, distributed over lanes: one tile, or blocks of a loop.
class LaneRow {
 public:
  LaneRow(KernelBuilder& k, const SparsemaxMeta& m, const View& x)
      : k_(k), m_(m), row_(k.program_id(0)), tiles_(x.partition({squeeze, m.block})) {
    assume(row_ < x.dim(0));
    blocks_ = ceil_div(m.cols, m.block);
    if (!m.looped) whole_ = load(k.constant(0, i32));
    start_from(largest_of_parts());
    if (!m.looped) whole_ = whole_ - top_;
    threshold_ = newton(k, m, start_, [&](const Scalar& tau) { return above(tau); });
  }

  void store(const View& y) const {
    const auto store = [&](const Scalar& b, const Tile& x) {
      y.partition({squeeze, m_.block})
          .store({row_, b}, threshold_.over(x).to(m_.type).reshape({m_.block}));
    };
    if (!m_.looped) return store(k_.constant(0, i32), whole_);
    k_.for_range(0, blocks_, 1, [&](Scalar b) { store(b, load(b) - top_); });
  }

 private:
  Tile load(const Scalar& b) const {
    return tiles_.load({row_, b}, {.pad = -INFINITY}).to(f32).reshape(m_.lanes.shape());
  }

  // Returns the largest element of each part, [ctas, parts].
  Tile largest_of_parts() const {
    const BlockLanes& lanes = m_.lanes;
    if (m_.looped) {
      auto [largest] = k_.for_range(
          0, blocks_, 1, carry(k_.full(lanes.carried(), -INFINITY, f32)),
          [&](Scalar b, Tile most) { return carry(max(most, lanes.reduce_max(load(b)))); });
      return largest.reshape({lanes.ctas, lanes.lanes});
    }
    if (lanes.run == 1 || lanes.fold < kRunsOfThread)
      return lanes.reduce_max(whole_).reshape({lanes.ctas, lanes.lanes});
    const int of_run = static_cast<int>(lanes.shape().size()) - 1;
    return reduce_max(whole_, of_run).reshape({lanes.ctas, lanes.fold * lanes.lanes});
  }

  // Sets the row's maximum and the start of tau, given the parts' largest elements. In a cluster,
  // each CTA first uses its own parts. Then the CTAs synchronise once to combine their results, and
  // continue with all parts.
  void start_from(const Tile& largest) {
    const Tile top = reduce_max(largest, 1);
    const Tile x = largest - finite_maximum(top).expand_dims(1);
    const auto count = [&](const Tile& over) { return max(sum(ones_where(k_, over), 1), 1.0f); };
    const auto over = [&](const Tile& tau) { return max(x - tau.expand_dims(1), 0.0f); };
    Tile tau = k_.full(top.shape(), -1.0f, f32), last;
    for (int i = 0; i < kEarlySteps; ++i) {
      const Tile more = over(tau);
      last = count(more);
      tau = tau + quotient(m_, sum(more, 1) - 1.0f, last);
    }
    auto [all, nearest] =
        reduce({top, tau}, [](Scalar top, Scalar tau, Scalar other_top, Scalar other_tau) {
          const Scalar all = max(top, other_top);
          const auto from_all = [&](const Scalar& t) { return where(t == all, 0.0f, t - all); };
          return carry(all, max(from_all(top) + tau, from_all(other_top) + other_tau));
        });
    top_ = all;
    start_.tau = nearest;
    start_.count = k_.constant(0.0f, f32);
    if (m_.lanes.ctas > 1) {
      const Tile from_top = largest - top_;
      const Threshold<Scalar> root = newton(k_, m_, start_, [&](const Scalar& tau) {
        const Tile above = max(from_top - tau, 0.0f);
        return carry(ligerdsl::sum(above), ligerdsl::sum(ones_where(k_, above)));
      });
      start_ = {root.tau, root.count};
      return;
    }
    const Tile now = count(over(tau));
    start_.count = reduce_max(where(now == last, now, 0.0f));
  }

  Carry<Scalar, Scalar> above(const Scalar& tau) const {
    const auto add = [&](const Tile& x, const Tile& excess, const Tile& count) {
      const Tile over = max(x - tau, 0.0f);
      return carry(excess + m_.lanes.sum(over), count + m_.lanes.sum(ones_where(k_, over)));
    };
    const Tile zeros = k_.zeros(m_.lanes.carried(), f32);
    auto [excess, count] =
        m_.looped
            ? k_.for_range(0, blocks_, 1, carry(zeros, zeros),
                           [&](Scalar b, Tile e, Tile c) { return add(load(b) - top_, e, c); })
            : add(whole_, zeros, zeros);
    return carry(sum(excess), sum(count));
  }

  KernelBuilder& k_;
  const SparsemaxMeta& m_;
  Scalar row_;
  Partition tiles_;
  int64_t blocks_;
  Tile whole_;  // the row in one tile, minus its maximum after the constructor
  Scalar top_;
  Start<Scalar> start_;
  Threshold<Scalar> threshold_;
};

// A program's rows of d_y and y: one tile each, or blocks of a loop.
struct GradientRows {
  KernelBuilder& k;
  const SparsemaxMeta& m;
  Partition d_y, y;
  Scalar row;

  Tile load(const Partition& tiles, const Scalar& b) const {
    const Tile t = tiles.load({row, b}).to(f32);
    return m.rows == 1 ? t.reshape(m.lanes.shape()) : t;
  }
  // Returns dy - mean where y > 0, NaN where y is NaN, and 0 elsewhere.
  template <class Mean>
  Tile gradient(const Tile& dy, const Tile& yt, const Mean& mean) const {
    return where(yt > 0.0f, dy - mean, yt * 0.0f);
  }
};

// Several rows in one tile. Columns are split into pieces with one vector per thread. A thread adds
// its elements of all pieces, so that few lanes share a row.
class TileOfRows {
 public:
  TileOfRows(KernelBuilder& k, const SparsemaxMeta& m, const View& x)
      : k_(k), m_(m), row_(k.program_id(0)) {
    for (int64_t i = 0; i < m.pieces; ++i)
      pieces_.push_back(tiles(x).load({row_, i}, {.pad = -INFINITY}).to(f32));
    const Tile largest = largest_of_runs(), top = reduce_max(largest, 1).expand_dims(1);
    for (Tile& piece : pieces_) piece = piece - top;
    threshold_ = newton(k, m, start(largest - top), [&](const Tile& tau) {
      Tile excess, count;
      for (const Tile& piece : pieces_) {
        const Tile over = max(piece - tau, 0.0f), ones = ones_where(k_, over);
        excess = excess.empty() ? over : excess + over;
        count = count.empty() ? ones : count + ones;
      }
      return carry(sum(excess, 1).expand_dims(1), sum(count, 1).expand_dims(1));
    });
  }

  void store(const View& y) const {
    for (int64_t i = 0; i < m_.pieces; ++i)
      tiles(y).store({row_, i}, threshold_.over(pieces_[i]).to(m_.type));
  }

 private:
  Partition tiles(const View& v) const { return v.partition({m_.rows, m_.block / m_.pieces}); }

  // Returns the largest element of each run, or column if a piece is one run, over all pieces.
  Tile largest_of_runs() const {
    Tile most = pieces_[0];
    for (size_t i = 1; i < pieces_.size(); ++i) most = max(most, pieces_[i]);
    const int64_t width = most.shape()[1], run = std::min<int64_t>(width & -width, kRun);
    return width <= run ? most : reduce_max(most.reshape({m_.rows, width / run, run}), 2);
  }

  // Returns each row's start, given the runs' largest elements relative to the row's maximum.
  Start<Tile> start(const Tile& largest) const {
    const auto over = [&](const Tile& tau) { return max(largest - tau, 0.0f); };
    const auto count = [&](const Tile& over) {
      return sum(ones_where(k_, over), 1).expand_dims(1);
    };
    Tile tau = k_.full({m_.rows, 1}, -1.0f, f32), last;
    for (int i = 0; i < kEarlyStepsOfShort; ++i) {
      const Tile more = over(tau);
      last = count(more);
      tau = min(tau + quotient(m_, sum(more, 1).expand_dims(1) - 1.0f, last),
                -1.0 / static_cast<double>(m_.cols));
    }
    const Tile now = count(over(tau));
    return {tau, where(now == last, now, 0.0f)};
  }

  KernelBuilder& k_;
  const SparsemaxMeta& m_;
  Scalar row_;
  std::vector<Tile> pieces_;  // elements minus their row's maximum, after the constructor
  Threshold<Tile> threshold_;
};

}  // namespace

void sparsemax_forward(KernelBuilder& k, const SparsemaxMeta& m) {
  const View y = k.view("y", m.type, {dyn, m.cols}), x = k.view("x", m.type, {dyn, m.cols});
  if (m.rows == 1) return LaneRow(k, m, x).store(y);
  TileOfRows(k, m, x).store(y);
}

void sparsemax_backward(KernelBuilder& k, const SparsemaxMeta& m) {
  const View d_x = k.view("d_x", m.type, {dyn, m.cols}), d_y = k.view("d_y", m.type, {dyn, m.cols}),
             y = k.view("y", m.type, {dyn, m.cols});
  const auto tiles = [&](const View& v) {
    return m.rows == 1 ? v.partition({squeeze, m.block}) : v.partition({m.rows, m.block});
  };
  const GradientRows rows{k, m, tiles(d_y), tiles(y), k.program_id(0)};
  if (m.rows == 1) assume(rows.row < y.dim(0));
  const Scalar first = k.constant(0, i32);
  const auto store = [&](const Scalar& b, const Tile& d) {
    tiles(d_x).store({rows.row, b}, m.rows == 1 ? d.to(m.type).reshape({m.block}) : d.to(m.type));
  };
  const auto in_support = [&](const Tile& dy, const Tile& yt) {
    return where(yt > 0.0f, dy, 0.0f);
  };
  if (!m.looped) {
    const Tile dy = rows.load(rows.d_y, first), yt = rows.load(rows.y, first),
               part = in_support(dy, yt), ones = ones_where(k, yt);
    if (m.rows == 1) return store(first, rows.gradient(dy, yt, sum(part) / sum(ones)));
    return store(first, rows.gradient(dy, yt, (sum(part, 1) / sum(ones, 1)).expand_dims(1)));
  }
  const Tile zeros = k.zeros(m.lanes.carried(), f32);
  const int64_t blocks = ceil_div(m.cols, m.block);
  auto [total, count] =
      k.for_range(0, blocks, 1, carry(zeros, zeros), [&](Scalar b, Tile total, Tile count) {
        const Tile dy = rows.load(rows.d_y, b), yt = rows.load(rows.y, b);
        return carry(total + m.lanes.sum(in_support(dy, yt)),
                     count + m.lanes.sum(ones_where(k, yt)));
      });
  const Scalar mean = sum(total) / sum(count);
  // The last block is first, because the caches still hold it.
  k.for_range(0, blocks, 1, [&](Scalar i) {
    const Scalar b = static_cast<int32_t>(blocks - 1) - i;
    store(b, rows.gradient(rows.load(rows.d_y, b), rows.load(rows.y, b), mean));
  });
}

}  // namespace ligerdsl::kernels
