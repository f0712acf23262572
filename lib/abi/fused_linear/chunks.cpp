#include "lib/abi/fused_linear/chunks.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/core/launch.h"
#include "lib/abi/plan.h"

namespace ligerdsl::lib {

namespace {

using kernels::ceil_div;
using kernels::round_up;

constexpr int64_t kChunkAlign = 128;  // rows or columns; larger chunks and blocks are a multiple
constexpr int64_t kRowAlign = 128;    // bytes: alignment of the rows of logits and copies
constexpr int64_t kBlockRows = 8192;  // rows per vocabulary block, for batches over 16,384 rows
constexpr int64_t kRowNumbers = 4;    // values per row of exponentials: base, again, factor, smooth
constexpr int64_t kCounted = 4;       // number of values in `counted`
constexpr int64_t kTileBuffers = 2;   // buffers with one value per tile of rows: places, tile_at
constexpr int64_t kChunkBuffers = 3;  // logits, x, d_x: each may be padded
constexpr int64_t kTargetBuffers = 2;
// Maximum rows per chunk of exponentials. Each row tile reads all labels of the chunk, so larger
// chunks would be slower.
constexpr int64_t kMostRows = 32768;
constexpr int64_t kWeightBlock = int64_t{64} << 20;  // bytes per block of the weight
constexpr int64_t kWeightShare = 8;                  // a block gets at most 1/8 of the free bytes
constexpr int64_t kMostBlock = 8192;                 // maximum classes per block of exponentials
constexpr int64_t kChunkSizes = 16;                  // largest number of chunk sizes to compare
// Times are in columns of k: 1 is the time in which a wave of tiles adds one column of A times one
// row of B.
//
// kLaunchDepth is the time to start and end a matmul. kAddDepth is the time to read and write one
// byte per element of c.
constexpr int64_t kLaunchDepth = 256, kAddDepth = 128;
constexpr double kRecomputeCost = 1.1;  // relative time per recomputed flop, in smaller matmuls

int64_t aligned(int64_t bytes) {
  return round_up(bytes, static_cast<int64_t>(kWorkspaceAlign));
}

int64_t signed_bytes(size_t bytes) {
  return static_cast<int64_t>(bytes);
}

int64_t whole_tiles(int64_t n) {
  return n >= kChunkAlign ? n / kChunkAlign * kChunkAlign : n;
}

}  // namespace

int64_t LinearChunks::logits_stride() const {
  return round_up(o_.classes, kRowAlign / size_of(o_.product_type));
}

int64_t LinearChunks::copy_stride(int64_t cols) const {
  return o_.aligned_copies ? round_up(cols, kRowAlign / size_of(o_.product_type)) : cols;
}

// Returns the number of column tiles. Each piece of the weight begins a new tile.
int64_t LinearChunks::tiles() const {
  if (o_.tile_columns == 0 || weight_rows_ == 0) return 0;
  const int64_t whole = o_.classes / weight_rows_, rest = o_.classes % weight_rows_;
  return whole * ceil_div(weight_rows_, o_.tile_columns) + ceil_div(rest, o_.tile_columns);
}

int64_t LinearChunks::bytes_of_row() const {
  const int64_t logits =
      stores_logits() ? logits_stride() * (o_.target_cols > 0 ? 2 : 1) * size_of_logit() : 0;
  const int64_t elements = (has_separate_d() ? logits_stride() : 0) +
                           (copies_x() ? copy_stride(o_.cols) + copy_stride(o_.target_cols) : 0);
  int64_t numbers = adds_up_d_x() ? o_.cols : 0;
  if (o_.tile_columns > 0) numbers += kRowNumbers;
  const int64_t of_place = o_.tile_columns > 0 ? 1 : 0;  // places, tile_at: below 1 byte per row
  return logits + elements * size_of(o_.product_type) + numbers * size_of(DType::f32) +
         std::max(bytes_of_numbers(), bytes_of_scaled_x()) + of_place;
}

int64_t LinearChunks::bytes_of_numbers() const {
  return o_.tile_columns > 0 ? o_.tile_numbers * tiles() * size_of(DType::f32) : 0;
}

// Returns the number of classes per block of the weight. `fixed` is the number of workspace bytes
// that do not depend on the chunk.
int64_t LinearChunks::weight_block(int64_t fixed) const {
  const int64_t room = std::max<int64_t>(o_.max_workspace_bytes - fixed, 0);
  const int64_t bytes = std::min(kWeightBlock, room / kWeightShare);
  const int64_t classes = whole_tiles(bytes / (copy_stride(o_.cols) * size_of(o_.product_type)));
  return std::clamp(classes, std::min(kChunkAlign, o_.classes), o_.classes);
}

// Returns the number of elements of the f32 accumulator of a 16-bit d_weight, or 0 if none is
// needed. It is needed if several matmuls add to d_weight, or if the matmuls have another dtype
// than d_weight.
int64_t LinearChunks::d_weight_accumulator(int64_t rows, int64_t chunk) const {
  const bool needed =
      o_.with_d_weight && o_.d_weight_type != DType::f32 && (converts() || chunk < rows);
  return needed ? o_.classes * o_.cols : 0;
}

LinearLayout LinearChunks::place(int64_t rows, int64_t chunk, int64_t logits_bytes,
                                 int64_t accumulator, int64_t x_rows) const {
  LinearLayout l;
  l.chunk = chunk;
  l.logits_stride = logits_stride();
  l.copy_stride = copy_stride(o_.cols);
  l.add_up_d_weight = accumulator > 0;
  l.add_up_d_x = adds_up_d_x();
  l.weight_rows = weight_rows_;
  const auto take = [&](int64_t elements, DType type) {
    const size_t at = l.bytes;
    l.bytes += static_cast<size_t>(aligned(elements * size_of(type)));
    return at;
  };
  const DType type = o_.product_type;
  const int64_t per_row = may_go_by_vocabulary() ? rows : 0, results = o_.from_lse ? 0 : rows;
  l.counts = take(4, DType::f32);
  l.row_loss = take(results, DType::f32);
  l.row_z_loss = take(results, DType::f32);
  l.row_accuracy = take(results, DType::f32);
  l.lse = take(o_.keeps_lse ? per_row : 0, DType::f32);
  const bool by_label = o_.tile_columns > 0 || (o_.token_scaling && o_.from_lse);
  l.label_logit = take(by_label ? rows : o_.token_scaling ? per_row : 0, DType::f32);
  l.entropy = take(o_.keeps_entropy ? per_row : 0, DType::f32);
  l.products = take(rows > 0 ? signed_bytes(o_.product_workspace) : 0, DType::i8);
  const int64_t smoothing = o_.smoothing_parts > 0 && rows > 0 ? 1 : 0;
  l.class_factor = take(smoothing * o_.classes, DType::f32);
  for (size_t* const sums : {&l.weight_sums, &l.x_sums})
    *sums = take(smoothing * o_.cols, DType::f32);
  l.part_sums = take(smoothing * o_.smoothing_parts * o_.cols, DType::f32);
  // The parts below depend on the chunk.
  l.logits = take(logits_bytes, DType::i8);
  l.tiles = tiles();
  const int64_t exponentials = o_.tile_columns > 0 ? chunk : 0;
  for (size_t* const of_row : {&l.base, &l.again, &l.factor})
    *of_row = take(exponentials, DType::f32);
  l.smooth = take(o_.smoothing_parts > 0 ? exponentials : 0, DType::f32);
  for (size_t* const of_tile : {&l.places, &l.tile_at})
    *of_tile = take(ceil_div(exponentials, o_.tile_rows), DType::i32);
  l.counted = take(exponentials > 0 ? kCounted : 0, DType::i32);
  l.x = take((copies_x() ? chunk : x_rows) * l.copy_stride, type);
  l.d_x = take(adds_up_d_x() ? chunk * o_.cols : 0, DType::f32);
  l.weight = take(copies_weight() && rows > 0 ? weight_rows_ * l.copy_stride : 0, type);
  l.target_logits = take(o_.target_cols > 0 ? logits_bytes : 0, DType::i8);
  l.d_logits = has_separate_d() ? take(chunk * logits_stride(), type) : l.logits;
  l.target_x = take(copies_x() ? chunk * copy_stride(o_.target_cols) : 0, type);
  l.target_weight =
      take(copies_weight() && rows > 0 ? o_.classes * copy_stride(o_.target_cols) : 0, type);
  l.d_weight = take(accumulator, DType::f32);
  l.d_bias = take(o_.with_d_bias && o_.d_bias_type != DType::f32 ? o_.classes : 0, DType::f32);
  l.scaled_x = l.bytes;
  for (int64_t i = 0; i < o_.tile_numbers; ++i)
    l.of_tiles[static_cast<size_t>(i)] = take(exponentials * l.tiles, DType::f32);
  l.bytes =
      std::max(l.bytes, l.scaled_x + static_cast<size_t>(aligned(chunk * bytes_of_scaled_x())));
  // A single block of exponentials, of at least one tile; in_d_weight() may change block_shift.
  if (o_.in_blocks)
    l.block_shift =
        std::bit_width(static_cast<uint64_t>(std::max(o_.classes, o_.tile_columns) - 1));
  return l;
}

// Returns the rows per chunk: the largest chunk within the limit, reduced so that all chunks have
// about the same number of rows.
int64_t LinearChunks::chunk_by_workspace(int64_t rows, bool by_vocabulary) const {
  const bool limited = o_.max_workspace_bytes > 0;
  // The default budget limits only the logits, not the tile statistics.
  const bool whole = limited || !stores_logits() || o_.tile_columns == 0;
  const int64_t of_x =
      !by_vocabulary && copies_x_of_chunk() ? o_.cols * size_of(o_.product_type) : 0;
  const int64_t of_row =
      (whole ? bytes_of_row() : logits_stride() * size_of(o_.product_type)) + of_x;
  const int64_t always = by_vocabulary ? 0 : d_weight_accumulator(rows, rows);
  const int64_t sums =
      by_vocabulary ? 0 : (d_weight_accumulator(rows, 1) - always) * size_of(DType::f32);
  const int64_t most_rows = o_.tile_columns > 0 ? kMostRows : rows;
  // The default budget for f32 logits grows by a quarter for their separate gradient.
  int64_t room = kDefaultLogits + (has_separate_d() ? kDefaultLogits / 4 : 0);
  if (limited) {
    room = o_.max_workspace_bytes - signed_bytes(place(rows, 0, 0, always).bytes) -
           (kChunkBuffers + (has_separate_d() ? 1 : 0) + (o_.target_cols > 0 ? kTargetBuffers : 0) +
            (o_.tile_columns > 0 ? kRowNumbers + kTileBuffers + o_.tile_numbers + 1 : 0)) *
               signed_bytes(kWorkspaceAlign);
    if (rows <= most_rows && rows * of_row <= room) return rows;
    room -= sums;
  } else if (rows <= most_rows && rows * of_row <= room + sums) {
    return rows;  // smaller chunks would save less memory than their accumulator needs
  }
  const int64_t most = std::clamp<int64_t>(room / of_row, 1, std::min(rows, most_rows));
  if (most == rows) return rows;
  const int64_t even = ceil_div(rows, ceil_div(rows, whole_tiles(most)));
  return most >= kChunkAlign ? round_up(even, kChunkAlign) : even;
}

int64_t LinearChunks::chunk_of(int64_t rows) const {
  if (rows == 0) return 0;
  if (o_.chunk_rows > 0) return std::min(rows, o_.chunk_rows);
  if (o_.rule == ChunkRule::by_workspace) return chunk_by_workspace(rows, false);
  const int64_t wanted = ceil_div(rows, ceil_div(o_.classes, o_.cols));
  return std::min(rows, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted))));
}

