#include "kernels/core/row_schedule.h"

#include "kernels/core/config.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kMostHeld = 16;  // vectors per thread; more would spill

std::string refused_cluster(const Machine& machine, DType type, int64_t cols,
                            const RowConfig& config) {
  if (!machine.is_gpu()) return "a CPU has no clusters; use keep=shared";
  if (machine.max_cluster == 1)
    return std::string(machine.name) + " with this driver has no clusters of CTAs; use keep=shared";
  if (config.num_ctas == 1)
    return "keep=cluster requires num_ctas of 2 or more, got 1; set num_ctas";
  if (config.num_ctas > machine.max_cluster)
    return "num_ctas: expected at most " + std::to_string(machine.max_cluster) + " on " +
           std::string(machine.name) + ", got " + std::to_string(config.num_ctas) +
           "; use a smaller num_ctas";
  if (cols % vector_width(type) != 0)
    return "keep=cluster requires rows of a multiple of 16 bytes, got rows of " +
           std::to_string(cols * size_of(type)) + " bytes; use keep=shared";
  return "";
}

std::string refused_tile(DType type, int64_t cols, const RowConfig& config) {
  if (config.vectors != 0)
    return "keep=registers requires vectors=0, got vectors=" + std::to_string(config.vectors) +
           "; use vectors=0, or another keep";
  const int64_t threads = program::kWarpThreads * config.num_warps;
  const int64_t vectors = config.rows * tile_width(cols) / vector_width(type);
  if (config.num_warps > 1 && vectors < threads)
    return "vectors per tile: expected at least " + std::to_string(threads) + ", got " +
           std::to_string(vectors) + "; use fewer warps or more rows";
  if (vectors > kMostHeld * threads)
    return "vectors per thread: expected at most " + std::to_string(kMostHeld) + ", got " +
           std::to_string(vectors / threads) + "; use more warps, fewer rows or keep=shared";
  return "";
}

std::string refused_block(DType type, int64_t cols, const RowConfig& config) {
  if (config.rows != 1)
    return "rows=" + std::to_string(config.rows) +
           " requires keep=registers; use rows=1, or keep=registers";
  if (config.vectors == 0)
    return "rows in blocks require vectors of 1 or more, got 0; set vectors, or use keep=registers";
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

// A cluster has eight small CTAs, several per SM, so that loads continue while one CTA waits for
// its cluster. Rows below kSharedByEight bytes use four CTAs, which are slightly faster there. Rows
// that do not fit in eight CTAs use up to 16.
std::optional<RowConfig> rows_in_cluster(const Machine& machine, DType type, int64_t cols,
                                         RowConfig of, int64_t streams) {
  const int64_t bytes = cols * size_of(type) * streams;
  if (machine.max_cluster < 8 || cols % vector_width(type) != 0) return {};
  const auto kept_by = [&](int n) {
    return kept_by_cluster(machine, n, bytes, of.min_ctas_per_sm);
  };
  of.keep = Keep::cluster;
  of.num_ctas = bytes < kSharedByEight && kept_by(4) ? 4
                : kept_by(8)                         ? 8
                                                     : std::min(16, machine.max_cluster);
  // Use fewer vectors if this leaves less of the last block empty.
  const int64_t vector = program::kWarpThreads * of.num_warps * vector_width(type) * of.num_ctas;
  const auto covered = [&](int64_t vectors) { return ceil_div(cols, vector * vectors) * vectors; };
  while (of.vectors > 1 && covered(of.vectors / 2) * 8 <= covered(of.vectors) * 7) of.vectors /= 2;
  while (of.vectors > 1 && of.columns(type, cols) >= cols) of.vectors /= 2;
  return of;
}

std::string refused(const Machine& machine, DType type, int64_t cols, const RowConfig& config) {
  if (config.keep == Keep::cluster) {
    if (const std::string reason = refused_cluster(machine, type, cols, config); !reason.empty())
      return reason;
  } else if (config.num_ctas != 1) {
    return "num_ctas=" + std::to_string(config.num_ctas) +
           " requires keep=cluster; use num_ctas=1, or keep=cluster";
  }
  return config.whole() ? refused_tile(type, cols, config) : refused_block(type, cols, config);
}

std::string refused_lanes(const RowConfig& config) {
  if (config.whole() || (config.vectors & (config.vectors - 1)) == 0) return "";
  return "vectors: expected a power of two for this kernel, got " + std::to_string(config.vectors) +
         "; use vectors=1, 2, 4, 8 or 16";
}

std::string config_text(const std::vector<MetaField>& fields) {
  std::string text;
  for (const MetaField& field : fields)
    text += (text.empty() ? "" : " ") + field.name + "=" + field.value;
  return text;
}

}  // namespace ligerdsl::kernels
