#include "kernels/elementwise_config.h"

#include <algorithm>

#include "kernels/record.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kMostHeld = 16;  // vectors of a thread, of each array

// Vectors of a thread for kernels that take as long to compute as to read and write: on an H200, 16384x14336 in bf16,
// GELU's erf form takes 220 us with four and 254 with one, dropout 233 and 259. Of f32 a vector is half the work.
int work_vectors(const Machine& machine, DType type) {
  return machine.is_gpu() && size_of(type) == 2 ? 4 : 1;
}

// A flat array is rows of as many elements as nobody asks for.
constexpr int64_t kFlat = kResidentWidth;

std::string refused_flat(DType type, const ElementwiseConfig& config) {
  if (config.rows != 1 || config.vectors == 0) return "the array is flat; use rows=1 and vectors of 1 or more";
  return refused(type, kFlat, config);
}

std::string valid_add(const Machine&, const VectorAddOptions& o, const ElementwiseConfig& config) {
  return refused_flat(o.type, config);
}

ElementwiseConfig heuristic_add(const Machine& machine, const VectorAddOptions& o) {
  return elementwise_config(machine, o.type, kFlat);
}

Operation add(const Machine&, const VectorAddOptions& o, const ElementwiseConfig& config) {
  const VectorAddMeta meta{.type = o.type, .block = config.columns(o.type, kFlat)};
  return {.steps = {record_step(vector_add_kernel.name, o.type, &vector_add, meta,
                                library_launch(ceil_div(Size::rows(), meta.block), config.num_warps))}};
}

Cost cost_of_add(const VectorAddOptions& o, int64_t elements) {
  return {3.0 * static_cast<double>(elements) * size_of(o.type)};
}

std::string valid_step(const Machine&, const AdamwOptions&, const ElementwiseConfig& config) {
  return refused_flat(f32, config);
}

// Vectors are those of the moments, four f32. Two of them are eight elements, which are one vector of a 16-bit parameter, gradient or copy.
ElementwiseConfig heuristic_step(const Machine& machine, const AdamwOptions& o) {
  const bool narrow =
      size_of(o.type) == 2 || size_of(o.gradient_type) == 2 || (o.with_copy && size_of(o.copy_type) == 2);
  return {.rows = 1, .num_warps = 8, .vectors = !machine.is_gpu() ? 4 : narrow ? 2 : 1};
}

Operation step(const Machine&, const AdamwOptions& o, const ElementwiseConfig& config) {
  AdamwMeta meta{o};
  meta.block = config.columns(f32, kFlat);
  return {.steps = {record_step(adamw_kernel.name, o.type, &adamw, meta,
                                library_launch(ceil_div(Size::rows(), meta.block), config.num_warps))}};
}

// The gradient and what is updated: the parameter and two moments.
Cost cost_of_step(const AdamwOptions& o, int64_t elements) {
  const int each =
      size_of(o.gradient_type) + 2 * (size_of(o.type) + 2 * size_of(f32)) + (o.with_copy ? size_of(o.copy_type) : 0);
  return {static_cast<double>(elements) * each};
}

// Of rows.
template <class Options>
std::string valid(const Machine&, const Options& o, const ElementwiseConfig& config) {
  return refused(o.type, o.cols, config);
}

template <int arrays, class Options>
ElementwiseConfig heuristic(const Machine& machine, const Options& o) {
  return elementwise_config(machine, o.type, o.cols, {.arrays = arrays});
}

// Of so many arrays of rows.
template <int arrays, class Options>
Cost cost(const Options& o, int64_t rows) {
  return {static_cast<double>(arrays * o.cols * size_of(o.type)) * static_cast<double>(rows)};
}

template <int arrays>
ElementwiseConfig heuristic_activation(const Machine& machine, const ActivationOptions& o) {
  const bool much = o.kind == Activation::gelu_erf;
  return elementwise_config(machine, o.type, o.cols,
                            {.arrays = arrays, .vectors = much ? work_vectors(machine, o.type) : 1});
}

// One step whose programs own a tile each; meta: all but the tile.
template <class Meta>
Operation by_tile(const std::string& name, void (*program)(KernelBuilder&, const Meta&), Meta meta,
                  const TileShape& tile) {
  meta.rows = tile.rows;
  meta.block = tile.cols;
  return {.steps = {record_step(name, meta.type, program, meta, elementwise_launch(tile, meta.cols))}};
}

template <class Meta>
Operation by_tiles(const std::string& name, void (*program)(KernelBuilder&, const Meta&), const Meta& meta,
                   const ElementwiseConfig& config) {
  return by_tile(name, program, meta, config.tile(meta.type, meta.cols));
}

Operation scale(const Machine&, const ScaleRowsOptions& o, const ElementwiseConfig& config) {
  return by_tiles(scale_rows_kernel.name, &scale_rows, ScaleRowsMeta{o}, config);
}