LinearLayout LinearChunks::by_rows(int64_t rows) const {
  const int64_t chunk = chunk_of(rows);
  const int64_t logits = stores_logits() ? chunk * logits_stride() * size_of_logit() : 0;
  return place(rows, chunk, logits, d_weight_accumulator(rows, chunk),
               copies_x_of_chunk() ? chunk : 0);
}

// Returns the vocabulary-blocked layout. A block has the rows of the whole batch, up to 2 *
// kBlockRows, if there is room for enough columns. A single matmul per block needs no accumulator.
LinearLayout LinearChunks::by_vocabulary(int64_t rows) const {
  const int64_t chunk = chunk_by_workspace(rows, true);
  const int64_t size = size_of(o_.product_type);
  const int64_t room = aligned(chunk * logits_stride() * size);
  LinearLayout block;
  int64_t logits = 0, sums = 0, x = 0;
  for (int64_t most = rows <= 2 * kBlockRows ? rows : kBlockRows; most > 0; most /= 2) {
    block.block_rows = copies_x() ? std::min(most, chunk) : most;  // the copy of x holds one chunk
    block.add_up_d_weight =
        o_.d_weight_type != DType::f32 && (converts() || block.block_rows < rows);
    const int64_t of_column = block.block_rows * size + (block.add_up_d_weight ? o_.cols * 4 : 0);
    x = copies_x_of_block() ? aligned(block.block_rows * o_.cols * size) : 0;
    block.columns = whole_tiles(std::clamp<int64_t>((room - x) / of_column, 1, o_.classes));
    block.block_stride = round_up(block.columns, kRowAlign / size);
    logits = aligned(block.block_rows * block.block_stride * size);
    sums = block.add_up_d_weight ? aligned(block.columns * o_.cols * 4) : 0;
    if (logits + sums + x <= room && (block.columns >= kChunkAlign || block.columns == o_.classes))
      break;
  }
  LinearLayout l = place(rows, chunk, std::max(room, logits + sums + x), 0);
  l.by_vocabulary = true;
  l.columns = block.columns;
  l.block_rows = block.block_rows;
  l.block_stride = block.block_stride;
  l.add_up_d_weight = block.add_up_d_weight;
  l.d_weight = l.logits + static_cast<size_t>(logits);
  if (x > 0) l.x = l.d_weight + static_cast<size_t>(sums);
  return l;
}

