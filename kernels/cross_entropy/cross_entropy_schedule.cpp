#include "kernels/core/record.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_totals.h"

namespace ligerdsl::kernels {
namespace {

// Schedule of the CTAs of a cluster that share a row.
constexpr RowConfig kSharers{.keep = Keep::shared, .num_warps = 4, .vectors = 4};

// Returns the number of CTAs per SM for rows shared by clusters. It prefers six, or five if five
// allow clusters of eight where six need sixteen (Hopper, bf16, 4096 x 163840: 662 us, six 703 us).
// Softcap, smoothing and entropies need more registers: 4 or 3 CTAs (8192 x 128256 with smoothing:
// 1194 us with four, 1407 us with five).
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

// Bytes that an H200 moves while it starts a program: 1.35 ns at 4.2 TB/s. Programs with shorter
// rows would wait for their start, so each program takes several rows.
constexpr int64_t kShortRow = 5632;
constexpr int64_t kMostOddTile = 31;  // a tile has c 2^n columns, with an odd c up to this

int programs_per_sm(const Machine& machine, const CrossEntropyOptions& o) {
  const int64_t bytes = (o.with_gradient ? 2 : 1) * o.classes * size_of(o.type);
  return machine.is_gpu() && bytes < kShortRow ? CrossEntropyConfig::kProgramsOfShortRows : 0;
}

// Columns including room for an alignment offset, for rows that are not aligned.
int64_t columns_with_offset(const CrossEntropyOptions& o) {
  return o.classes + vector_width(o.type) - 1;
}

// Returns the columns of a GPU tile for unaligned rows that are read element by element, with the
// lanes of a warp at contiguous addresses, or 0 if this does not pay. Vectors need room for an
// alignment offset, rounded up to a power of two: 512 columns for 257 classes, compared with 288
// here. Reading by element costs 5 of about 26 instructions more, so it must save a fifth of the
// columns.
int64_t columns_by_element(const Machine& machine, const CrossEntropyOptions& o) {
  const int64_t columns = ceil_div(o.classes, program::kWarpThreads) * program::kWarpThreads;
  const bool is_tile = columns / (columns & -columns) <= kMostOddTile;
  if (!machine.is_gpu() || !is_tile || o.classes % vector_width(o.type) == 0) return 0;
  return columns * 5 <= tile_width(columns_with_offset(o)) * 4 ? columns : 0;
}

// Returns the columns that a tile of a whole row covers.
int64_t covered(const CrossEntropyOptions& o) {
  return o.classes % vector_width(o.type) == 0 ? o.classes : columns_with_offset(o);
}

// Rows that are read once: 128 threads with four vectors each. Six such CTAs per SM hide latency
// without prefetching, even if an alignment offset takes registers. Rows that are read twice: 512
// threads keep the row in shared memory; a cluster shares longer rows.
constexpr RowConfig kReadOnce{
    .keep = Keep::shared, .num_warps = 4, .vectors = 4, .min_ctas_per_sm = 6};
constexpr RowConfig kReadTwice{.keep = Keep::shared, .num_warps = 16, .vectors = 2};
constexpr int64_t kWidestOnGpu = 1024;  // vectors per whole row
constexpr int64_t kBlockOnCpu = 8192;   // columns of a block, and of the widest whole row

RowConfig in_blocks(const Machine& machine, const CrossEntropyOptions& o) {
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
  if (o.classes * size_of(o.type) <= machine.shared_for_rows()) return {};
  RowConfig sharers = kSharers;
  sharers.min_ctas_per_sm = sharing_ctas(machine, o);
  return rows_in_cluster(machine, o.type, o.classes, sharers);
}

CrossEntropyConfig heuristic(const Machine& machine, const CrossEntropyOptions& o) {
  if (const auto shared = shared_rows(machine, o)) return {*shared, true};
  const int64_t widest = machine.is_gpu() ? kWidestOnGpu * vector_width(o.type) : kBlockOnCpu;
  if (covered(o) > widest) return {in_blocks(machine, o), o.with_gradient};
  CrossEntropyConfig config{
      RowConfig{.num_warps = warps_for(tile_width(covered(o)), o.type, 2, 16)}};
  if (columns_by_element(machine, o) > 0) config.num_warps = 1;
  config.programs_per_sm = programs_per_sm(machine, o);
  return config;
}

std::string valid(const Machine& machine, const CrossEntropyOptions& o,
                  const CrossEntropyConfig& config) {
  if (config.rows != 1) return "a tile has one row; use rows=1";
  if (config.prefetched && config.whole())
    return "prefetched needs rows in blocks; use prefetched=false";
  if (config.programs_per_sm > 0 && !config.whole())
    return "programs_per_sm needs tiles of whole rows; use programs_per_sm=0, or keep=registers";
  if (config.programs_per_sm > 0 && !machine.is_gpu())
    return "a CPU has no SMs; use programs_per_sm=0";
  if (config.keep == Keep::cluster && !o.with_gradient)
    return "keep=cluster needs a gradient, for which rows are read twice; use keep=shared";
  if (config.keep == Keep::cluster && o.part)
    return "clusters do not share rows of a part of a batch; use keep=shared";
  if (config.keep == Keep::cluster && o.classes % vector_width(o.type) != 0)
    return "keep=cluster needs aligned rows, and rows have " + std::to_string(o.classes) +
           " elements; use keep=shared";
  if (const std::string reason = refused_lanes(config); !reason.empty()) return reason;
  const int64_t columns = config.keep == Keep::cluster ? o.classes : covered(o);
  return refused(machine, o.type, columns, config);
}

Operation build(const Machine& machine, const CrossEntropyOptions& o,
                const CrossEntropyConfig& config) {
  const CrossEntropyMeta meta = cross_entropy_meta(machine, o, config);
  return with_totals(meta, record_step(cross_entropy_kernel.name, o.type, &cross_entropy_rows, meta,
                                       config.launch(machine), schedule_of(config)));
}

// Counts each byte of a row once. Values per row are neglected.
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
  // If this is a part of the rows, the caller adds up the totals of all parts.
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
