// d_table[v, :] = sum over i with index_i = v of d_out[i, :], in f32, rounded once; 0 if no index
// is v.
//
// 1. A stable counting sort makes a list of the positions i, ordered by v = index_i. The indices
//    are divided into parts, each with its own counts. The place of position i in the list is
//
//   starts[part, v] + number of earlier positions of v in the same part, found by comparison;
//   starts[part, v] = positions before v's segment of the list + positions of v in earlier parts.
//
// 2. One program per table row adds the gradients in its segment of the list.
//
// An index that occurs often has a long segment, whose program would end long after all others. So
// separate programs add the full chunks of a segment, `chunk` positions each. The row's program
// adds their results in order, then the remaining positions.
//
// The result is deterministic: integer counts do not depend on the order of atomics, and the sum of
// a row does not depend on where its segment is in the list.
//
// d_position_table[p, :] = sum over i with i mod positions = p of d_out[i, :]. A program adds the
// rows p, p + positions, p + 2 positions, ... of d_out in order.
//
// Bytes, s = sizeof(type): n H s read and V H sizeof(d_table_type) written. The starts are read and
// written in the caches, 4 V bytes per part. d_position_table reads n H s once more.
#include <algorithm>
#include <functional>

#include "kernels/core/index_view.h"
#include "kernels/core/record.h"
#include "kernels/embedding/embedding.h"

namespace ligerdsl::kernels {
namespace {

// More parts need more memory for `starts`; fewer, longer parts need more comparisons.
constexpr int64_t kMostParts = 64;

// Returns the row width of `starts`, a multiple of the tile width.
int64_t padded_vocabulary(const EmbeddingBackwardMeta& m) {
  return round_up(m.vocabulary, m.scan);
}

View starts_view(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  return k.view("starts", i32, {dyn, padded_vocabulary(m)});
}

// List of positions, sorted by the table row that each position's index selects.
struct Sorted {
  View starts, positions;
  Scalar parts;

  // `positions` is an argument only of kernels that access it.
  Sorted(KernelBuilder& k, const EmbeddingBackwardMeta& m, bool with_positions = true) {
    starts = starts_view(k, m);
    parts = starts.dim(0) - 1;
    if (with_positions) positions = k.view("positions", i32, {dyn});
  }
  Scalar begin(const Scalar& v) const { return starts.load({0, v}).to(i64); }
  Scalar end(const Scalar& v) const { return starts.load({parts, v}).to(i64); }
  // Returns entry `at` of the list, or -1 past its end.
  Scalar operator()(const Scalar& at) const { return positions.load({at}, {.pad = -1.0}).to(i64); }
};

// The indices, divided into parts.
struct Cut {
  View indices;
  Scalar part;       // indices per part, a multiple of `scan`
  Scalar first_row;  // first row of a shard; empty without shards
  int64_t vocabulary;