// Returns the time of a matmul, in the unit of kLaunchDepth.
int64_t LinearChunks::matmul_time(int64_t rows, int64_t columns, int64_t depth) const {
  const int64_t tiles = ceil_div(rows, o_.tile_rows) * ceil_div(columns, o_.tile_columns);
  return ceil_div(tiles, o_.tiles_at_once) * depth + kLaunchDepth;
}

// Returns the layout with exponentials in d_weight's memory, for the first `rows` of `of_batch`
// rows. Chooses the fastest block width and number of rows per chunk. If d_weight has no room for
// the recomputed d(loss)/dz, it is in the workspace, after the scaled x.
LinearLayout LinearChunks::in_d_weight(int64_t rows, int64_t of_batch) const {
  const int64_t size = size_of(o_.product_type),
                fixed = signed_bytes(place(of_batch, 0, 0, 0).bytes);
  // Each buffer is rounded up to kWorkspaceAlign bytes.
  const int64_t buffers = kRowNumbers + kTileBuffers + o_.tile_numbers + kChunkBuffers;
  const int64_t room = o_.max_workspace_bytes - fixed - buffers * signed_bytes(kWorkspaceAlign);
  const int64_t most = std::min(rows, max_rows_in_d_weight()), numbers = bytes_of_numbers(),
                scaled = bytes_of_scaled_x();
  const int64_t of_both = bytes_of_row() - std::max(numbers, scaled) - logits_stride() * size;
  const int64_t add = kAddDepth * size_of(o_.d_weight_type);
  InDWeight best;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t columns = o_.tile_columns; columns < o_.classes && columns <= kMostBlock;
       columns *= 2) {
    const int64_t of_row = of_both + columns * size, blocks = ceil_div(o_.classes, columns);
    for (int64_t chunk = most; chunk > 0;
         chunk = whole_tiles(chunk - ceil_div(most, kChunkSizes))) {
      if (chunk * (of_row + std::max(numbers, scaled)) > room) continue;
      const int64_t more = rows - chunk,
                    fit = (room - chunk * (of_row + scaled)) / (columns * size);
      if (more > 0 && fit < std::min(more, o_.tile_rows)) continue;
      const int64_t parts = more > 0 ? ceil_div(more, fit) : 0;
      const int64_t again =
          parts > 0 ? std::min(fit, round_up(ceil_div(more, parts), o_.tile_rows)) : 0;
      const int64_t between = max_rows_in_d_weight() - chunk;
      const int64_t narrow = parts <= 1    ? 0
                             : between > 0 ? std::min(blocks, ceil_div(more, between))
                                           : blocks;
      const auto first_pass = [&](int64_t part) {
        return static_cast<double>(matmul_time(part, o_.classes, o_.cols) +
                                   matmul_time(part, o_.cols, o_.classes));
      };
      const auto second_pass = [&](int64_t part) {
        return static_cast<double>(matmul_time(part, columns, o_.cols) +
                                   matmul_time(columns, o_.cols, part + add));
      };
      const auto all = [](int64_t total, int64_t each, const auto& time) {
        const double whole = each > 0 ? static_cast<double>(total / each) * time(each) : 0;
        return each > 0 && total % each > 0 ? whole + time(total % each) : whole;
      };
      const double time =
          all(rows, chunk, first_pass) +
          static_cast<double>(blocks) * static_cast<double>(matmul_time(columns, o_.cols, chunk)) +
          static_cast<double>(narrow) * all(more, again, second_pass) +
          static_cast<double>(blocks - narrow) * all(more, more, second_pass);
      if (time < least) best = {columns, chunk, again}, least = time;
    }
  }
  if (best.chunk == 0) return {};
  LinearLayout l = place(of_batch, best.chunk, best.chunk * best.columns * size, 0);
  l.by_vocabulary = l.in_d_weight = true;
  l.rows = rows;
  l.columns = l.block_stride = best.columns;
  l.block_shift = std::countr_zero(static_cast<uint64_t>(best.columns));
  l.block_rows = best.again;
  l.rows_between = max_rows_in_d_weight() - best.chunk;
  l.again_logits = l.scaled_x + static_cast<size_t>(aligned(best.chunk * scaled));
  l.bytes = std::max(
      l.bytes, l.again_logits + static_cast<size_t>(aligned(best.again * best.columns * size)));
  return l;
}

