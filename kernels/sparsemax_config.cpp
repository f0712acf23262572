#include "kernels/sparsemax_config.h"

#include <algorithm>

#include "kernels/record.h"

namespace ligerdsl::kernels {
namespace {

// Warps of the CTAs that share a row.
constexpr int kSharingWarps = 16;

// Rows that one CTA's registers do not hold, by as many CTAs as do, each thread with about so many elements.
RowConfig wide_rows(const Machine& machine, const SparsemaxOptions& o, int64_t vectors, int64_t elements) {
  if (machine.is_gpu()) {
    const int64_t part = program::kWarpThreads * kSharingWarps * elements;
    RowConfig config{.num_warps = kSharingWarps, .num_ctas = 2};
    while (config.num_ctas < machine.max_cluster && part * config.num_ctas < o.cols) config.num_ctas *= 2;
    if (config.num_ctas <= machine.max_cluster && part * config.num_ctas >= o.cols) return config;
  }
  return rows_in_blocks(o.type, kRowBlock, vectors);
}

// `widest`: the row that a CTA holds of all arrays together.
RowConfig heuristic(const Machine& machine, const SparsemaxOptions& o, int64_t vectors, int64_t widest) {
  if (o.cols > widest) return wide_rows(machine, o, vectors, widest / 1024);
  return whole_rows(machine, o.type, o.cols, vectors);
}

RowConfig forward_heuristic(const Machine& machine, const SparsemaxOptions& o) {
  return heuristic(machine, o, 4, kResidentWidth);
}

RowConfig backward_heuristic(const Machine& machine, const SparsemaxOptions& o) {
  return heuristic(machine, o, 2, kResidentWidth / 2);
}

std::string valid(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  if (config.keep == Keep::cluster)
    return "sparsemax has whole rows in the registers of a cluster; use keep=registers and num_ctas";
  if (const std::string reason = refused_lanes(config); !reason.empty()) return reason;
  if (!config.whole() || config.num_ctas == 1) return refused(machine, o.type, o.cols, config);
  if (machine.max_cluster < config.num_ctas)
    return std::string(machine.name) + " has clusters of at most " + std::to_string(machine.max_cluster) + " CTAs";
  if (config.rows != 1) return "a cluster has a tile of one row; use rows=1, or num_ctas=1";
  RowConfig one = config;  // CTA with the threads of all
  one.num_warps *= config.num_ctas;
  one.num_ctas = 1;
  return refused(machine, o.type, o.cols, one);
}

Operation operation(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config, const char* name,
                    void (*program)(KernelBuilder&, const SparsemaxMeta&)) {
  SparsemaxMeta meta{o};
  meta.looped = !config.whole();
  meta.rows = config.rows;
  meta.block = config.columns(o.type, o.cols);
  if (config.rows == 1)
    meta.lanes =
        block_lanes(machine, o.type, meta.block, config.num_warps, config.num_ctas, o.cols % vector_width(o.type) == 0);
  return operation_of(record_step(name, o.type, program, meta, config.launch()));
}

Operation forward(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  return operation(machine, o, config, sparsemax_forward_kernel.name, &sparsemax_forward);
}

Operation backward(const Machine& machine, const SparsemaxOptions& o, const RowConfig& config) {
  return operation(machine, o, config, sparsemax_backward_kernel.name, &sparsemax_backward);
}

// Of so many arrays of rows.
template <int arrays>
Cost cost(const SparsemaxOptions& o, int64_t rows) {
  return {static_cast<double>(arrays * o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

}  // namespace

const SparsemaxKernel sparsemax_forward_kernel{
    "sparsemax_forward", "sparsemax of rows", &valid, &forward_heuristic, &forward, &cost<2>};
const SparsemaxKernel sparsemax_backward_kernel{
    "sparsemax_backward", "gradient of sparsemax", &valid, &backward_heuristic, &backward, &cost<3>};

Operation sparsemax_forward(const Machine& machine, const SparsemaxOptions& options) {
  return sparsemax_forward_kernel(machine, options);
}

Operation sparsemax_backward(const Machine& machine, const SparsemaxOptions& options) {
  return sparsemax_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