  Cut(KernelBuilder& k, const EmbeddingBackwardMeta& m, const Scalar& parts)
      : indices(index_view(k, "indices", m.index_type)), vocabulary(m.vocabulary) {
    part = cdiv(cdiv(indices.dim(0), parts), m.scan) * m.scan;
    if (m.shard) first_row = k.scalar("first_row", i64);
  }
  // Returns table rows. An index without a row here becomes negative or too large.
  Tile load(const Scalar& tile, int64_t size) const {
    const Tile index = indices.partition({size}).load({tile}, {.pad = -1.0});
    if (first_row.empty()) return index;
    return where(index.to(i64) >= first_row, index.to(i64) - first_row, -1);
  }
  Tile names_row(const Tile& index) const { return index >= 0 && index.to(i64) < vocabulary; }
  // Returns a pointer to starts[part of `position`, index].
  PtrTile start(const View& starts, const Scalar& position, const Tile& index) const {
    return starts.ptr() + (index.to(i64) + position / part * starts.stride(0));
  }
};

// Block of columns of a program, and its table rows, chunk or position (`owner`).
struct Columns {
  Scalar owner, column;
  Columns(KernelBuilder& k, const View& rows, const EmbeddingBackwardMeta& m) {
    Scalar blocks = cdiv(rows.dim(1), m.block);
    owner = k.program_id(0).to(i64) / blocks;
    column = k.program_id(0).to(i64) % blocks;
  }
};

// Returns `total` plus the rows find(first), ..., find(end - 1) of `rows`, added in order. Each
// iteration finds `together` row numbers and then loads those rows, so that their loads are in
// flight at once. A row number of -1 adds zeros.
template <class Find>
Tile add_rows(KernelBuilder& k, const Tile& total, const Scalar& first, const Scalar& end,
              int64_t together, const LoopOptions& options, const Find& find, const Partition& rows,
              const Scalar& column) {
  auto [sum] = k.for_range(first, end, together, options, carry(total), [&](Scalar at, Tile sum) {
    std::vector<Scalar> found;
    for (int64_t i = 0; i < together; ++i) found.push_back(find(where(at + i < end, at + i, -1)));
    std::vector<Tile> read;
    for (const Scalar& row : found) read.push_back(rows.load({row, column}));
    for (const Tile& row : read) sum = sum + row.to(f32);
    return carry(sum);
  });
  return sum;
}

void reset_counts(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  View starts = starts_view(k, m);
  View listed = k.view("listed", i32, {1});
  Scalar blocks = cdiv(starts.dim(1), m.scan).to(i32);
  Scalar part = k.program_id(0) / blocks, block = k.program_id(0) % blocks;
  starts.partition({squeeze, m.scan}).store({part, block}, 0);
  k.if_(k.program_id(0) == 0, [&] { listed.store({0}, 0); });
}

// Computes starts[part, v] = number of indices v in the part.
void count_indices(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  const Sorted sorted(k, m, false);
  const Cut cut(k, m, sorted.parts);
  Scalar tile = k.program_id(0).to(i64);
  Tile index = cut.load(tile, m.scan);
  atomic_add(cut.start(sorted.starts, tile * m.scan, index), 1, cut.names_row(index));
}

// Converts counts to places in the list. Each block of rows takes the next free range of the list.
void place_rows(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  const Sorted sorted(k, m, false);
  View listed = k.view("listed", i32, {1});
  auto rows = sorted.starts.partition({squeeze, m.rows_to_place});
  Scalar block = k.program_id(0).to(i64);
  auto [total] = k.for_range(0, sorted.parts, 1, pipelined(2),
                             carry(k.zeros({m.rows_to_place}, i32)), [&](Scalar part, Tile total) {
                               return carry(total + rows.load({part, block}));
                             });
  Tile begin = cumsum(total) - total + atomic_add(listed.ptr(), sum(total));
  auto [end] = k.for_range(0, sorted.parts, 1, carry(begin), [&](Scalar part, Tile start) {
    Tile count = rows.load({part, block});
    rows.store({part, block}, start);
    return carry(start + count);
  });
  rows.store({sorted.parts, block}, end);
}

void place_positions(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  const Sorted sorted(k, m);
  const Cut cut(k, m, sorted.parts);
  Scalar tile = k.program_id(0).to(i64);
  Scalar first = tile * m.ranked;
  Tile index = cut.load(tile, m.ranked);
  Tile position = first + k.arange(m.ranked).to(i64);
  auto equal = [&](const Scalar& block) {
    return cut.load(block, m.compared).expand_dims(0) == index.expand_dims(1);
  };
  Scalar own = first / m.compared;
  auto [before] = k.for_range(
      first / cut.part * cut.part / m.compared, own, 1, carry(k.zeros({m.ranked, m.compared}, i32)),
      [&](Scalar block, Tile before) { return carry(before + equal(block).to(i32)); });
  Tile earlier =
      (own * m.compared + k.arange(m.compared).to(i64)).expand_dims(0) < position.expand_dims(1);
  before = before + (equal(own) && earlier).to(i32);
  Tile named = cut.names_row(index);
  Tile place = load(cut.start(sorted.starts, first, index), named) + sum(before, 1);
  store(sorted.positions.ptr() + place, position.to(i32), named);
}

// Returns the number of a segment's first chunk. Chunk c of row v has the number
// ceil(begin_v / chunk) + c. Chunk number s contains entry s * chunk of the list, so no two full
// chunks have the same number.
Scalar first_chunk(const Scalar& begin, const EmbeddingBackwardMeta& m) {
  return cdiv(begin, m.chunk);
}

void add_chunks(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  View sums = k.view("sums", f32, {dyn, m.cols});
  View d_out = k.view("d_out", m.type, {dyn, m.cols});
  const Sorted sorted(k, m);
  View indices = index_view(k, "indices", m.index_type);
  View listed = k.view("listed", i32, {1});
  Scalar first_row;
  if (m.shard) first_row = k.scalar("first_row", i64);

  const Columns at(k, sums, m);
  const Scalar number = at.owner;
  auto gradients = d_out.partition({squeeze, m.block});
  k.if_(number * m.chunk < listed.load({0}).to(i64), [&] {
    Scalar v = indices.load({sorted(number * m.chunk)}).to(i64);
    if (m.shard) v = v - first_row;
    Scalar begin = sorted.begin(v);
    Scalar first = begin + (number - first_chunk(begin, m)) * m.chunk;
    Scalar end = first + m.chunk;
    k.if_(end <= sorted.end(v), [&] {
      Tile sum = add_rows(k, k.zeros({m.block}, f32), first, end, 8, pipelined(2), sorted,
                          gradients, at.column);
      sums.partition({squeeze, m.block}).store({number, at.column}, sum);
    });
  });
}

void add_rows_of_table(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  View d_table = k.view("d_table", m.d_table_type, {m.vocabulary, m.cols});
  View d_out = k.view("d_out", m.type, {dyn, m.cols});
  View sums = k.view("sums", f32, {dyn, m.cols});
  const Sorted sorted(k, m);

  const Columns at(k, d_table, m);
  auto target = d_table.partition({squeeze, m.block});
  auto gradients = d_out.partition({squeeze, m.block}), chunks = sums.partition({squeeze, m.block});
  auto add_row = [&](const Scalar& v, const Scalar& begin, const Scalar& end) {
    Scalar full = (end - begin) / m.chunk, first = first_chunk(begin, m);
    Tile total = k.zeros({m.block}, f32);
    total = add_rows(k, total, first, first + full, 2, {}, std::identity(), chunks, at.column);
    total = add_rows(k, total, begin + full * m.chunk, end, 4, pipelined(2), sorted, gradients,
                     at.column);
    if (m.accumulate) total = total + target.load({v, at.column});
    target.store({v, at.column}, total.to(m.d_table_type));
  };
  auto finish_row = [&](const Scalar& v) {
    Scalar begin = sorted.begin(v), end = sorted.end(v);
    if (m.accumulate)
      k.if_(begin < end, [&] { add_row(v, begin, end); });
    else
      add_row(v, begin, end);
  };
  if (m.rows == 1) return finish_row(at.owner);
  k.for_range(at.owner * m.rows, min((at.owner + 1) * m.rows, d_table.dim(0)), 1, finish_row);
}

void add_positions(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  View d_position_table = k.view("d_position_table", m.d_position_type, {m.positions, m.cols});
  View d_out = k.view("d_out", m.type, {dyn, m.cols});
  const Columns at(k, d_position_table, m);
  const Scalar position = at.owner;
  Scalar sequences = cdiv(max(d_out.dim(0).to(i64) - position, 0), m.positions);
  const auto row_of = [&](const Scalar& sequence) {
    return where(sequence >= 0, sequence * m.positions + position, -1);
  };
  auto target = d_position_table.partition({squeeze, m.block});
  Tile total = add_rows(k, k.zeros({m.block}, f32), k.constant(0, i64), sequences, 4, pipelined(2),
                        row_of, d_out.partition({squeeze, m.block}), at.column);
  if (m.accumulate_positions) total = total + target.load({position, at.column});
  target.store({position, at.column}, total.to(m.d_position_type));
}

}  // namespace

Step embedding_positions_step(const EmbeddingOptions& options,
                              const EmbeddingBackwardConfig& config) {
  EmbeddingBackwardMeta meta{options};
  meta.block = config.block;
  return record_step(
      "embedding_add_positions", options.type, &add_positions, meta,
      library_launch(options.positions * ceil_div(options.cols, meta.block), config.num_warps));
}

Operation embedding_backward_steps(const EmbeddingOptions& options,
                                   const EmbeddingBackwardConfig& config) {
  EmbeddingBackwardMeta meta{options};
  meta.block = config.block;
  meta.rows = config.rows;
  meta.chunk = config.chunk;
  meta.scan = config.scan;
  const Size parts = max(1, min(kMostParts, ceil_div(Size::rows(), config.part)));
  const int64_t blocks = ceil_div(options.cols, meta.block), vocabulary = padded_vocabulary(meta);

  const Size rows = Size::rows(), chunks = ceil_div(rows, meta.chunk);
  Operation op;
  const auto add = [&](const char* name, auto build, Launch launch) {
    op.steps.push_back(record_step(name, options.type, build, meta, std::move(launch)));
  };
  const auto with_floor = [&](Size programs, int threads_of_sm) {
    Launch launch = library_launch(std::move(programs), config.num_warps);
    const int ctas = threads_of_sm / program::kWarpThreads / config.num_warps;
    launch.min_ctas_per_sm = std::min(ctas, program::kMaxCtasPerSm);
    return launch;
  };
  // Places in the list are 32-bit. With 2^31 indices or more, this grid exceeds the limit of every
  // device, so the launch fails.
  const Size too_many = where_at_least(rows, int64_t{INT32_MAX} + 1, rows);
  add("embedding_reset_counts", &reset_counts,
      library_launch(max(vocabulary / meta.scan * parts, too_many), 8));
  add("embedding_count_indices", &count_indices, library_launch(ceil_div(rows, meta.scan), 8));
  add("embedding_place_rows", &place_rows, library_launch(vocabulary / meta.rows_to_place, 4));
  add("embedding_place_positions", &place_positions,
      library_launch(ceil_div(rows, meta.ranked), 8));
  add("embedding_add_chunks", &add_chunks,
      with_floor(where_at_least(rows, meta.chunk, chunks * blocks), config.chunk_threads));
  add(embedding_backward_kernel.name, &add_rows_of_table,
      with_floor(ceil_div(options.vocabulary, meta.rows) * blocks, config.row_threads));
  if (options.positions > 0) op.steps.push_back(embedding_positions_step(options, config));

  op.workspace = {{"starts", i32, {parts + 1, vocabulary}},
                  {"listed", i32, {1}},
                  {"positions", i32, {rows}},
                  {"sums", f32, {chunks, options.cols}}};
  return op;
}

}  // namespace ligerdsl::kernels
