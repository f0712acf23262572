#include "kernels/core/row_schedule.h"

#include "kernels/core/config.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kMostHeld = 16;  // vectors of a thread: more would be spilled

std::string refused_cluster(const Machine& machine, DType type, int64_t cols, const RowConfig& config) {
  if (!machine.is_gpu()) return "a CPU has no clusters; use keep=shared";
  if (machine.max_cluster == 1)
    return std::string(machine.name) + " has no clusters of CTAs with this driver; use keep=shared";
  if (config.num_ctas == 1) return "a cluster has 2 CTAs or more; set num_ctas";
  if (config.num_ctas > machine.max_cluster)
    return std::string(machine.name) + " has clusters of at most " + std::to_string(machine.max_cluster) + " CTAs";
  if (cols % vector_width(type) != 0)
    return "rows of " + std::to_string(cols) + " elements do not all begin at 16 bytes; use keep=shared";
  return "";
}

std::string refused_tile(DType type, int64_t cols, const RowConfig& config) {
  if (config.vectors != 0) return "vectors is of blocks; use vectors=0 with keep=registers";
  const int64_t threads = program::kWarpThreads * config.num_warps;
  const int64_t vectors = config.rows * tile_width(cols) / vector_width(type);
  if (config.num_warps > 1 && vectors < threads)
    return "a tile of " + std::to_string(vectors) + " vectors leaves threads without one; use fewer warps or more rows";
  if (vectors > kMostHeld * threads)
    return "a thread would hold " + std::to_string(vectors / threads) + " vectors, at most " +
           std::to_string(kMostHeld) + " are possible; use more warps, fewer rows or keep=shared";
  return "";
}

std::string refused_block(DType type, int64_t cols, const RowConfig& config) {
  if (config.rows != 1) return "a block is of one row; use rows=1, or keep=registers";
  if (config.vectors == 0) return "a block has 1 vector per thread or more; set vectors, or use keep=registers";
  if (const int64_t block = config.columns(type, cols); block >= cols)
    return "a block of " + std::to_string(block) +
           " columns holds the whole row; use fewer vectors, warps or CTAs, or " + "keep=registers";
  return "";
}

}  // namespace

Launch RowConfig::launch() const {
  Launch launch = library_launch(ceil_div(Size::rows(), rows), num_warps);
  launch.num_ctas = num_ctas;
  launch.min_ctas_per_sm = min_ctas_per_sm;
  return launch;
}

RowConfig whole_rows(const Machine& machine, DType type, int64_t cols, int64_t vectors) {
  const TileShape tile = row_tile(machine, type, cols, vectors);
  return {.rows = static_cast<int>(tile.rows), .num_warps = tile.num_warps};
}

RowConfig rows_in_blocks(DType type, int64_t block, int64_t vectors) {
  const int num_warps = warps_for(block, type, vectors);
  const int64_t held = block / (program::kWarpThreads * num_warps * vector_width(type));
  return {.keep = Keep::shared, .num_warps = num_warps, .vectors = static_cast<int>(held)};
}

bool kept_by_cluster(const Machine& machine, int num_ctas, int64_t bytes, int ctas_per_sm) {
  return bytes * ctas_per_sm <= num_ctas * machine.shared_for_rows();
}

// Measured on Hopper: eight small CTAs, several of them on an SM, so that memory has work while one of them waits for
// its cluster; four of rows below kSharedByEight bytes (57344 columns of bf16: 441 us for 8192 rows, 447 with eight).
std::optional<RowConfig> rows_in_cluster(const Machine& machine, DType type, int64_t cols, RowConfig of,
                                         int64_t streams) {
  const int64_t bytes = cols * size_of(type) * streams;
  if (machine.max_cluster < 8 || cols % vector_width(type) != 0) return {};
  const auto kept_by = [&](int n) { return kept_by_cluster(machine, n, bytes, of.min_ctas_per_sm); };
  of.keep = Keep::cluster;
  of.num_ctas = bytes < kSharedByEight && kept_by(4) ? 4 : kept_by(8) ? 8 : std::min(16, machine.max_cluster);
  // Fewer vectors where the last block would be mostly empty.
  const int64_t vector = program::kWarpThreads * of.num_warps * vector_width(type) * of.num_ctas;
  const auto covered = [&](int64_t vectors) { return ceil_div(cols, vector * vectors) * vectors; };
  while (of.vectors > 1 && covered(of.vectors / 2) * 8 <= covered(of.vectors) * 7) of.vectors /= 2;
  while (of.vectors > 1 && of.columns(type, cols) >= cols) of.vectors /= 2;
  return of;
}

std::string refused(const Machine& machine, DType type, int64_t cols, const RowConfig& config) {
  if (config.keep == Keep::cluster) {
    if (const std::string reason = refused_cluster(machine, type, cols, config); !reason.empty()) return reason;
  } else if (config.num_ctas != 1) {
    return "num_ctas is of rows that CTAs share; use num_ctas=1, or keep=cluster";
  }
  return config.whole() ? refused_tile(type, cols, config) : refused_block(type, cols, config);
}

std::string refused_lanes(const RowConfig& config) {
  if (config.whole() || (config.vectors & (config.vectors - 1)) == 0) return "";
  return "a block of this kernel has a power of two of vectors per thread; use vectors=1, 2, 4, 8 or 16";
}

std::string config_text(const std::vector<MetaField>& fields) {
  std::string text;
  for (const MetaField& field : fields) text += (text.empty() ? "" : " ") + field.name + "=" + field.value;
  return text;
}

}  // namespace ligerdsl::kernels
