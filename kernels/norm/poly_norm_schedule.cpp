#include <optional>

#include "kernels/core/record.h"
#include "kernels/norm/poly_norm.h"
#include "kernels/norm/rms_norm.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {
namespace {

// The forward uses each row twice, like RMSNorm without a weight. Its three reductions take longer
// than RMSNorm's one, so rows of 16-bit elements have more CTAs with fewer threads. On an H200, 256
// threads of four vectors are faster than 512 threads of two vectors.
constexpr int64_t kWidestOf256 = 28 * 1024;  // bytes
RowConfig heuristic_forward(const Machine& machine, const PolyNormOptions& o) {
  if (!machine.is_gpu() || size_of(o.type) != 2 || o.cols * size_of(o.type) > kWidestOf256)
    return rms_norm_forward_kernel.heuristic(machine,
                                             {.cols = o.cols, .type = o.type, .has_weight = false});
  RowConfig config = whole_rows(machine, o.type, o.cols, 4);
  if (config.num_warps == 8) config.min_ctas_per_sm = config.held(o.type, o.cols) <= 4 ? 4 : 3;
  return config;
}

// The backward reads two rows. They are in registers if a CTA of 1024 threads can hold both;
// otherwise a cluster shares them.
constexpr int64_t kWidestWhole = 32 * 1024;  // bytes
constexpr int64_t kVectors = 2;              // vectors per thread of each row

// Returns the minimum CTAs per SM. With 8 warps, 80 registers hold two vectors of each row; with
// more warps, 64 do, because a barrier ends the reductions earlier.
int floor_of(const RowConfig& config, int64_t held) {
  if (held > kVectors || config.num_warps < 8) return 0;
  return config.num_warps == 8 ? 3 : 32 / config.num_warps;
}

// Returns a schedule of the backward for 16-bit elements, or none if the default (two vectors per
// thread and row) is faster on an H200. By columns per row (narrower rows would spill):
//   4096          four vectors per thread, five CTAs per SM
//   up to 14336   blocks of one vector per thread, both rows in shared memory
//   more          blocks of two vectors per thread
std::optional<RowConfig> backward_of_short_elements(const Machine& machine,
                                                    const PolyNormOptions& o) {
  constexpr int64_t kHeld = 4096, kByFourWarps = 8192, kByVector = 14336, kCtas = 3;
  const int64_t width = tile_width(o.cols), rows = 2 * width * size_of(o.type);
  const program::GpuArch* arch = program::find_gpu_arch(machine.name);
  if (!arch || !arch->bulk_copies || kCtas * rows > machine.shared_for_rows()) return {};
  if (size_of(o.type) != 2 || width < kHeld) return {};
  if (width == kHeld) {
    RowConfig config = whole_rows(machine, o.type, o.cols, 2 * kVectors);
    config.min_ctas_per_sm = 5;
    return config;
  }
  const bool four = width <= kByFourWarps || width > kByVector;
  return RowConfig{
      .keep = Keep::shared, .num_warps = four ? 4 : 8, .vectors = width > kByVector ? 2 : 1};
}

PolyNormBackwardConfig heuristic_backward(const Machine& machine, const PolyNormOptions& o) {
  if (o.cols * size_of(o.type) <= kWidestWhole) {
    if (const auto found = backward_of_short_elements(machine, o)) return {*found};
    PolyNormBackwardConfig config{whole_rows(machine, o.type, o.cols, kVectors)};
    config.min_ctas_per_sm = floor_of(config, config.held(o.type, o.cols));
    return config;
  }
  // The loop carries four column sums. For them, one vector of 16-bit elements needs the registers
  // of two vectors of f32.
  const int64_t vectors = machine.is_gpu() && size_of(o.type) == 2 ? 1 : 2;
  const RowConfig sharers{
      .num_warps = 8, .vectors = static_cast<int>(vectors), .min_ctas_per_sm = 2};
  if (const auto shared = rows_in_cluster(machine, o.type, o.cols, sharers, 2)) return {*shared};
  return {rows_in_blocks(o.type, kRowBlock, vectors)};
}

std::string valid_forward(const Machine& machine, const PolyNormOptions& o,
                          const RowConfig& config) {
  return refused(machine, o.type, o.cols, config);
}

std::string valid_backward(const Machine& machine, const PolyNormOptions& o,
                           const PolyNormBackwardConfig& config) {
  return refused(machine, o.type, o.cols, config);
}

PolyNormMeta meta_of(const PolyNormOptions& o, const RowConfig& config) {
  PolyNormMeta meta{o};
  meta.looped = !config.whole();
  meta.rows = config.rows;
  meta.block = config.columns(o.type, o.cols);
  return meta;
}

Operation build_forward(const Machine&, const PolyNormOptions& o, const RowConfig& config) {
  return operation_of(record_step(poly_norm_forward_kernel.name, o.type, &poly_norm_forward,
                                  meta_of(o, config), config.launch(), schedule_of(config)));
}

// One program reduces all partials. On a GPU it is the largest CTA, with four partials per thread.
Step reduce_step(const Machine& machine, const PolyNormOptions& o) {
  PolyNormMeta meta{o};
  meta.rows = machine.is_gpu() ? 4096 : 256;
  return record_step("poly_norm_reduce", o.d_weight_type, &poly_norm_reduce, meta,
                     library_launch(1, 32));
}

Operation build_backward(const Machine& machine, const PolyNormOptions& o,
                         const PolyNormBackwardConfig& config) {
  Operation op =
      operation_of(record_step(poly_norm_backward_kernel.name, o.type, &poly_norm_backward,
                               meta_of(o, config), config.launch(), schedule_of(config)));
  if (!o.want_sums()) return op;
  op.steps.push_back(reduce_step(machine, o));
  op.workspace.push_back(
      {.name = "partials", .dtype = f32, .shape = {ceil_div(Size::rows(), config.rows), 4}});
  return op;
}

// `arrays`: number of arrays of rows that the kernel reads or writes.
template <int arrays>
Cost cost(const PolyNormOptions& o, int64_t rows) {
  const int64_t statistics = arrays == 2 && !o.with_rstd ? 0 : 3 * size_of(f32);
  return {static_cast<double>(arrays * o.cols * size_of(o.type) + statistics) *
          static_cast<double>(rows)};
}

}  // namespace

const PolyNormForward poly_norm_forward_kernel{"poly_norm_forward", "PolyNorm of rows",
                                               &valid_forward,      &heuristic_forward,
                                               &build_forward,      &cost<2>};
const PolyNormBackward poly_norm_backward_kernel{"poly_norm_backward", "gradient of PolyNorm",
                                                 &valid_backward,      &heuristic_backward,
                                                 &build_backward,      &cost<3>};

Operation poly_norm_forward(const Machine& machine, const PolyNormOptions& options) {
  return poly_norm_forward_kernel(machine, options);
}

Operation poly_norm_backward(const Machine& machine, const PolyNormOptions& options) {
  return poly_norm_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
