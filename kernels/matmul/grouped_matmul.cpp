// c = a b[e] or a b[e]^T for the rows of each group e, and c[e] = a^T b over a group's rows.
// Accumulators are f32.
//
// Flop 2 T N K and 2 T M N. T is the number of rows of a. A tile has rows of one group only: views
// are sliced to the group's rows, so that other rows are out of bounds.
#include "kernels/matmul/grouped_matmul.h"

#include <bit>

#include "kernels/core/error_flag.h"
#include "kernels/core/index_view.h"
#include "kernels/matmul/matmul_tiles.h"

namespace ligerdsl::kernels {
namespace {

// Calls make(number) for each number that program i computes: i, i + programs, ... below `count` if
// the kernel is persistent, otherwise only i, which may be `count` or more.
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
        offsets_(k.view("offsets", m.index_type, {m.experts + 1},
                        {.strides = {dyn}, .read_only = true})),
        error_(k.view("error", i64, {1})) {}

  // Returns offset `number`, or 0 if there is no such offset.
  Scalar at(const Scalar& number) const { return offsets_.load({number}).to(i64); }

  // Returns the sum of `of(offset, next offset, group)` over all groups, in dtype `type`. The rows
  // after the last group count as one more group, with next offset 0.
  template <class Of>
  Scalar sum_over_groups(KernelBuilder& k, DType type, Of of) const {
    const int64_t there = experts_ + 1;
    const Shape block{
        std::min<int64_t>(1024, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(there))))};
    const Partition begins = offsets_.partition(block),
                    ends = offsets_.slice(0, 1, there).partition(block);
    auto [found] = k.for_range(
        0, ceil_div(there, block[0]), 1, carry(k.zeros(block, type)), [&](Scalar b, Tile found) {
          const Tile group = b.to(i64) * block[0] + k.arange(block[0]).to(i64);
          const Tile summand = of(begins.load({b}).to(i64), ends.load({b}).to(i64), group);
          return carry(found + where(group < there, summand, 0));
        });
    return sum(found);
  }

  // Reports groups whose offsets are invalid for `rows` rows; one program checks each group. Call
  // it before the matmul's loops, because loads must not move across the atomic.
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

// Rows of a tile of c.
struct Place {
  Scalar expert;      // group; rows outside of all groups have -1 or `experts`
  Scalar begin, end;  // first row of the tile; end of its section, <= begin: no tile
};

// The matrix as consecutive sections: the rows before the first group, the groups, and the rows
// after the last group.
class Sections {
 public:
  Sections(KernelBuilder& k, const GroupedMatmulMeta& m, const Offsets& offsets, const Scalar& rows)
      : k_(k), offsets_(offsets), experts_(m.experts), tile_m_(m.tile_m), rows_(rows) {}

  Scalar count() const { return k_.constant(experts_ + 2, i64); }
  Scalar begin(const Scalar& section) const {
    return where(section < count(), clamp(offsets_.at(section - 1), 0, rows_), rows_);
  }

  // Returns tile `number`. The tile numbers of section s start at begin(s) / tile_m + s. A section
  // may have one number more than tiles. All threads together count the sections that start at or
  // before `number`; a binary search would wait for memory at each step.
  Place at(const Scalar& number) const {
    const Scalar section =
        offsets_
            .sum_over_groups(
                k_, i32,
                [&](const Tile& offset, const Tile&, const Tile& group) {
                  return (clamp(offset, 0, rows_) / tile_m_ + (group + 1) <= number).to(i32);
                })
            .to(i64);
    const Scalar first = begin(section), tile = number - (first / tile_m_ + section);
    return {section - 1, first + tile * tile_m_, begin(section + 1)};
  }

  // Returns the number of tiles in the sections before `section`. It is i64, because groups that
  // overlap may have more than 2^31 tiles.
  Scalar tiles_before(const Scalar& section) const {
    const Scalar groups = offsets_.sum_over_groups(
        k_, i64, [&](const Tile& offset, const Tile& next, const Tile& group) {
          const Tile rows = clamp(next, 0, rows_) - clamp(offset, 0, rows_);
          return where(group + 1 < section, (max(rows, 0) + (tile_m_ - 1)) / tile_m_, 0);
        });
    return where(section > 0, cdiv(begin(k_.constant(1, i64)), tile_m_) + groups, 0);
  }

 private:
  KernelBuilder& k_;
  const Offsets& offsets_;
  int64_t experts_, tile_m_;
  Scalar rows_;
};

// List of the nonempty tiles, for persistent programs. Each row has expert, begin and end. Row 0
// also has the number of tiles.
class ListedTiles {
 public:
  explicit ListedTiles(KernelBuilder& k) : list_(k.view("tiles", i64, {dyn, 4})) {}

  Scalar count() const { return list_.load({0, 3}); }
  Place at(const Scalar& number) const {
    return {list_.load({number, 0}), list_.load({number, 1}), list_.load({number, 2})};
  }

  // Capacity of the list. Groups that overlap can have more tiles.
  Scalar room() const { return list_.dim(0); }
  void store(const Tile& number, const Scalar& expert, const Tile& begin, const Scalar& end,
             const Tile& mask) const {
    const auto column = [&](int64_t which) { return list_.ptr() + (number * 4 + which); };
    const Tile zeros = begin * 0;
    ligerdsl::store(column(0), zeros + expert, mask);
    ligerdsl::store(column(1), begin, mask);
    ligerdsl::store(column(2), zeros + end, mask);
  }
  void store_count(const Scalar& count) const { list_.store({0, 3}, min(count, room())); }