Operation bias_add(const Machine&, const BiasAddOptions& o, const ElementwiseConfig& config) {
  return by_tiles(bias_add_forward_kernel.name, &bias_add_forward, BiasAddMeta{o}, config);
}

// tanh keeps a thread as busy as GELU's erf form does. Tiles of a few columns load weight and bias once for their rows:
// on an H200 16384x4096 of bf16 takes 67 us, 70 in tiles of one row.
ElementwiseConfig heuristic_dyt(const Machine& machine, const DytOptions& o) {
  if (machine.is_gpu() && size_of(o.type) == 2 && o.cols >= 256) return {.rows = 16, .num_warps = 2, .vectors = 4};
  return elementwise_config(machine, o.type, o.cols, {.arrays = 2, .vectors = work_vectors(machine, o.type)});
}

Operation dyt(const Machine&, const DytOptions& o, const ElementwiseConfig& config) {
  return by_tiles(dyt_forward_kernel.name, &dyt_forward, DytMeta{o}, config);
}

template <const ActivationKernel& kernel, void (*program)(KernelBuilder&, const ActivationMeta&)>
Operation activation(const Machine&, const ActivationOptions& o, const ElementwiseConfig& config) {
  return by_tiles(kernel.name, program, ActivationMeta{o}, config);
}

ElementwiseConfig heuristic_dropout(const Machine& machine, const DropoutOptions& o) {
  return elementwise_config(machine, o.type, o.cols,
                            {.arrays = o.add ? 3 : 2, .vectors = work_vectors(machine, o.type)});
}

std::string valid_dropout(const Machine&, const DropoutOptions& o, const ElementwiseConfig& config) {
  const int64_t width = config.columns(o.type, o.cols);
  if (config.vectors > 0 && width % 4 != 0)
    return "a block of " + std::to_string(width) +
           " columns, and random words come in fours; use a power of two of vectors, or fewer rows";
  return refused(o.type, o.cols, config);
}

// Words come in fours: rows of one or two elements have tiles of four.
template <const DropoutKernel& kernel, void (*program)(KernelBuilder&, const DropoutMeta&)>
Operation dropout(const Machine&, const DropoutOptions& o, const ElementwiseConfig& config) {
  DropoutMeta meta{o};
  TileShape tile = config.tile(o.type, o.cols);
  tile.cols = std::max<int64_t>(tile.cols, 4);
  return by_tile(kernel.name, program, meta, tile);
}

Cost cost_of_dropout(const DropoutOptions& o, int64_t rows) {
  return o.add ? cost<3>(o, rows) : cost<2>(o, rows);
}

Cost cost_of_gradient(const ActivationOptions& o, int64_t rows) {
  return o.accumulate ? cost<4>(o, rows) : cost<3>(o, rows);
}

template <const GatedKernel& kernel, Activation activation, void (*program)(KernelBuilder&, const GatedMeta&)>
Operation gated(const Machine&, const GatedOptions& o, const ElementwiseConfig& config) {
  GatedMeta meta{o};
  meta.activation = activation;
  return by_tiles(kernel.name, program, meta, config);
}

}  // namespace

ElementwiseConfig elementwise_config(const Machine& machine, DType type, int64_t cols, ElementwiseWork work) {
  const TileShape tile = elementwise_tile(machine, type, cols, work);
  const bool whole = tile.cols == tile_width(cols);
  const int64_t held = tile.rows * tile.cols / (program::kWarpThreads * tile.num_warps * vector_width(type));
  return {
      .rows = static_cast<int>(tile.rows), .num_warps = tile.num_warps, .vectors = whole ? 0 : static_cast<int>(held)};
}

std::string refused(DType type, int64_t cols, const ElementwiseConfig& config) {
  const int64_t width = config.columns(type, cols), threads = program::kWarpThreads * config.num_warps;
  if (config.vectors > 0 && width < vector_width(type))
    return "a block of less than a vector; use fewer rows, more vectors or warps, or vectors=0";
  if (config.vectors > 0 && width >= tile_width(cols))
    return "a block of " + std::to_string(width) +
           " columns holds whole rows; use fewer vectors or warps, or vectors=0";
  const int64_t vectors = config.rows * width / vector_width(type);
  if (config.num_warps > 1 && vectors < threads)
    return "a tile of " + std::to_string(vectors) + " vectors leaves threads without one; use fewer warps or more rows";
  if (vectors > kMostHeld * threads)
    return "a thread would hold " + std::to_string(vectors / threads) + " vectors of each array, at most " +
           std::to_string(kMostHeld) + " are possible; use more warps, fewer rows, or blocks (vectors of 1 or more)";
  return "";
}

const VectorAdd vector_add_kernel{"vector_add", "out = a + b", &valid_add, &heuristic_add, &add, &cost_of_add};
const Adamw adamw_kernel{"adamw", "one AdamW step on a tensor", &valid_step, &heuristic_step, &step, &cost_of_step};
const ScaleRows scale_rows_kernel{"scale_rows",
                                  "rows times a factor read on the device",
                                  &valid<ScaleRowsOptions>,
                                  &heuristic<2, ScaleRowsOptions>,
                                  &scale,
                                  &cost<2, ScaleRowsOptions>};

