#include "kernels/core/record.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_totals.h"

namespace ligerdsl::kernels {
namespace {

// CTAs of a cluster that share a row.
constexpr RowConfig kSharers{.keep = Keep::shared, .num_warps = 4, .vectors = 4};

// CTAs of an SM that share rows with others, on clusters of eight rather than sixteen where that leaves five.
// Measured on Hopper, us for 8192 x 128256 of bf16: six 1019, five 1027, and for 4096 x 163840 662 on clusters of eight
// and 703 with six on clusters of sixteen. A softcap, smoothing and entropies need the registers that six or five do not
// have: with smoothing 1194, 1407 with five; 4096 x 256000 1219 with three, 1506 with five.
int sharing_ctas(const Machine& machine, const CrossEntropyOptions& o) {
  const int64_t bytes = o.classes * size_of(o.type);
  // Each CTA keeps its part of whole blocks.
  const int64_t part = kSharers.columns(o.type, o.classes) * size_of(o.type);
  const auto keep = [&](int ctas, int cluster) {
    return ceil_div(bytes, cluster * part) <= machine.resident_budget(ctas) / part;
  };
  const auto eight_keep = [&](int ctas) { return kept_by_cluster(machine, 8, bytes, ctas) && keep(ctas, 8); };
  if (o.softcap || o.smoothing || o.entropies()) return eight_keep(4) || (!eight_keep(3) && keep(4, 16)) ? 4 : 3;
  return eight_keep(6) || (!eight_keep(5) && keep(6, 16)) ? 6 : 5;
}

// Bytes that an H200 moves while it starts a program: 1.35 ns at 4.2 TB/s. Programs of shorter rows would wait for their
// start, so they take several rows.
constexpr int64_t kShortRow = 5632;
constexpr int64_t kMostOddTile = 31;  // a tile has c 2^n columns, with an odd c up to this

int programs_per_sm(const Machine& machine, const CrossEntropyOptions& o) {
  const int64_t bytes = (o.with_gradient ? 2 : 1) * o.classes * size_of(o.type);
  return machine.is_gpu() && bytes < kShortRow ? CrossEntropyConfig::kProgramsOfShortRows : 0;
}

// Columns with room for an alignment offset, where rows that follow each other begin anywhere.
int64_t columns_with_offset(const CrossEntropyOptions& o) {
  return o.classes + vector_width(o.type) - 1;
}

// Columns of a GPU's tile of a row that begins anywhere and is read element by element, the lanes of a warp at contiguous places.
// Vectors would need columns for an alignment offset and a power of two: 512 for 257 classes, where this takes 288. An
// element of its own costs 5 of some 26 instructions more (loads, stores), so it must save a fifth of the columns. 0: it does not.
int64_t columns_by_element(const Machine& machine, const CrossEntropyOptions& o) {
  const int64_t columns = ceil_div(o.classes, program::kWarpThreads) * program::kWarpThreads;
  const bool is_tile = columns / (columns & -columns) <= kMostOddTile;
  if (!machine.is_gpu() || !is_tile || o.classes % vector_width(o.type) == 0) return 0;
  return columns * 5 <= tile_width(columns_with_offset(o)) * 4 ? columns : 0;
}

// Columns that tiles of whole rows cover.
int64_t covered(const CrossEntropyOptions& o) {
  return o.classes % vector_width(o.type) == 0 ? o.classes : columns_with_offset(o);
}

// Measured on Hopper. Rows that are read once: 128 threads with four vectors each, and so many of these CTAs that none
// needs to prefetch (six or more, also where an alignment offset takes registers). Rows that are read twice: 512
// threads, whose shared memory keeps the row; the CTAs of a cluster share longer ones.
constexpr RowConfig kReadOnce{.keep = Keep::shared, .num_warps = 4, .vectors = 4, .min_ctas_per_sm = 6};
constexpr RowConfig kReadTwice{.keep = Keep::shared, .num_warps = 16, .vectors = 2};
constexpr int64_t kWidestOnGpu = 1024;  // vectors of a whole row
constexpr int64_t kBlockOnCpu = 8192;   // columns, and those of the widest whole row

RowConfig in_blocks(const Machine& machine, const CrossEntropyOptions& o) {
  RowConfig config = o.with_gradient ? kReadTwice : kReadOnce;
  if (!o.with_gradient && o.entropies()) config.min_ctas_per_sm = 5;  // six would spill
  if (machine.is_gpu()) return config;
  config.min_ctas_per_sm = 0;
  config.vectors = static_cast<int>(kBlockOnCpu / (program::kWarpThreads * config.num_warps * vector_width(o.type)));
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
  CrossEntropyConfig config{RowConfig{.num_warps = warps_for(tile_width(covered(o)), o.type, 2, 16)}};
  if (columns_by_element(machine, o) > 0) config.num_warps = 1;
  config.programs_per_sm = programs_per_sm(machine, o);
  return config;
}

std::string valid(const Machine& machine, const CrossEntropyOptions& o, const CrossEntropyConfig& config) {
  if (config.rows != 1) return "a tile is of one row; use rows=1";
  if (config.prefetched && config.whole()) return "prefetched is of blocks; use prefetched=false";
  if (config.programs_per_sm > 0 && !config.whole())
    return "programs go from row to row where a tile holds a row; use programs_per_sm=0, or keep=registers";
  if (config.programs_per_sm > 0 && !machine.is_gpu()) return "a CPU has no SMs; use programs_per_sm=0";
  if (config.keep == Keep::cluster && !o.with_gradient)
    return "without a gradient rows are read once and need not be kept; use keep=shared";
  if (config.keep == Keep::cluster && o.part) return "parts of a batch are not shared by clusters; use keep=shared";
  if (config.keep == Keep::cluster && o.classes % vector_width(o.type) != 0)
    return "rows of " + std::to_string(o.classes) + " elements do not all begin at 16 bytes; use keep=shared";
  if (const std::string reason = refused_lanes(config); !reason.empty()) return reason;
  const int64_t columns = config.keep == Keep::cluster ? o.classes : covered(o);
  return refused(machine, o.type, columns, config);
}

Operation build(const Machine& machine, const CrossEntropyOptions& o, const CrossEntropyConfig& config) {
  const CrossEntropyMeta meta = cross_entropy_meta(machine, o, config);
  return with_totals(meta, record_step(cross_entropy_kernel.name, o.type, &cross_entropy_rows, meta,
                                       config.launch(machine), schedule_of(config)));
}

// Every byte of a row once; of what is one number of a row nothing.
Cost cost(const CrossEntropyOptions& o, int64_t rows) {
  return {static_cast<double>((o.with_gradient ? 2 : 1) * o.classes * size_of(o.type)) * static_cast<double>(rows)};
}

}  // namespace

Launch CrossEntropyConfig::launch(const Machine& machine) const {
  Launch launch = RowConfig::launch();
  if (programs_per_sm > 0) launch.grid[0] = min(launch.grid[0], int64_t{machine.sms} * programs_per_sm);
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
  meta.lanes = meta.looped ? block_lanes(machine, o.type, meta.block, config.num_warps, config.num_ctas)
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
  totals.totals_in_parts = !meta.part;  // a part's caller has the sums of all parts made, of few wide rows
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
    "cross_entropy", "cross-entropy of rows of logits: loss, gradient and the rest", &valid, &heuristic, &build, &cost};

Operation cross_entropy(const Machine& machine, const CrossEntropyOptions& options) {
  return cross_entropy_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
