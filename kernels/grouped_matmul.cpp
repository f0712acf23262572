// c = a b[e] or a b[e]^T of the rows of each group e, and c[e] = a^T b of a group's rows; sums in f32.
//
// Flop 2 T N K and 2 T M N. A tile has rows of one group: views are cut at the group's first row and end at its last one, so
// that rows of the next group are outside.
#include "kernels/grouped_matmul.h"

#include <bit>

#include "kernels/cross_entropy.h"
#include "kernels/index_view.h"
#include "kernels/product_tiles.h"

namespace ligerdsl::kernels {
namespace {

// make(number) for every number of this program: its own, which may be beyond `count`, or all below.
template <class Make>
void each_number(KernelBuilder& k, bool persistent, const Scalar& count, Make make) {
  if (!persistent) return make(k.program_id(0).to(i64));
  k.for_range(k.program_id(0).to(i64), count, k.num_programs(0).to(i64), make);
}

class Offsets {
 public:
  Offsets(KernelBuilder& k, const GroupedMatmulMeta& m)
      : experts_(m.experts),
        persistent_(m.persistent),
        offsets_(k.view("offsets", m.index_type, {m.experts + 1}, {.strides = {dyn}, .read_only = true})),
        error_(k.view("error", i64, {1})) {}

  // 0 in front of the first one and behind the last.
  Scalar at(const Scalar& number) const { return offsets_.load({number}).to(i64); }

  // Of how many groups, and of the rows behind them as one more, counts(offset, group) is true.
  template <class Counts>
  Scalar count(KernelBuilder& k, Counts counts) const {
    const int64_t there = experts_ + 1;
    const Shape block{std::min<int64_t>(1024, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(there))))};
    const Partition blocks = offsets_.partition(block);
    auto [found] = k.for_range(0, ceil_div(there, block[0]), 1, carry(k.zeros(block, i32)), [&](Scalar b, Tile found) {
      const Tile group = b.to(i64) * block[0] + k.arange(block[0]).to(i64);
      return carry(found + (group < there && counts(blocks.load({b}).to(i64), group)).to(i32));
    });
    return sum(found);
  }

  // Reports groups whose rows are none of `rows`, each by one program. In front of a product's loops, whose copies ahead must not pass
  // an atomic.
  void check(KernelBuilder& k, const Scalar& rows) const {
    each_number(k, persistent_, k.constant(experts_, i64), [&](const Scalar& group) {
      const Scalar begin = at(group), end = at(group + 1);
      const Scalar wrong = begin < 0 || end < begin || end > rows;
      atomic_max(error_.ptr(), kErrorBase - group, wrong && group < experts_);
    });
  }

 private:
  int64_t experts_;
  bool persistent_;
  View offsets_, error_;
};

// The matrix as sections one behind the other: the rows in front of the first group, the groups, the rows behind the last one.
// Section s begins at row begin(s), and its tiles at number begin(s) / tile_m + s: there are then enough numbers for all of its
// tiles, one or none too many. A number belongs to the last section that begins at it or before: how many of the groups and of the rows
// behind them do is counted by all threads at once, where a search would wait for memory at each step.
class Sections {
 public:
  Sections(KernelBuilder& k, const GroupedMatmulMeta& m, const Offsets& offsets, const Scalar& rows)
      : k_(k), offsets_(offsets), count_(m.experts + 2), tile_m_(m.tile_m), rows_(rows) {}

  struct Place {
    Scalar expert;      // -1 and the number of experts: no group
    Scalar begin, end;  // rows of the section
    Scalar tile;        // of the section; it may have fewer
  };
  // All numbers are less than this.
  Scalar tiles() const { return rows_ / tile_m_ + count_; }
  Place at(const Scalar& number) const {
    const Scalar section = offsets_.count(k_, [&](const Tile& offset, const Tile& group) {
                                      return clamp(offset, 0, rows_) / tile_m_ + (group + 1) <= number;
                                    }).to(i64);
    return {section - 1, begin(section), begin(section + 1), number - first(section)};
  }