LinearChunks::Again LinearChunks::again_at(const LinearLayout& l, int64_t block) {
  const int64_t between = std::min(whole_tiles(block * l.rows_between), l.rows - l.chunk);
  return between > l.block_rows ? Again{between, true} : Again{l.block_rows, false};
}

int64_t LinearChunks::chunk_at(const LinearLayout& l, int64_t rows, int64_t first) {
  if (l.in_d_weight && first == 0) return (rows - 1) % l.chunk + 1;
  return std::min(l.chunk, rows - first);
}

// Returns `whole` with rows_in_front set: the number of leading rows whose exponentials fit in
// d_weight and the workspace.
LinearLayout LinearChunks::with_rows_in_front(const LinearLayout& whole, int64_t rows) const {
  LinearLayout l = whole;
  l.rows_in_front = in_d_weight(std::min(rows, max_rows_in_d_weight()), rows).chunk;
  if (l.rows_in_front > 0) l.bytes = std::max(l.bytes, in_front(l, rows).bytes);
  return l;
}

// Returns the mean extra time per row, beyond the three matmuls, in units of one matmul (2 V H
// flop) per row. A recomputed row takes kRecomputeCost units. Adding one chunk to d_weight takes
// few_rows units.
double LinearChunks::extra_time(const LinearLayout& l, int64_t rows) const {
  const auto of = [](int64_t a, int64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  };
  if (l.in_d_weight) return kRecomputeCost * of(rows - l.chunk, rows);
  return of(ceil_div(rows - l.rows_in_front, l.chunk) * o_.few_rows, rows);
}