const BiasAddForward bias_add_forward_kernel{
    "bias_add_forward", "rows plus a bias",      &valid<BiasAddOptions>, &heuristic<2, BiasAddOptions>,
    &bias_add,          &cost<2, BiasAddOptions>};

const DytForward dyt_forward_kernel{"dyt_forward", "DyT: dynamic tanh of rows", &valid<DytOptions>, &heuristic_dyt,
                                    &dyt,          &cost<2, DytOptions>};

const ActivationKernel activation_forward_kernel{"activation_forward",
                                                 "GELU, SiLU, ReLU or ReLU squared",
                                                 &valid<ActivationOptions>,
                                                 &heuristic_activation<2>,
                                                 &activation<activation_forward_kernel, &activation_forward>,
                                                 &cost<2, ActivationOptions>};
const ActivationKernel activation_backward_kernel{"activation_backward",
                                                  "gradient of activation_forward",
                                                  &valid<ActivationOptions>,
                                                  &heuristic_activation<3>,
                                                  &activation<activation_backward_kernel, &activation_backward>,
                                                  &cost_of_gradient};

const DropoutKernel dropout_forward_kernel{"dropout_forward",
                                           "dropout, with a residual added",
                                           &valid_dropout,
                                           &heuristic_dropout,
                                           &dropout<dropout_forward_kernel, &dropout_forward>,
                                           &cost_of_dropout};
const DropoutKernel dropout_backward_kernel{"dropout_backward",
                                            "gradient of dropout_forward",
                                            &valid_dropout,
                                            &heuristic_dropout,
                                            &dropout<dropout_backward_kernel, &dropout_backward>,
                                            &cost_of_dropout};

const GatedKernel swiglu_forward_kernel{"swiglu_forward",
                                        "silu(gate) * up",
                                        &valid<GatedOptions>,
                                        &heuristic<3, GatedOptions>,
                                        &gated<swiglu_forward_kernel, Activation::silu, &gated_forward>,
                                        &cost<3, GatedOptions>};
const GatedKernel swiglu_backward_kernel{"swiglu_backward",
                                         "gradient of swiglu",
                                         &valid<GatedOptions>,
                                         &heuristic<5, GatedOptions>,
                                         &gated<swiglu_backward_kernel, Activation::silu, &gated_backward>,
                                         &cost<5, GatedOptions>};
const GatedKernel geglu_forward_kernel{"geglu_forward",
                                       "gelu(gate) * up, tanh form",
                                       &valid<GatedOptions>,
                                       &heuristic<3, GatedOptions>,
                                       &gated<geglu_forward_kernel, Activation::gelu_tanh, &gated_forward>,
                                       &cost<3, GatedOptions>};
const GatedKernel geglu_backward_kernel{"geglu_backward",
                                        "gradient of geglu",
                                        &valid<GatedOptions>,
                                        &heuristic<5, GatedOptions>,
                                        &gated<geglu_backward_kernel, Activation::gelu_tanh, &gated_backward>,
                                        &cost<5, GatedOptions>};

Operation vector_add(const Machine& machine, DType type) {
  return vector_add_kernel(machine, {type});
}

Operation adamw(const Machine& machine, const AdamwOptions& options) {
  return adamw_kernel(machine, options);
}

Operation scale_rows(const Machine& machine, const ScaleRowsOptions& options) {
  return scale_rows_kernel(machine, options);
}

Operation bias_add_forward(const Machine& machine, const BiasAddOptions& options) {
  return bias_add_forward_kernel(machine, options);
}

Operation dyt_forward(const Machine& machine, const DytOptions& options) {
  return dyt_forward_kernel(machine, options);
}

Operation activation_forward(const Machine& machine, const ActivationOptions& options) {
  return activation_forward_kernel(machine, options);
}

Operation activation_backward(const Machine& machine, const ActivationOptions& options) {
  return activation_backward_kernel(machine, options);
}

Operation dropout_forward(const Machine& machine, const DropoutOptions& options) {
  return dropout_forward_kernel(machine, options);
}

Operation dropout_backward(const Machine& machine, const DropoutOptions& options) {
  return dropout_backward_kernel(machine, options);
}

Operation swiglu_forward(const Machine& machine, const GatedOptions& options) {
  return swiglu_forward_kernel(machine, options);
}

Operation swiglu_backward(const Machine& machine, const GatedOptions& options) {
  return swiglu_backward_kernel(machine, options);
}

Operation geglu_forward(const Machine& machine, const GatedOptions& options) {
  return geglu_forward_kernel(machine, options);
}

Operation geglu_backward(const Machine& machine, const GatedOptions& options) {
  return geglu_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
