#include "kernels/core/record.h"
#include "kernels/softmax/softmax.h"

namespace ligerdsl::kernels {
namespace {

// Most columns of a row that one tile holds.
constexpr int64_t kWidest = kResidentWidth / 2;

// `vectors`: 16-byte vectors per thread and row. The backward has 2, because it reads two rows; the
// forward has 4.
template <int vectors>
RowConfig heuristic(const Machine& machine, const SoftmaxOptions& o) {
  return o.cols > kWidest ? rows_in_blocks(o.type, kRowBlock, vectors)
                          : whole_rows(machine, o.type, o.cols, vectors);
}

std::string valid(const Machine& machine, const SoftmaxOptions& o, const RowConfig& config) {
  if (config.keep == Keep::cluster) return "softmax does not support keep=cluster; use keep=shared";
  if (const std::string reason = refused_lanes(config); !reason.empty()) return reason;
  return refused(machine, o.type, o.cols, config);
}

Operation operation(const Machine& machine, const SoftmaxOptions& o, const RowConfig& config,
                    const char* name, void (*program)(KernelBuilder&, const SoftmaxMeta&)) {
  SoftmaxMeta meta{o};
  meta.looped = !config.whole();
  meta.rows = config.rows;
  meta.block = config.columns(o.type, o.cols);
  if (meta.looped)
    meta.lanes = block_lanes(machine, o.type, meta.block, config.num_warps, config.num_ctas,
                             o.cols % vector_width(o.type) == 0);
  return {.steps = {record_step(name, o.type, program, meta, config.launch())}};
}

Operation forward(const Machine& machine, const SoftmaxOptions& o, const RowConfig& config) {
  return operation(machine, o, config, softmax_forward_kernel.name, &softmax_forward);
}

Operation backward(const Machine& machine, const SoftmaxOptions& o, const RowConfig& config) {
  return operation(machine, o, config, softmax_backward_kernel.name, &softmax_backward);
}

// `arrays`: number of arrays of rows that the kernel reads or writes.
template <int arrays>
Cost cost(const SoftmaxOptions& o, int64_t rows) {
  return {static_cast<double>(arrays * o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

}  // namespace

const SoftmaxKernel softmax_forward_kernel{"softmax_forward",
                                           "softmax of rows, with a scale and a causal mask",
                                           &valid,
                                           &heuristic<4>,
                                           &forward,
                                           &cost<2>};
const SoftmaxKernel softmax_backward_kernel{
    "softmax_backward", "gradient of softmax", &valid, &heuristic<2>, &backward, &cost<3>};

Operation softmax_forward(const Machine& machine, const SoftmaxOptions& options) {
  return softmax_forward_kernel(machine, options);
}

Operation softmax_backward(const Machine& machine, const SoftmaxOptions& options) {
  return softmax_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