bool LinearChunks::may_go_by_vocabulary() const {
  return o_.with_d_weight && o_.keeps_x && o_.chunk_rows == 0 && o_.rule == ChunkRule::by_workspace;
}

LinearLayout LinearChunks::best(int64_t rows, bool d_weight_is_free) const {
  const LinearLayout whole = by_rows(rows);
  if (!may_go_by_vocabulary() || whole.chunk == rows) return whole;
  if (o_.in_blocks && d_weight_is_free) {
    const LinearLayout inside = in_d_weight(rows, rows);
    LinearLayout best = whole;
    double least = whole.chunk < o_.few_rows ? std::numeric_limits<double>::infinity()
                                             : extra_time(whole, rows);
    const auto compare = [&](const LinearLayout& other) {
      if (const double time = extra_time(other, rows); time <= least) best = other, least = time;
    };
    // Only for f32, because a 16-bit d_weight would be rounded once per chunk.
    if (o_.d_weight_type == DType::f32)
      if (const LinearLayout both = with_rows_in_front(whole, rows); both.rows_in_front > 0)
        compare(both);
    if (inside.bytes > 0) compare(inside);
    if (best.in_d_weight || best.rows_in_front > 0) return best;
  }
  if (whole.chunk >= o_.few_rows && !only_d_weight()) return whole;
  const LinearLayout blocks = by_vocabulary(rows);
  // If a block has no more rows than a chunk, because copies of x take the room, blocks gain
  // nothing.
  if (o_.aligned_copies && !only_d_weight() && blocks.block_rows <= whole.chunk) return whole;
  const auto limit = static_cast<size_t>(o_.max_workspace_bytes);
  const bool too_large = limit > 0 && blocks.bytes > limit && blocks.bytes > whole.bytes;
  return too_large ? whole : blocks;
}

LinearLayout LinearChunks::layout(int64_t rows, bool d_weight_is_free) const {
  const LinearLayout whole = best(rows, d_weight_is_free);
  if (!copies_weight() || o_.whole_weight || o_.max_workspace_bytes == 0 || rows == 0) return whole;
  const auto fits = [&](const LinearLayout& l) {
    return l.bytes <= static_cast<size_t>(o_.max_workspace_bytes);
  };
  const bool chosen = o_.chunk_rows > 0 || o_.rule == ChunkRule::published;
  if (fits(whole) && (chosen || whole.chunk == rows || whole.chunk >= o_.few_rows)) return whole;
  LinearChunks some = *this;
  some.weight_rows_ = 0;
  some.weight_rows_ = weight_block(signed_bytes(some.place(rows, 0, 0, 0).bytes));
  const LinearLayout blocks = some.best(rows, false);
  return fits(blocks) || blocks.bytes < whole.bytes ? blocks : whole;
}

}  // namespace ligerdsl::lib
