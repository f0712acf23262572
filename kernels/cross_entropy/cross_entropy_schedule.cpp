#include <cmath>

#include "kernels/core/record.h"
#include "kernels/core/short_rows.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_totals.h"

namespace ligerdsl::kernels {
namespace {

// Schedule of the CTAs of a cluster that share a row.
constexpr RowConfig kSharers{.keep = Keep::shared, .num_warps = 4, .vectors = 4};

// Returns the number of CTAs per SM for rows shared by clusters: the larger of six and five with
// which rows fit in clusters of 8 CTAs. If rows need clusters of 16, it is six if they then fit,
// otherwise five. Softcap, smoothing and entropies need more registers, so it is four or three.
int sharing_ctas(const Machine& machine, const CrossEntropyOptions& o) {
  const int64_t bytes = o.classes * size_of(o.type);
  // Each CTA keeps whole blocks of the row.
  const int64_t part = kSharers.columns(o.type, o.classes) * size_of(o.type);
  const auto keep = [&](int ctas, int cluster) {
    return ceil_div(bytes, cluster * part) <= machine.resident_budget(ctas) / part;
  };
  const auto eight_keep = [&](int ctas) {
    return kept_by_cluster(machine, 8, bytes, ctas) && keep(ctas, 8);
  };
  if (o.softcap || o.smoothing || o.entropies())
    return eight_keep(4) || (!eight_keep(3) && keep(4, 16)) ? 4 : 3;
  return eight_keep(6) || (!eight_keep(5) && keep(6, 16)) ? 6 : 5;
}

// Bytes that an H200 moves while it starts a program: 1.35 ns at 4.2 TB/s. With shorter rows,
// starts would limit the speed, so each program computes several rows.
constexpr int64_t kShortRow = 5632;
constexpr int64_t kMostOddTile = 31;  // largest odd c of a tile with c 2^n columns

int programs_per_sm(const Machine& machine, const CrossEntropyOptions& o) {
  const int64_t bytes = (o.with_gradient ? 2 : 1) * o.classes * size_of(o.type);
  return machine.is_gpu() && bytes < kShortRow ? CrossEntropyConfig::kProgramsOfShortRows : 0;
}

// Returns the columns of an unaligned row, including room for an alignment offset.
int64_t columns_with_offset(const CrossEntropyOptions& o) {
  return o.classes + vector_width(o.type) - 1;
}

// Returns the columns of a GPU tile that reads unaligned rows by element, or 0 if vectors are
// faster. The lanes of a warp read contiguous elements. With vectors, the tile needs room for an
// alignment offset: 257 classes take 512 columns, but only 288 by element. Reading by element needs
// 26 instructions instead of 21, so it must save a fifth of the columns.
int64_t columns_by_element(const Machine& machine, const CrossEntropyOptions& o) {
  const int64_t columns = ceil_div(o.classes, program::kWarpThreads) * program::kWarpThreads;
  const bool is_tile = columns / (columns & -columns) <= kMostOddTile;
  if (!machine.is_gpu() || !is_tile || o.classes % vector_width(o.type) == 0) return 0;
  return columns * 5 <= tile_width(columns_with_offset(o)) * 4 ? columns : 0;
}

// Returns the number of columns that the tile or the blocks of a row must cover, including any
// alignment offset.
int64_t covered(const CrossEntropyOptions& o) {
  return o.classes % vector_width(o.type) == 0 ? o.classes : columns_with_offset(o);
}

// Returns covered() rounded up to whole vectors, the unit of bulk copies to a cluster's CTAs.
int64_t whole_vectors(const CrossEntropyOptions& o) {
  return round_up(covered(o), vector_width(o.type));
}

// Instructions per element of a short-row tile, and per row for its results.
constexpr double kPerShortElement = 10, kPerShortRow = 600;

std::optional<ShortRowTile> tile_of_short_rows(const CrossEntropyOptions& o) {
  constexpr int64_t kMostWithTerms = 48;
  const double arrays = o.with_gradient ? 2 : 1;
  const bool terms =
      o.softcap || o.smoothing || o.entropies() || o.with_accuracy || o.with_predictions;
  return short_row_tile(
      o.type, o.classes,
      {arrays * static_cast<double>(o.classes * size_of(o.type)), kPerShortElement, kPerShortRow,
       terms ? kMostWithTerms : kMostElementsPerLane});
}

std::optional<CrossEntropyConfig> short_rows(const Machine& machine, const CrossEntropyOptions& o) {
  if (!machine.is_gpu() || programs_per_sm(machine, o) == 0) return {};
  const std::optional<ShortRowTile> tile = tile_of_short_rows(o);
  if (!tile) return {};
  CrossEntropyConfig config{RowConfig{.num_warps = 4}};
  config.rows = static_cast<int>(rows_of_tile(*tile, config.num_warps));
  return config;
}

std::string refused_short_rows(const CrossEntropyOptions& o, const CrossEntropyConfig& config) {
  const std::optional<ShortRowTile> tile = tile_of_short_rows(o);
  const std::string rows = "rows=" + std::to_string(config.rows);
  if (!config.whole()) return rows + " requires keep=registers; use rows=1, or keep=registers";
  if (config.programs_per_sm > 0)
    return "programs_per_sm=" + std::to_string(config.programs_per_sm) + " requires rows=1, got " +
           rows + "; use rows=1, or programs_per_sm=0";
  if (!tile)
    return "rows of " + std::to_string(o.classes) + " elements do not fit in a warp; use rows=1";
  if (config.vectors != 0 || config.num_ctas != 1 || config.prefetched)
    return rows + " requires vectors=0, num_ctas=1 and prefetched=false, got vectors=" +
           std::to_string(config.vectors) + ", num_ctas=" + std::to_string(config.num_ctas) +
           " and prefetched=" + (config.prefetched ? "true" : "false");
  const int64_t threads = int64_t{program::kWarpThreads} * config.num_warps,
                elements = config.rows * tile->columns / threads;
  if (config.rows * tile->lanes < threads)
    return "rows: expected 1, or at least " + std::to_string(threads / tile->lanes) +
           " (one for every " + std::to_string(tile->lanes) + " threads), got " +
           std::to_string(config.rows) + "; use fewer warps or more rows";
  if (elements > kMostElementsPerLane)
    return "elements per thread: expected at most " + std::to_string(kMostElementsPerLane) +
           ", got " + std::to_string(elements) + "; use more warps or fewer rows";
  return "";
}

// Schedules for rows in blocks. kReadOnce has 128 threads with four vectors each. Six of its CTAs
// per SM hide latency without prefetching, even if an alignment offset needs registers. With
// kReadTwice a CTA caches the row in shared memory. A cluster shares longer rows.
constexpr RowConfig kReadOnce{
    .keep = Keep::shared, .num_warps = 4, .vectors = 4, .min_ctas_per_sm = 6};
constexpr RowConfig kReadTwice{.keep = Keep::shared, .num_warps = 16, .vectors = 2};
constexpr int64_t kWidestOnGpu = 1024;  // vectors per whole row
constexpr int64_t kBlockOnCpu = 8192;   // columns of a block, and of the widest whole row

// Predicted SM clocks for a row that one CTA reads twice: the cube root of memory^3 +
// instructions^3 + waiting^3, with
//
//   memory        bytes / kBytesPerClock
//   instructions  (elements of all blocks * kPerElement / 32 + warps * kPerWarp) / 4
//   waiting       (kStart + 2 blocks * kBlock) / CTAs per SM
//
// The three times partly overlap. With 16 warps and bf16 rows of 14,000 to 22,000 columns, the
// formula agrees with times measured on an H200.
constexpr double kBytesPerClock = 18.1;  // 4.2 TB/s, 132 SMs, 1.755 GHz
constexpr double kPerElement = 17;       // instructions of both passes
constexpr double kPerWarp = 400;         // instructions of a warp outside of the loops
constexpr double kStart = 5000;          // clocks: start, label, first copy, warp exchange, end
constexpr double kBlock = 350;           // clocks: latency of a block in one pass

double predicted_clocks(const CrossEntropyOptions& o, const RowConfig& config) {
  const auto elements = static_cast<double>(o.classes), warps = double(config.num_warps);
  const int64_t block = config.columns(o.type, o.classes);
  const auto blocks = static_cast<double>(ceil_div(covered(o), block));
  const double memory = 2 * elements * static_cast<double>(size_of(o.type)) / kBytesPerClock;
  const double instructions = (blocks * static_cast<double>(block) * kPerElement /
                                   static_cast<double>(program::kWarpThreads) +
                               warps * kPerWarp) /
                              4;
  const double waiting = (kStart + 2 * blocks * kBlock) / config.min_ctas_per_sm;
  return std::cbrt(memory * memory * memory + instructions * instructions * instructions +
                   waiting * waiting * waiting);
}

// Returns the number of CTAs per SM that shared memory and registers allow, or 0 if one row does
// not fit.
int ctas_with_rows(const Machine& machine, const CrossEntropyOptions& o, const RowConfig& config) {
  constexpr int64_t kMostCtas = 8;
  constexpr int64_t kBarrier = 8, kAlignment = 16;  // extra bytes per block and per row
  const bool terms = o.softcap || o.smoothing || o.entropies();
  const int64_t registers = terms ? 80 : o.with_accuracy || o.with_predictions ? 56 : 48;
  const int64_t block = config.columns(o.type, o.classes),
                bytes =
                    ceil_div(covered(o), block) * (block * size_of(o.type) + kBarrier) + kAlignment,
                threads = program::kWarpThreads * config.num_warps;
  int64_t ctas = std::min(kMostCtas, machine.registers_per_sm / (registers * threads));
  while (ctas > 0 && bytes > machine.resident_budget(static_cast<int>(ctas))) --ctas;
  return static_cast<int>(ctas);
}

constexpr double kEqual = 1.02;  // times with a smaller ratio count as equal

// Returns the schedule with the least predicted time. Among equal times it prefers the most warps.
RowConfig rows_read_twice(const Machine& machine, const CrossEntropyOptions& o) {
  RowConfig best = kReadTwice;
  best.min_ctas_per_sm = ctas_with_rows(machine, o, best);
  if (best.min_ctas_per_sm == 0) return kReadTwice;
  double least = predicted_clocks(o, best) / kEqual;
  bool found = false;
  for (int warps : {8, 4}) {
    RowConfig config = kReadTwice;
    config.num_warps = warps;
    config.min_ctas_per_sm = ctas_with_rows(machine, o, config);
    if (config.min_ctas_per_sm == 0) continue;
    const double time = predicted_clocks(o, config);
    if (time >= least) continue;
    best = config, least = time / kEqual, found = true;
  }
  return found ? best : kReadTwice;
}

RowConfig in_blocks(const Machine& machine, const CrossEntropyOptions& o) {
  if (machine.is_gpu() && o.with_gradient) return rows_read_twice(machine, o);
  RowConfig config = o.with_gradient ? kReadTwice : kReadOnce;
  if (!o.with_gradient && o.entropies()) config.min_ctas_per_sm = 5;  // six would spill
  if (machine.is_gpu()) return config;
  config.min_ctas_per_sm = 0;
  config.vectors = static_cast<int>(
      kBlockOnCpu / (program::kWarpThreads * config.num_warps * vector_width(o.type)));
  return config;
}

std::optional<RowConfig> shared_rows(const Machine& machine, const CrossEntropyOptions& o) {
  if (!machine.is_gpu() || !o.with_gradient || o.part) return {};
  // A CTA whose row fills an SM waits for the copy. If rows are not whole cache lines, copies take
  // longer per byte (measured on an H200), and a cluster is faster.
  constexpr int64_t kLine = 128;
  const int64_t bytes = o.classes * size_of(o.type);
  const bool waits =
      bytes % kLine != 0 && ctas_with_rows(machine, o, rows_read_twice(machine, o)) == 1;
  if (bytes <= machine.shared_for_rows() && !waits) return {};
  RowConfig sharers = kSharers;
  sharers.min_ctas_per_sm = sharing_ctas(machine, o);
  if (o.classes % vector_width(o.type) != 0) {  // the offset needs registers: 4 vectors would spill
    // Rows that do not fit in a cluster's shared memory are loaded twice. More CTAs hide the
    // latency.
    constexpr int kKept = 5, kLoadedTwice = 8;
    const bool kept = kept_by_cluster(machine, machine.max_cluster, bytes, kKept);
    const bool terms = o.softcap || o.smoothing || o.entropies();
    sharers.vectors = 2;
    if (kept || terms)
      sharers.min_ctas_per_sm = std::min(sharers.min_ctas_per_sm, kKept);
    else
      sharers.min_ctas_per_sm = kLoadedTwice;
  }
  return rows_in_cluster(machine, o.type, whole_vectors(o), sharers);
}

CrossEntropyConfig heuristic(const Machine& machine, const CrossEntropyOptions& o) {
  const std::optional<CrossEntropyConfig> several = short_rows(machine, o);
  return several ? *several : one_row_per_tile(machine, o);
}

}  // namespace

CrossEntropyConfig one_row_per_tile(const Machine& machine, const CrossEntropyOptions& o) {
  if (const auto shared = shared_rows(machine, o)) return {*shared, true};
  const int64_t widest = machine.is_gpu() ? kWidestOnGpu * vector_width(o.type) : kBlockOnCpu;
  if (covered(o) > widest) return {in_blocks(machine, o), o.with_gradient};
  CrossEntropyConfig config{
      RowConfig{.num_warps = warps_for(tile_width(covered(o)), o.type, 2, 16)}};
  if (columns_by_element(machine, o) > 0) config.num_warps = 1;
  config.programs_per_sm = programs_per_sm(machine, o);
  return config;
}

namespace {

std::string valid(const Machine& machine, const CrossEntropyOptions& o,
                  const CrossEntropyConfig& config) {
  if (config.rows != 1) return refused_short_rows(o, config);
  if (config.prefetched && config.whole())
    return "prefetched=true requires rows in blocks; use prefetched=false, or keep=shared";
  if (config.programs_per_sm > 0 && !config.whole())
    return "programs_per_sm=" + std::to_string(config.programs_per_sm) +
           " requires tiles of whole rows; use programs_per_sm=0, or keep=registers";
  if (config.programs_per_sm > 0 && !machine.is_gpu())
    return "a CPU has no SMs; use programs_per_sm=0";
  if (config.keep == Keep::cluster && !o.with_gradient)
    return "keep=cluster requires with_gradient=true, because without a gradient rows are read "
           "once; use keep=shared";
  if (config.keep == Keep::cluster && o.part)
    return "keep=cluster requires part=false (rows of a whole batch); use keep=shared";
  if (const std::string reason = refused_lanes(config); !reason.empty()) return reason;
  const int64_t columns = config.keep == Keep::cluster ? whole_vectors(o) : covered(o);
  return refused(machine, o.type, columns, config);
}

Operation build(const Machine& machine, const CrossEntropyOptions& o,
                const CrossEntropyConfig& config) {
  const CrossEntropyMeta meta = cross_entropy_meta(machine, o, config);
  Launch launch = config.launch(machine);
  if (meta.rows > 1) launch.grid[0] = programs_of_tiles(meta.rows, meta.row_step);
  return with_totals(meta, record_step(cross_entropy_kernel.name, o.type, &cross_entropy_rows, meta,
                                       std::move(launch), schedule_of(config)));
}

// Counts each logit and each gradient once. Values per row, such as the loss, are neglected.
Cost cost(const CrossEntropyOptions& o, int64_t rows) {
  return {static_cast<double>((o.with_gradient ? 2 : 1) * o.classes * size_of(o.type)) *
          static_cast<double>(rows)};
}

}  // namespace

Launch CrossEntropyConfig::launch(const Machine& machine) const {
  Launch launch = RowConfig::launch();
  if (programs_per_sm > 0)
    launch.grid[0] = min(launch.grid[0], int64_t{machine.sms} * programs_per_sm);
  return launch;
}

CrossEntropyMeta cross_entropy_meta(const Machine& machine, const CrossEntropyOptions& o,
                                    const CrossEntropyConfig& config) {
  CrossEntropyMeta meta{o};
  if (config.rows > 1) {
    const ShortRowTile tile = tile_of_short_rows(o).value();
    meta.rows = config.rows;
    meta.block = tile.columns;
    meta.row_step = row_step(machine, o.type, o.classes, tile);
    return meta;
  }
  meta.looped = !config.whole();
  meta.prefetched = config.prefetched;
  meta.several_rows = config.programs_per_sm > 0;
  meta.block = config.columns(o.type, covered(o));
  const int64_t by_element = meta.looped ? 0 : columns_by_element(machine, o);
  if (by_element > 0) meta.block = by_element;
  meta.aligned_blocks = meta.looped || (by_element == 0 && meta.block >= columns_with_offset(o));
  meta.lanes = meta.looped
                   ? block_lanes(machine, o.type, meta.block, config.num_warps, config.num_ctas)
                   : BlockLanes{.lanes = meta.block};
  return meta;
}

Operation with_totals(const CrossEntropyMeta& meta, Step rows) {
  Operation op;
  auto scratch = [&](const std::string& name, const Size& size) {
    op.workspace.push_back({.name = name, .dtype = f32, .shape = {size}});
  };
  CrossEntropyMeta totals = meta;
  totals.block = 1024;
  // If the rows are part of a batch, the caller adds the totals of all parts.
  totals.totals_in_parts = !meta.part;
  if (needs_counts(meta)) {
    scratch("counts", 4);
    add_count(op, "cross_entropy_count", meta.type, totals);
  }
  add_step(op, std::move(rows));
  if (meta.reduction == Reduction::none) return op;
  if (meta.with_loss) scratch("row_loss", Size::rows());
  if (meta.with_z_loss) scratch("row_z_loss", Size::rows());
  if (meta.with_accuracy) scratch("row_accuracy", Size::rows());
  if (meta.with_loss || meta.with_z_loss || meta.with_accuracy)
    add_finish(op, "cross_entropy_finish", meta.type, totals, Size::rows());
  return op;
}

const CrossEntropy cross_entropy_kernel{
    "cross_entropy", "cross-entropy of rows of logits: loss, gradient and statistics",
    &valid,          &heuristic,
    &build,          &cost};

Operation cross_entropy(const Machine& machine, const CrossEntropyOptions& options) {
  return cross_entropy_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
