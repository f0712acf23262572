#include "kernels/norm/norm_backward.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "kernels/reduce/column_sums.h"

namespace ligerdsl::kernels {
namespace {

// Tables of the heuristic. In each table, the first matching rule applies.

// Shapes to which a rule applies. Default values match any shape.
struct ShapeFilter {
  int64_t element_bytes = 0;
  int most_sums = 2, inputs = 0, least_sums = 0;

  bool fits(const NormBackwardShape& shape) const {
    return (element_bytes == 0 || element_bytes == size_of(shape.type)) &&
           least_sums <= shape.sums && shape.sums <= most_sums &&
           (inputs == 0 || inputs == shape.inputs);
  }
};
// 2-byte elements. kPlain: at most one partial sum, no d_sum. kFull: two partial sums and d_sum.
constexpr ShapeFilter kPlain{.element_bytes = 2, .most_sums = 1, .inputs = 2};
constexpr ShapeFilter kFull{.element_bytes = 2, .inputs = 3, .least_sums = 2};

template <class Rules, class Fits>
const auto& first_of(const Rules& rules, const Fits& fits) {
  return *std::find_if(std::begin(rules), std::end(rules), fits);
}

// Row vectors per thread for which kRegisters registers suffice. Partial sums take 8 registers per
// vector of 2-byte elements, and 4 per vector of 4-byte elements. The next rows are in shared
// memory.
struct RoomRule {
  ShapeFilter of = {};
  int64_t vectors;
};
constexpr RoomRule kRoom[] = {
    {.of = kPlain, .vectors = 5},
    {.of = kFull, .vectors = 2},  // four spill
    {.vectors = 4},
};

// Tile widths have an odd factor of 1, 3, 5 or 7, which would be the number of vectors per thread.
// These rules may choose a larger factor instead.
struct OddRule {
  int64_t odd;
  bool fills_cta =
      false;  // only if the width's power of two is one vector per thread of the largest CTA
  int64_t least_room = 0;  // minimum of most_vectors()
  int64_t taken;
  const char* why;
};
constexpr OddRule kOdd[] = {
    {.odd = 7, .taken = 8, .why = "registers do not hold 7 vectors per thread and partial sums"},
    {.odd = 5,
     .fills_cta = true,
     .least_room = 5,
     .taken = 5,
     .why = "registers hold 5 vectors and one sum"},
    {.odd = 5,
     .taken = 6,
     .why = "registers do not hold 5 vectors and two partial sums, or 5 vectors of f32"},
};

// Distribution of a tile of whole rows over threads.
struct TileRule {
  ShapeFilter of = {};
  int64_t cols = 0;  // 0: any
  int64_t vectors;   // vectors per thread
  int most_warps;
  const char* measured;
};
constexpr TileRule kTiles[] = {
    {.of = kPlain,
     .cols = 8192,
     .vectors = 1,
     .most_warps = 32,
     .measured = "8192 columns of 2 bytes are fastest with 1024 threads of one vector each"},
    {.vectors = 2, .most_warps = 16, .measured = "fastest for other widths"},
};
// Bytes of each array per thread if a tile has several short rows.
struct ShortRowRule {
  ShapeFilter of = {};
  int64_t bytes;
};
constexpr ShortRowRule kShortRows[] = {{.of = kFull, .bytes = 16}, {.bytes = 32}};

// Rows shared by a cluster: the smallest cluster that needs at most four vectors per thread, with
// one CTA per SM. Two stages: one row block in use and one in flight. Three are slower on Hopper.
constexpr int64_t kSharedVectors = 4;
constexpr int kSharedStages = 2;

// Wider rows (by=columns): vectors per thread and warps of the d_x kernel, partial sums per SM.
constexpr int64_t kColumnsVectors = 2;
constexpr int kColumnsMostWarps = 16, kColumnsProgramsPerSm = 2;

constexpr int kRegisters = 128;  // registers per thread, with partial sums
// Most partial sums per thread with the weight in registers. With more, the weight is loaded again
// for every row.
constexpr int kMostHeld = 16;
// For ragged rows: most partial sums of a thread with kRegisters registers. A thread with more gets
// kMostRegisters registers, which also hold the weight.
constexpr int kMostHeldOfRagged = 32, kMostRegisters = 255;
constexpr int64_t kShortRow = 1024;  // columns; a longer ragged row has a tile of its own
constexpr int64_t kMostPrograms = 4;
constexpr int64_t kMostColumnsOnCpu = 16384;  // 64 KB of column sums stay in a core's caches

// Returns the threads of the largest CTA with kRegisters registers per thread.
int64_t threads_of(const Machine& machine) {
  return machine.threads_with(kRegisters);
}

// Returns true if rows are ragged and have one-row tiles that begin at 16-byte boundaries.
bool begins_early(const Machine& machine, const NormBackwardShape& shape) {
  return shape.cols > kShortRow && has_ragged_rows(machine, shape.type, shape.cols);
}

// Returns the most vectors of a row per thread. Ragged rows have fewer, because alignment offsets
// take registers. Clusters therefore begin to share ragged rows at smaller lengths.
int64_t most_vectors(const Machine& machine, const NormBackwardShape& shape) {
  const int64_t vectors =
      first_of(kRoom, [&](const RoomRule& rule) { return rule.of.fits(shape); }).vectors;
  if (!begins_early(machine, shape) || machine.max_cluster == 1 || size_of(shape.type) != 2)
    return vectors;
  return std::min<int64_t>(vectors, shape.sums == 2 ? 2 : 3);
}

// Returns the columns that a row's tile must hold, with any alignment offset.
int64_t widest_tile(const Machine& machine, const NormBackwardShape& shape) {
  return begins_early(machine, shape) ? columns_with_offset(shape.type, shape.cols) : shape.cols;
}

int64_t backward_width(const Machine& machine, const NormBackwardShape& shape) {
  const int64_t narrow = tile_width(widest_tile(machine, shape));
  const int64_t power = narrow & -narrow, odd = narrow / power;
  const bool fills_cta = power == threads_of(machine) * vector_width(shape.type);
  for (const OddRule& rule : kOdd) {
    if (rule.odd == odd && (fills_cta || !rule.fills_cta) &&
        most_vectors(machine, shape) >= rule.least_room)
      return rule.taken * power;
  }
  return narrow;
}

int held(const NormBackwardConfig& config, const NormBackwardShape& shape) {
  return config.vectors * static_cast<int>(vector_width(shape.type)) * shape.sums;
}

// Returns the schedule in which a cluster shares each row, or none if one CTA can hold a row or no
// cluster can. Without partial sums there is no loop over rows, and a cluster would not run long
// enough to pay for its start.
std::optional<NormBackwardConfig> shared_rows(const Machine& machine,
                                              const NormBackwardShape& shape) {
  if (machine.max_cluster == 1) return {};
  const int64_t step =
      threads_of(machine) * vector_width(shape.type);  // columns per CTA with one vector per thread
  if (shape.sums == 0 || backward_width(machine, shape) <= step * most_vectors(machine, shape))
    return {};
  const int64_t vectors = std::min(kSharedVectors, most_vectors(machine, shape)),
                cols = widest_tile(machine, shape);
  int ctas = 2;
  while (ctas <= machine.max_cluster && cols > ctas * step * vectors) ctas *= 2;
  if (ctas > machine.max_cluster) return {};
  NormBackwardConfig config{
      .num_warps = static_cast<int>(threads_of(machine) / program::kWarpThreads),
      .vectors = static_cast<int>(ceil_div(cols, ctas * step)),
      .num_ctas = ctas,
      .stages = kSharedStages};
  config.reload_weight = held(config, shape) > kMostHeld;
  return config;
}

// Returns true if one CTA can hold the partial sums of every column.
bool fits(const Machine& machine, const NormBackwardShape& shape) {
  if (!machine.is_gpu()) return shape.cols <= kMostColumnsOnCpu;
  return backward_width(machine, shape) <=
         threads_of(machine) * vector_width(shape.type) * most_vectors(machine, shape);
}

NormBackwardConfig config_of(const TileShape& tile, DType type) {
  const int64_t step = program::kWarpThreads * tile.num_warps * vector_width(type);
  return {.rows = static_cast<int>(tile.rows),
          .num_warps = tile.num_warps,
          .vectors = static_cast<int>(tile.rows * tile.cols / step)};
}

// Returns true if each thread holds five vectors of a ragged row, in small CTAs with kMostRegisters
// registers per thread. Wider tiles would compute more columns outside the row.
bool takes_five(const Machine& machine, const NormBackwardShape& shape) {
  const int64_t narrow = tile_width(widest_tile(machine, shape)), power = narrow & -narrow;
  return begins_early(machine, shape) && size_of(shape.type) == 2 && shape.sums > 0 &&
         narrow == 5 * power &&
         power <= machine.threads_with(kMostRegisters) * vector_width(shape.type);
}

// Returns the schedule of ragged rows. A tile has one row, because adjacent rows begin at different
// offsets in a vector. Several small CTAs per SM replace tiles of several rows.
NormBackwardConfig ragged_rows(const Machine& machine, const NormBackwardShape& shape) {
  const TileRule& rule =
      first_of(kTiles, [&](const TileRule& r) { return r.of.fits(shape) && r.cols == 0; });
  TileShape tile{.cols = takes_five(machine, shape) ? tile_width(widest_tile(machine, shape))
                                                    : backward_width(machine, shape)};
  tile.num_warps = warps_for(tile.cols, shape.type, rule.vectors, rule.most_warps);
  NormBackwardConfig config = config_of(tile, shape.type);
  const bool crowded = held(config, shape) > kMostHeldOfRagged;
  config.reload_weight = held(config, shape) > kMostHeld && !crowded;
  config.programs_per_sm = static_cast<int>(
      std::clamp<int64_t>(machine.threads_with(crowded ? kMostRegisters : kRegisters) /
                              (program::kWarpThreads * tile.num_warps),
                          1, kMostPrograms));
  return config;
}

NormBackwardConfig whole_rows(const Machine& machine, const NormBackwardShape& shape) {
  TileShape tile = row_tile(machine, shape.type, shape.cols);
  if (!machine.is_gpu()) return config_of(tile, shape.type);
  if (begins_early(machine, shape)) return ragged_rows(machine, shape);
  const int64_t vector = vector_width(shape.type), bytes = size_of(shape.type),
                threads = threads_of(machine);
  tile.cols = backward_width(machine, shape);
  tile.rows = 1;
  const int64_t whole =
      std::max<int64_t>(1, (tile.cols & -tile.cols) / vector);  // threads that share a row
  // With two partial sums, the registers suffice only if some are freed at a barrier, and a row
  // within one warp has no barrier.
  const bool crowded = shape.sums == 2 && whole <= 32;
  const int64_t side_by_side =
      first_of(kShortRows, [&](const ShortRowRule& r) { return r.of.fits(shape); }).bytes;
  const auto roomy = [&](int64_t rows) {
    return rows * tile.cols <= threads * side_by_side / bytes ||
           (!crowded && rows * whole <= threads &&
            rows * tile.cols <= threads * vector * most_vectors(machine, shape));
  };
  while (roomy(tile.rows * 2)) tile.rows *= 2;
  const TileRule& rule = first_of(kTiles, [&](const TileRule& r) {
    return r.of.fits(shape) && (r.cols == 0 || r.cols == tile.cols);
  });
  tile.num_warps = warps_for(tile.rows * tile.cols, shape.type, rule.vectors, rule.most_warps);
  NormBackwardConfig config = config_of(tile, shape.type);
  config.reload_weight = held(config, shape) > kMostHeld;
  return config;
}

std::string refused_columns(const NormBackwardShape& shape, const NormBackwardConfig& config) {
  if (config.rows != 1 || config.num_ctas != 1 || config.stages != 1 || config.reload_weight)
    return "by=columns requires rows=1, num_ctas=1, stages=1 and reload_weight=false, got rows=" +
           std::to_string(config.rows) + ", num_ctas=" + std::to_string(config.num_ctas) +
           ", stages=" + std::to_string(config.stages) +
           " and reload_weight=" + (config.reload_weight ? "true" : "false") +
           "; use these values, or by=rows";
  if (const int64_t block = config.columns(shape.type); block >= shape.cols)
    return "a block of " + std::to_string(block) +
           " columns holds the whole row; use fewer vectors or warps, or by=rows";
  return "";
}

// Returns the reason why a schedule without d_x is invalid; empty if it is valid. Only d_x needs
// whole rows.
std::string refused_sums(const Machine& machine, const NormBackwardShape& shape,
                         const NormBackwardConfig& config) {
  if (config.by != BackwardBy::columns)
    return "without_d_x=true requires by=columns; use by=columns";
  if (config.num_ctas != 1)
    return "num_ctas: expected 1 with without_d_x=true, got " + std::to_string(config.num_ctas) +
           "; use num_ctas=1";
  if (config.reload_weight)
    return "without_d_x=true requires reload_weight=false; use reload_weight=false";
  return refused_column_tile(machine, shape.type, shape.cols, config.rows,
                             config.columns(shape.type), shape.sums);
}

std::string refused_cluster(const Machine& machine, const NormBackwardShape& shape,
                            const NormBackwardConfig& config) {
  if (config.num_ctas > machine.max_cluster)
    return "num_ctas: expected at most " + std::to_string(machine.max_cluster) +
           " on this machine, got " + std::to_string(config.num_ctas) + "; use a smaller num_ctas";
  const std::string ctas = "num_ctas=" + std::to_string(config.num_ctas);
  if (config.rows != 1)
    return ctas + " requires rows=1, got " + std::to_string(config.rows) +
           "; use rows=1, or num_ctas=1";
  if (shape.sums == 0) return ctas + " requires a parameter gradient; use num_ctas=1";
  return "";
}

}  // namespace

int64_t aligned_period(const Machine& machine, const NormBackwardShape& shape,
                       const NormBackwardConfig& config) {
  const bool one_row = shape.d_x && config.by == BackwardBy::rows && config.rows == 1;
  const bool fits = config.columns(shape.type) >= columns_with_offset(shape.type, shape.cols);
  return machine.is_gpu() && one_row && fits ? row_period(shape.type, shape.cols) : 1;
}

NormBackwardConfig norm_backward_heuristic(const Machine& machine, const NormBackwardShape& shape) {
  if (!shape.d_x) {
    const ColumnSumsConfig sums = column_sums_config(machine, shape.type, shape.cols,
                                                     {.arrays = shape.inputs, .sums = shape.sums});
    return {.by = BackwardBy::columns,
            .rows = sums.rows,
            .num_warps = sums.num_warps,
            .vectors = sums.vectors,
            .stages = sums.stages,
            .programs_per_sm = sums.programs_per_sm};
  }
  if (takes_five(machine, shape)) return ragged_rows(machine, shape);
  if (const auto shared = shared_rows(machine, shape)) return *shared;
  if (fits(machine, shape)) return whole_rows(machine, shape);
  NormBackwardConfig config =
      config_of({.cols = kRowBlock,
                 .num_warps = warps_for(kRowBlock, shape.type, kColumnsVectors, kColumnsMostWarps)},
                shape.type);
  config.by = BackwardBy::columns;
  config.stages = 1;
  config.programs_per_sm = kColumnsProgramsPerSm;
  return config;
}

std::string norm_backward_refused(const Machine& machine, const NormBackwardShape& shape,
                                  const NormBackwardConfig& config) {
  if (!shape.d_x) return refused_sums(machine, shape, config);
  if (config.by == BackwardBy::columns) return refused_columns(shape, config);
  if (config.num_ctas > 1) {
    if (const std::string reason = refused_cluster(machine, shape, config); !reason.empty())
      return reason;
  }
  const int64_t columns = config.columns(shape.type);
  const std::string got = ", got " + std::to_string(columns) + "; ";
  if (columns < shape.cols)
    return "columns per tile: expected at least " + std::to_string(shape.cols) + got +
           "use more vectors, warps or CTAs, fewer rows, or by=columns";
  if (shape.sums > 0 && config.rows > 1) {
    const int64_t elements = config.rows * columns * shape.sums;
    if (const std::string reason = refused_sum_in_shared_memory(machine, elements); !reason.empty())
      return reason;
  }
  if (columns >= 2 * tile_width(shape.cols))
    return "columns per tile: expected fewer than " + std::to_string(2 * tile_width(shape.cols)) +
           got + "use fewer vectors or warps, or more rows";
  return "";
}

}  // namespace ligerdsl::kernels
