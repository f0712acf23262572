#include <algorithm>
#include <iterator>
#include <optional>

#include "kernels/core/aligned_rows.h"
#include "kernels/core/record.h"
#include "kernels/norm/fused_add_norm.h"
#include "kernels/norm/rms_norm.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t KB = 1024;

// Returns true if `is` equals `wanted`, or if `wanted` is empty.
bool agrees(const std::optional<bool>& wanted, bool is) {
  return !wanted || *wanted == is;
}

// Row vectors per thread, by the bytes of the row's tile. The first matching rule applies. The
// times in these tables are from an H200.
struct VectorRule {
  int64_t least = 0, most = INT64_MAX;  // bytes
  std::optional<bool> residual, odd;    // odd: the tile's width is not a power of two
  int vectors;
  const char* measured;
};
constexpr VectorRule kVectors[] = {
    {.least = 24 * KB,
     .most = 24 * KB,
     .residual = false,
     .vectors = 4,
     .measured =
         "11008 columns of bf16: 256 threads of six vectors 180 us, 512 threads of three 192 us"},
    {.odd = true, .vectors = 2, .measured = "the odd factor of the width multiplies it"},
    {.most = 16 * KB - 1, .residual = false, .vectors = 2, .measured = "1 to 2 % faster than four"},
    {.least = 16 * KB,
     .most = 16 * KB,
     .vectors = 2,
     .measured = "1 to 2 % faster than four, with a residual too"},
    {.vectors = 4, .measured = "with two vectors, a CTA would occupy a whole SM"},
};

// Minimum CTAs per SM, and whether the weight is loaded early, by warps and by row vectors per
// thread. The first matching rule applies.
struct ResourceRule {
  int least_warps = 0, most_warps = 32;
  int64_t least_held = 0, most_held = INT64_MAX;
  std::optional<bool> residual, light;  // light: no offset; weight absent or of the rows' type
  int min_ctas_per_sm;
  bool early_weight;
  const char* measured;
};
constexpr ResourceRule kResources[] = {
    {.least_warps = 16,
     .most_warps = 16,
     .least_held = 2,
     .most_held = 2,
     .residual = false,
     .light = true,
     .min_ctas_per_sm = 4,
     .early_weight = true,
     .measured = "32 registers hold two vectors of row and weight; 16384x8192 in bf16: 129 us, "
                 "with 40 registers 131"},
    {.least_warps = 16,
     .most_warps = 16,
     .most_held = 4,
     .residual = false,
     .min_ctas_per_sm = 2,
     .early_weight = true,
     .measured = "64 registers hold four vectors of the row and of the weight"},
    {.least_warps = 16,
     .most_warps = 16,
     .most_held = 4,
     .min_ctas_per_sm = 2,
     .early_weight = false,
     .measured = "with a residual, registers do not hold the weight"},
    {.least_warps = 16,
     .most_warps = 16,
     .residual = false,
     .min_ctas_per_sm = 2,
     .early_weight = false,
     .measured = "with more than four vectors of the row, registers do not hold the weight"},
    {.least_warps = 16,
     .min_ctas_per_sm = 0,
     .early_weight = false,
     .measured = "a CTA occupies a whole SM"},
    {.least_warps = 8,
     .most_warps = 8,
     .least_held = 6,
     .residual = false,
     .min_ctas_per_sm = 3,
     .early_weight = false,
     .measured =
         "80 registers hold six or seven vectors of the row, and the weight after the reduction"},
    {.min_ctas_per_sm = 0, .early_weight = true, .measured = "registers hold row and weight"},
};

// Rows with more columns and more bytes than these are shared by the CTAs of a cluster.
struct SharingRule {
  bool residual;
  int64_t above_columns, above_bytes;
  int64_t streams;  // number of arrays that are read twice
  const char* measured;
};
constexpr SharingRule kSharing[] = {
    {.residual = false,
     .above_columns = 0,
     .above_bytes = 40 * KB,
     .streams = 1,
     .measured =
         "rows of 40 KiB are the widest that CTAs of 512 threads hold with two CTAs per SM. A CTA "
         "of 1024 threads occupies an SM, and nothing overlaps its reduction. 16384 rows of bf16 "
         "with 24576, 29568 and 32768 columns take 445, 497 and 532 us with one CTA per row, and "
         "380, 453 and 506 us with four"},
    {.residual = true,
     .above_columns = kResidentWidth,
     .above_bytes = kSharedRow / 2 - 1,
     .streams = 2,
     .measured = "registers are as fast for all rows that they hold"},
};
constexpr int64_t kBlockVectors = 2;  // vectors per thread, for rows in blocks
constexpr RowConfig kSharers{.num_warps = 8, .vectors = kBlockVectors, .min_ctas_per_sm = 2};