 private:
  View list_;
};

}  // namespace

void grouped_matmul_tiles(KernelBuilder& k, const GroupedMatmulMeta& m) {
  const Offsets offsets(k, m);
  const ListedTiles list(k);
  const Scalar rows = k.view("a", m.type, {dyn, m.width}).dim(0);
  const Sections sections(k, m, offsets, rows);

  offsets.check(k, rows);
  const Scalar section = k.program_id(0).to(i64), begin = sections.begin(section),
               end = sections.begin(section + 1);
  const Scalar before = sections.tiles_before(section), tiles = cdiv(max(end - begin, 0), m.tile_m);
  const Scalar listed = min(tiles, list.room() - before);
  constexpr int64_t together = 128;
  k.for_range(0, cdiv(listed, together), 1, [&](const Scalar& b) {
    const Tile tile = b.to(i64) * together + k.arange(together).to(i64);
    list.store(before + tile, section - 1, begin + tile * m.tile_m, end, tile < listed);
  });
  k.if_(section == sections.count() - 1, [&] { list.store_count(before + tiles); });
}

void grouped_matmul(KernelBuilder& k, const GroupedMatmulMeta& m) {
  const bool transposed = m.transposed_b();
  const View a = k.view("a", m.type, {dyn, m.width});
  const View b =
      k.view("b", m.type,
             transposed ? Shape{m.experts, m.cols, m.width} : Shape{m.experts, m.width, m.cols});
  const View c = k.view("c", m.c_type, {dyn, m.cols});

  const int64_t k_steps = ceil_div(m.width, m.tile_k);
  const Scalar columns = k.constant(ceil_div(m.cols, m.tile_n), i64);
  const Partition b_tiles = b.partition(transposed ? Shape{squeeze, m.tile_n, m.tile_k}
                                                   : Shape{squeeze, m.tile_k, m.tile_n});
  const auto make = [&](const Place& place, const Scalar& column) {
    const Scalar expert = place.expert, none = k.constant(0, i64);
    const Scalar exists = place.begin < place.end;
    const Partition a_tiles = a.slice(0, place.begin, place.end).partition({m.tile_m, m.tile_k});
    const Scalar k_steps_of_expert =
        where(exists && expert >= 0 && expert < m.experts, k.constant(k_steps, i64), 0);
    const Tile acc = accumulate_k_steps(
        k, m, none, k_steps_of_expert,
        [&](const Scalar& k_step) {
          return a_tiles.load({none, k_step});
        },
        [&](const Scalar& k_step) {
          return transposed ? b_tiles.load({expert, column, k_step}).permute({1, 0})
                            : b_tiles.load({expert, k_step, column});
        });
    k.if_(exists, [&] {
      c.slice(0, place.begin, place.end)
          .partition({m.tile_m, m.tile_n})
          .store({none, column}, acc.to(m.c_type), {.tensor_copies = m.tensor_stores});
    });
  };
  // Tiles are numbered in groups of m.group rows of tiles, so that concurrent programs share rows
  // of a and columns of b. In row-major order they would read all of b[e] for every few rows of
  // tiles.
  if (m.persistent) {
    const ListedTiles list(k);
    const Scalar rows = list.count();
    return each_number(k, true, rows * columns, [&](const Scalar& number) {
      const TilePlace tile = grouped_tiles(number, rows, columns, m.group);
      make(list.at(tile.row), tile.column);
    });
  }
  const Offsets offsets(k, m);
  const Scalar rows = c.dim(0);
  const Sections sections(k, m, offsets, rows);
  offsets.check(k, rows);
  const TilePlace tile = grouped_tiles(k.program_id(0).to(i64),
                                       cdiv(rows, m.tile_m) + sections.count(), columns, m.group);
  make(sections.at(tile.row), tile.column);
}

void grouped_matmul_tn(KernelBuilder& k, const GroupedMatmulMeta& m) {
  const View a = k.view("a", m.type, {dyn, m.width});
  const View b = k.view("b", m.type, {dyn, m.cols});
  const Offsets offsets(k, m);
  const View c = k.view("c", m.c_type, {m.experts, m.width, m.cols});

  const Scalar rows = k.constant(ceil_div(m.width, m.tile_m), i64),
               columns = k.constant(ceil_div(m.cols, m.tile_n), i64), tiles = rows * columns;
  const Partition results = c.partition({squeeze, m.tile_m, m.tile_n});
  offsets.check(k, a.dim(0));
  each_number(k, m.persistent, tiles * m.experts, [&](const Scalar& number) {
    const Scalar expert = number / tiles;
    const TilePlace tile = grouped_tiles((number % tiles).to(i32), rows, columns, m.group);
    const Scalar begin = offsets.at(expert), end = offsets.at(expert + 1);
    const View of_a = a.slice(0, begin, end);
    const Partition left = of_a.partition({m.tile_k, m.tile_m}),
                    right = b.slice(0, begin, end).partition({m.tile_k, m.tile_n});
    Tile acc = accumulate_k_steps(
        k, m, k.constant(0, i64), cdiv(of_a.dim(0), m.tile_k),
        [&](const Scalar& k_step) {
          return left.load({k_step, tile.row}).permute({1, 0});
        },
        [&](const Scalar& k_step) {
          return right.load({k_step, tile.column});
        });
    if (m.adds) acc = acc + results.load({expert, tile.row, tile.column}).to(f32);
    results.store({expert, tile.row, tile.column}, acc.to(m.c_type),
                  {.tensor_copies = m.tensor_stores});
  });
}

}  // namespace ligerdsl::kernels
