#include "lib/abi/kernel_matmul.h"

#include <algorithm>
#include <array>
#include <string>

#include "lib/abi/failure.h"
#include "op_table.h"
#include "runtime/environment/log.h"
#include "runtime/environment/options.h"

namespace ligerdsl::lib {

namespace {

// Cost of a tile that does not depend on its width, as a number of columns: prologue, epilogue, and
// loads of A.
constexpr int64_t kColumnsOfTile = 32;

using runtime::Matrix;
using runtime::Product;

enum View : int { kA, kB, kC, kRowScale, kOuterRows, kOuterCols, kPlaces, kDepth, kLabels, kViews };

void set_optional(const KernelMatmul::OptionalViews& optional,
                  std::array<BoundTensor, kViews>* views) {
  if (optional.row_scale) (*views)[kRowScale] = *optional.row_scale;
  if (optional.outer_rows)
    (*views)[kOuterRows] = *optional.outer_rows, (*views)[kOuterCols] = *optional.outer_cols;
  if (optional.places) (*views)[kPlaces] = *optional.places;
  if (optional.depth) (*views)[kDepth] = *optional.depth;
  if (optional.labels) (*views)[kLabels] = *optional.labels;
}

kernels::Transposes transposes_of(Product product) {
  switch (product) {
    case Product::nn:
      return kernels::Transposes::nn;
    case Product::nt:
      return kernels::Transposes::nt;
    case Product::tn:
      return kernels::Transposes::tn;
  }
  return kernels::Transposes::nn;
}

BoundTensor bound(const Matrix& m) {
  return {.data = static_cast<std::byte*>(m.data),
          .dims = {m.rows, m.cols},
          .strides = {m.stride, 1},
          .rank = 2,
          .dtype = m.type,
          .present = true};
}

std::array<BoundTensor, kViews> views_of(const Matrix& a, const Matrix& b, const Matrix& c) {
  std::array<BoundTensor, kViews> views = {};
  views[kA] = bound(a), views[kB] = bound(b), views[kC] = bound(c);
  return views;
}

kernels::MatmulOptions options_of(const ProductKind& kind, int64_t most_rows) {
  return {.transposes = transposes_of(kind.product),
          .cols = kind.cols,
          .width = kind.width,
          .type = kind.type,
          .c_type = kind.result,
          .row_scale = kind.row_scale,
          .adds = kind.adds,
          .unit_beta = true,
          .outer = kind.outer,
          .most_rows = most_rows,
          .in_blocks = kind.in_blocks,
          .row_tiles = kind.tile_rows > 0 && kind.product != Product::tn,
          .some_depth = kind.tile_rows > 0 && kind.product == Product::tn,
          .ignores_rows = kind.ignores_rows,
          .label_type = kind.label_type};
}

bool are_vectors(DType type, std::span<const int64_t> widths) {
  return std::ranges::all_of(widths,
                             [&](int64_t width) { return width % vector_width(type) == 0; });
}

// Returns true if the user set the path of the matrix library, which must then be used.
bool library_is_named(const Context& context) {
  const runtime::Options& options = runtime::options();
  return !(context.machine().is_gpu() ? options.libcublaslt : options.libcblas).empty();
}

}  // namespace

std::vector<ProductKind> head_products(const HeadProducts& h) {
  const DType type = h.product_type;
  const ProductKind d_x{.product = Product::nn,
                        .type = type,
                        .row_scale = h.row_scale,
                        .tile_rows = h.tile_rows,
                        .cols = h.cols,
                        .width = h.classes},
      d_weight{.product = Product::tn,
               .type = type,
               .tile_rows = h.tile_rows,
               .cols = h.cols,
               .width = h.classes};
  std::vector<ProductKind> kinds;
  if (h.logits)
    kinds.push_back({.product = Product::nt,
                     .type = type,
                     .result = h.logits_type,
                     .pads = true,
                     .cols = h.classes,
                     .width = h.cols});
  const auto add = [&](ProductKind kind, DType result, bool adds, bool outer) {
    kind.result = result;
    kind.adds = adds;
    kind.outer = outer;
    kinds.push_back(kind);
  };
  if (h.with_d_x && h.type == type) add(d_x, type, false, h.outer);
  if (h.with_d_x && h.in_blocks) {
    add(d_x, type, true, false);
    kinds.back().in_blocks = true;
  }
  for (const bool adds : {false, true})
    if (h.with_d_x && h.adds_up_d_x)
      add(d_x, f32, adds, h.outer && !adds);  // the first matmul adds the outer product
  if (!h.with_d_weight) return kinds;
  for (const bool outer : {false, true}) {
    if (outer ? !h.outer : h.outer && !h.by_vocabulary) continue;
    if (h.d_weight_type == type && type != f32) add(d_weight, type, false, outer);
    for (const bool adds : {false, true}) add(d_weight, f32, adds, outer);
    if (h.in_blocks && h.d_weight_type != f32 && !outer)
      add(d_weight, h.d_weight_type, true, false);
  }
  if (h.tile_rows == 0 || !h.by_vocabulary || h.type != type) return kinds;
  ProductKind ignoring = d_weight;
  ignoring.ignores_rows = true, ignoring.label_type = h.label_type,
  ignoring.ignore_index = h.ignore_index;
  ignoring.result = f32, ignoring.adds = true;
  kinds.push_back(ignoring);
  ignoring.result = type;
  if (h.d_weight_type == type && type != f32) kinds.push_back(ignoring);
  return kinds;
}

KernelMatmul::KernelMatmul(Context& context, const std::vector<ProductKind>& kinds)
    : tiles_at_once_(std::max<int64_t>(context.machine().sms, 1)) {
  const kernels::Machine machine = context.machine();
  for (const ProductKind& kind : kinds) {
    const kernels::MatmulOptions many = options_of(kind, 0);
    add_kernel(context, kind, many);
    if (kind.product != Product::nn || !machine.is_gpu()) continue;
    // If a chunk has few rows, large tiles leave SMs idle. A second kernel has narrower tiles.
    const std::vector<int64_t> most_rows = kernels::few_rows(machine, many);
    if (most_rows.empty()) continue;
    const kernels::MatmulOptions few = options_of(kind, most_rows.back());
    if (kernels::one_cta_product(machine, few).tile_n < kernels_.back().config.tile_n)
      add_kernel(context, kind, few);
  }
}

void KernelMatmul::add_kernel(Context& context, const ProductKind& kind,
                              const kernels::MatmulOptions& options) {
  kernels::MatmulConfig config = kernels::one_cta_product(context.machine(), options);
  config.splits = 1;
  // Persistent kernels make fused lm_heads slower, except those that accumulate in memory while
  // they multiply the next tile (docs/design/decisions/012).
  config.persistent = config.persistent && config.adds_in_memory;
  if (options.ignores_rows) {  // usually does nothing; few persistent programs then end fastest
    config.tensor_copies = config.tensor_stores = false;
    config.persistent = context.machine().is_gpu();
  }
  if ((options.row_tiles && config.tile_m != kind.tile_rows) ||
      (options.some_depth && kind.tile_rows % config.tile_k))
    fail(Status::internal_error,
         "a matmul whose tiles can be skipped: expected " +
             (options.row_tiles ? "tiles of " + std::to_string(kind.tile_rows) + " rows, got " +
                                      std::to_string(config.tile_m)
                                : "a k-step that divides " + std::to_string(kind.tile_rows) +
                                      " rows, got " + std::to_string(config.tile_k)));
  kernels_.push_back({kind, config,
                      std::make_unique<KernelStep>(
                          context, kernels::matmul_of_any_size(context.machine(), options, config),
                          StepNames{.views = {{"a", kA},
                                              {"b", kB},
                                              {"c", kC},
                                              {"row_scale", kRowScale},
                                              {"outer_rows", kOuterRows},
                                              {"outer_cols", kOuterCols},
                                              {"places", kPlaces},
                                              {"depth", kDepth},
                                              {"labels", kLabels}},
                                    .numbers = {{"block_shift", 0}},
                                    .integers = {{"ignore_index", kind.ignore_index}}})});
}

void KernelMatmul::add_launchers(std::vector<const Launcher*>* all) const {
  for (const Kernel& kernel : kernels_) all->push_back(kernel.step->launcher());
}

const KernelMatmul::Kernel& KernelMatmul::kernel_for(Product product, DType type, const Matrix& c,
                                                     bool adds, const OptionalViews& optional,
                                                     bool in_blocks) const {
  const auto fits = [&](const Kernel& kernel) {
    const ProductKind& kind = kernel.kind;
    return kind.product == product && kind.type == type && kind.result == c.type &&
           kind.adds == adds && kind.in_blocks == in_blocks &&
           kind.ignores_rows == (optional.labels != nullptr) &&
           kind.row_scale == (optional.row_scale != nullptr) &&
           kind.outer == (optional.outer_rows != nullptr) &&
           (kind.tile_rows > 0) == (optional.places != nullptr || optional.depth != nullptr);
  };
  const Kernel* best = nullptr;
  for (const Kernel& kernel : kernels_)
    if (fits(kernel) && (!best || time_of(kernel, c) < time_of(*best, c))) best = &kernel;
  if (!best)
    fail(Status::internal_error, std::string("the plan has no kernel for a matmul of ") +
                                     name(type) + " operands into " + name(c.type) +
                                     " with these options");
  return *best;
}

// Returns the estimated time, as the number of elements of c that one SM computes one after the
// other.
int64_t KernelMatmul::time_of(const Kernel& kernel, const Matrix& c) const {
  const kernels::MatmulConfig& config = kernel.config;
  const int64_t tiles = kernels::matmul_tiles(config, c.rows, c.cols);
  return kernels::ceil_div(tiles, tiles_at_once_) * config.tile_m *
         (config.tile_n + kColumnsOfTile);
}

void KernelMatmul::run(Product product, const Sizes& sizes, const Matrix& a, const Matrix& b,
                       float beta, const Matrix& c, void*, runtime::Stream stream) {
  if (beta != 0 && beta != 1)
    fail(Status::internal_error,
         "a matmul by the library's kernels: expected beta 0 or 1, got " + std::to_string(beta));
  const Kernel& kernel = kernel_for(product, a.type, c, beta != 0, {});
  std::array<BoundTensor, kViews> views = views_of(a, b, c);
  // The faster variant of the kernel requires rows of c to be whole vectors, so c gets padding
  // columns. The kernel writes zeros to them.
  int64_t& cols = views[kC].dims[1];
  if (kernel.kind.pads) cols = std::min(kernels::round_up(cols, vector_width(c.type)), c.stride);
  kernel.step->run(views.data(), nullptr, kernels::matmul_tiles(kernel.config, sizes.m, cols),
                   stream);
}

void KernelMatmul::multiply_with(Product product, const Matrix& a, const Matrix& b,
                                 const OptionalViews& optional, bool add, const Matrix& c,
                                 runtime::Stream stream) const {
  const Kernel& kernel = kernel_for(product, a.type, c, add, optional);
  std::array<BoundTensor, kViews> views = views_of(a, b, c);
  set_optional(optional, &views);
  kernel.step->run(views.data(), nullptr, kernels::matmul_tiles(kernel.config, c.rows, c.cols),
                   stream);
}

void KernelMatmul::add_blocks(const BoundTensor& a, int64_t block_shift, const Matrix& b,
                              const OptionalViews& optional, const Matrix& c,
                              runtime::Stream stream) const {
  const Kernel& kernel = kernel_for(Product::nn, b.type, c, true, optional, true);
  std::array<BoundTensor, kViews> views = {};
  views[kA] = a, views[kB] = bound(b), views[kC] = bound(c);
  set_optional(optional, &views);
  kernel.step->run(views.data(), &block_shift, kernels::matmul_tiles(kernel.config, c.rows, c.cols),
                   stream);
}

bool own_products_are_faster(const kernels::Machine& machine, DType type, int64_t classes,
                             std::span<const int64_t> widths) {
  return kernels::has_fast_products(machine, type) && classes % vector_width(type) != 0 &&
         are_vectors(type, widths);
}

bool need_aligned_copies(const kernels::Machine& machine, DType type, int32_t choice,
                         std::span<const int64_t> widths) {
  return choice != LIGERDSL_PRODUCTS_LIBRARY && kernels::has_fast_products(machine, type) &&
         !are_vectors(type, widths);
}

Products products_of(Context& context, int32_t choice, const std::vector<ProductKind>& kinds) {
  if (choice != LIGERDSL_PRODUCTS_KERNELS) try {
      return {context.matmul(), nullptr};
    } catch (const runtime::Error& error) {
      if (choice == LIGERDSL_PRODUCTS_LIBRARY || error.status() != Status::not_supported ||
          library_is_named(context))
        throw;
      runtime::log_once(
          runtime::LogLevel::warning, "products",
          std::string("fused linear losses use the library's own matmuls instead of a matrix "
                      "library: ") +
              error.what());
    }
  const auto made = std::make_shared<KernelMatmul>(context, kinds);
  return {made, made};
}

}  // namespace ligerdsl::lib