std::optional<RowConfig> shared_rows(const Machine& machine, const RmsNormOptions& o) {
  const SharingRule& rule =
      *std::find_if(std::begin(kSharing), std::end(kSharing),
                    [&](const SharingRule& r) { return r.residual == o.residual; });
  if (o.cols <= rule.above_columns || o.cols * size_of(o.type) <= rule.above_bytes) return {};
  return rows_in_cluster(machine, o.type, o.cols, kSharers, rule.streams);
}

// Returns the schedule for tiles with whole rows of o.cols columns.
RmsNormForwardConfig whole_row_config(const Machine& machine, const RmsNormOptions& o) {
  const int64_t width = tile_width(o.cols), bytes = width * size_of(o.type);
  const VectorRule& vectors =
      *std::find_if(std::begin(kVectors), std::end(kVectors), [&](const VectorRule& rule) {
        return rule.least <= bytes && bytes <= rule.most && agrees(rule.residual, o.residual) &&
               agrees(rule.odd, (width & (width - 1)) != 0);
      });
  RmsNormForwardConfig config{whole_rows(machine, o.type, o.cols, vectors.vectors)};
  const int64_t held = config.held(o.type, o.cols);
  const bool light = !o.has_offset && (!o.has_weight || o.weight_type == o.type);
  const auto& resources =
      *std::find_if(std::begin(kResources), std::end(kResources), [&](const ResourceRule& rule) {
        return rule.least_warps <= config.num_warps && config.num_warps <= rule.most_warps &&
               rule.least_held <= held && held <= rule.most_held &&
               agrees(rule.residual, o.residual) && agrees(rule.light, light);
      });
  config.min_ctas_per_sm = resources.min_ctas_per_sm;
  config.early_weight = machine.is_gpu() && resources.early_weight;
  return config;
}

// Returns min_ctas_per_sm for ragged rows, or 0 for no minimum. Shifting the weight's vectors takes
// registers, so more CTAs per SM would cause spills.
int ragged_ctas(int num_warps, int64_t held) {
  if (num_warps < 8) return 0;
  if (num_warps == 8) return held <= 5 ? 3 : 2;
  return num_warps == 16 && held <= 2 ? 2 : 1;
}

RmsNormForwardConfig heuristic(const Machine& machine, const RmsNormOptions& o) {
  if (const auto shared = shared_rows(machine, o)) return {*shared};
  RmsNormOptions wider = o;
  wider.cols = tile_columns(machine, o.type, o.cols, whole_rows(machine, o.type, o.cols, 4));
  if (wider.cols > kResidentWidth) return {rows_in_blocks(o.type, kRowBlock, kBlockVectors)};
  RmsNormForwardConfig config = whole_row_config(machine, wider);
  if (wider.cols != o.cols)
    config.min_ctas_per_sm = ragged_ctas(config.num_warps, config.held(o.type, wider.cols));
  return config;
}

std::string valid(const Machine& machine, const RmsNormOptions& o,
                  const RmsNormForwardConfig& config) {
  if (config.early_weight && !config.whole())
    return "early_weight requires keep=registers; use early_weight=false";
  return refused(machine, o.type, tile_columns(machine, o.type, o.cols, config), config);
}

const char* name_of(const RmsNormOptions& o) {
  return o.residual ? fused_add_rms_norm_forward_kernel.name : rms_norm_forward_kernel.name;
}

Operation build(const Machine& machine, const RmsNormOptions& o,
                const RmsNormForwardConfig& config) {
  RmsNormMeta meta{o};
  meta.looped = !config.whole();
  meta.rows = config.rows;
  meta.block = config.columns(o.type, tile_columns(machine, o.type, o.cols, config));
  meta.aligned_blocks = has_aligned_blocks(machine, o.type, o.cols, config);
  meta.early_weight = config.early_weight;
  return operation_of(record_step(name_of(o), o.type, &rms_norm_forward, meta, config.launch(),
                                  schedule_of(config)));
}

Cost cost(const RmsNormOptions& o, int64_t rows) {
  const double row =
      static_cast<double>(o.cols * size_of(o.type)) * (o.residual ? 4 : 2) + (o.with_rstd ? 4 : 0);
  return {row * static_cast<double>(rows) +
          (o.has_weight ? static_cast<double>(o.cols * size_of(o.weight_type)) : 0)};
}

}  // namespace

const RmsNormForward rms_norm_forward_kernel{
    "rms_norm_forward", "RMSNorm of rows", &valid, &heuristic, &build, &cost};

const RmsNormForward fused_add_rms_norm_forward_kernel =
    fused_add<RmsNormOptions, RmsNormForwardConfig, rms_norm_forward_kernel>(
        "fused_add_rms_norm_forward", "residual sum and its RMSNorm");

Operation rms_norm_forward(const Machine& machine, const RmsNormOptions& options) {
  return options.residual ? fused_add_rms_norm_forward_kernel(machine, options)
                          : rms_norm_forward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