 private:
  Scalar begin(const Scalar& section) const {
    const Scalar offset = clamp(offsets_.at(section - 1), 0, rows_);
    return where(section < count_, offset, rows_);
  }
  Scalar first(const Scalar& section) const { return begin(section) / tile_m_ + section; }

  KernelBuilder& k_;
  const Offsets& offsets_;
  int64_t count_, tile_m_;
  Scalar rows_;
};

}  // namespace

void grouped_matmul(KernelBuilder& k, const GroupedMatmulMeta& m) {
  const bool transposed = m.transposed_b();
  const View a = k.view("a", m.type, {dyn, m.width});
  const View b = k.view("b", m.type, transposed ? Shape{m.experts, m.cols, m.width} : Shape{m.experts, m.width, m.cols});
  const Offsets offsets(k, m);
  const View c = k.view("c", m.c_type, {dyn, m.cols});

  const Scalar rows = c.dim(0);
  const Sections sections(k, m, offsets, rows);
  const int64_t columns = ceil_div(m.cols, m.tile_n), turns = ceil_div(m.width, m.tile_k);
  const Partition factors = b.partition(transposed ? Shape{squeeze, m.tile_n, m.tile_k} : Shape{squeeze, m.tile_k, m.tile_n});
  offsets.check(k, rows);
  each_number(k, m.persistent, sections.tiles() * columns, [&](const Scalar& number) {
    const auto place = sections.at(number / columns);
    const Scalar column = number % columns, expert = place.expert;
    const Scalar exists = place.tile * m.tile_m < place.end - place.begin;
    const Partition of_group = a.slice(0, place.begin, place.end).partition({m.tile_m, m.tile_k});
    const Scalar of_expert = where(exists && expert >= 0 && expert < m.experts, k.constant(turns, i64), 0);
    const Tile sums = sums_of_turns(
        k, m, k.constant(0, i64), of_expert, [&](const Scalar& turn) { return of_group.load({place.tile, turn}); },
        [&](const Scalar& turn) {
          return transposed ? factors.load({expert, column, turn}).permute({1, 0})
                            : factors.load({expert, turn, column});
        });
    k.if_(exists, [&] {
      c.slice(0, place.begin, place.end)
          .partition({m.tile_m, m.tile_n})
          .store({place.tile, column}, sums.to(m.c_type));
    });
  });
}

void grouped_matmul_tn(KernelBuilder& k, const GroupedMatmulMeta& m) {
  const View a = k.view("a", m.type, {dyn, m.width});
  const View b = k.view("b", m.type, {dyn, m.cols});
  const Offsets offsets(k, m);
  const View c = k.view("c", m.c_type, {m.experts, m.width, m.cols});

  const Scalar rows = k.constant(ceil_div(m.width, m.tile_m), i64), columns = k.constant(ceil_div(m.cols, m.tile_n), i64),
               tiles = rows * columns;
  const Partition results = c.partition({squeeze, m.tile_m, m.tile_n});
  offsets.check(k, a.dim(0));
  each_number(k, m.persistent, tiles * m.experts, [&](const Scalar& number) {
    const Scalar expert = number / tiles;
    const TilePlace tile = grouped_tiles((number % tiles).to(i32), rows, columns, m.group);
    const Scalar begin = offsets.at(expert), end = offsets.at(expert + 1);
    const View of_a = a.slice(0, begin, end);
    const Partition left = of_a.partition({m.tile_k, m.tile_m}),
                    right = b.slice(0, begin, end).partition({m.tile_k, m.tile_n});
    Tile sums = sums_of_turns(
        k, m, k.constant(0, i64), cdiv(of_a.dim(0), m.tile_k),
        [&](const Scalar& turn) { return left.load({turn, tile.row}).permute({1, 0}); },
        [&](const Scalar& turn) { return right.load({turn, tile.column}); });
    if (m.adds) sums = sums + results.load({expert, tile.row, tile.column}).to(f32);
    results.store({expert, tile.row, tile.column}, sums.to(m.c_type));
  });
}

}  // namespace ligerdsl::kernels
