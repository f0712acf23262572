// The plan of fused linear cross-entropy: choice of its matmuls, workspace, preparation.
#include <algorithm>

#include "kernels/cross_entropy/cross_entropy.h"
#include "lib/abi/fused_linear/fused_linear_cross_entropy_plan.h"
#include "lib/abi/fused_linear/gradients_from_lse.h"
#include "lib/abi/fused_linear/report.h"

namespace ligerdsl::lib::head {

namespace {

namespace op = fused_linear_cross_entropy;
using runtime::Matrix;
using runtime::Product;

}  // namespace

FusedLinearCrossEntropy::FusedLinearCrossEntropy(const ContextRef& context, const Desc& d,
                                                 const OpInfo& info, bool from_lse)
    : context_(context),
      d_(d),
      info_(info),
      from_lse_(from_lse),
      type_(dtype_of(d.dtype)),
      product_type_(context->machine().is_gpu() ? type_ : DType::f32),
      aligned_copies_(
          need_aligned_copies(context->machine(), product_type_, d.products, {&d_.n_cols, 1})),
      products_(products_of(*context, choice_of_products(), product_kinds())),
      matmul_(products_.matmul),
      chunks_(stored_chunk_options()),
      weight_(*context, d, weight_type(d), product_type_, aligned_copies_) {
  check_product_width("n_classes", d_.n_classes);
  check_product_width("n_cols", d_.n_cols);
  if (products_.kernels && takes_exponentials()) make_exponentials();
  if (products_.kernels && takes_gradients()) make_gradients();
  if (from_lse_)
    make_counts();
  else
    make_cross_entropy();
  make_columns();
  make_d_bias();
  make_conversions();
}

int64_t FusedLinearCrossEntropy::rows(const Call& call) const {
  const int64_t rows = call.sizes[op::dim_N];
  const bool per_row = d_.reduction == LIGERDSL_REDUCTION_NONE;
  check_reduced(call, op::dim_L, "loss", per_row, rows);
  check_reduced(call, op::dim_Z, "z_loss", per_row, rows);
  check_reduced(call, op::dim_R, "accuracy", per_row, rows);
  check_reduced(call, op::dim_G, "d_loss", per_row, rows);
  check_rows_disjoint("x", call.tensors[op::k_x]);
  check_rows_disjoint("weight", call.tensors[op::k_weight]);
  return rows;
}

std::string FusedLinearCrossEntropy::refusal(int64_t rows) const {
  const std::string refused = refuse_linear(rows, d_.n_classes, d_.n_cols);
  if (!refused.empty() || !columns_ || !from_lse_ || rows == 0) return refused;
  return refuse_grid({chunks_.layout(rows).chunk * column_blocks(d_.n_classes), 1, 1},
                     *columns_->launcher());
}

size_t FusedLinearCrossEntropy::workspace_bytes(int64_t rows) const {
  const LinearLayout layout = chunks_.layout(rows);
  check_limit(layout, rows, d_.max_workspace_bytes,
              d_.chunk_rows == 0 && d_.chunking == LIGERDSL_CHUNKING_WORKSPACE,
              "; use an f32 d_weight, or a d_x that does not overwrite x, to need less");
  return std::max(layout.bytes, chunks_.layout(rows, true).bytes);  // for a d_weight of any strides
}

void FusedLinearCrossEntropy::prepare(int64_t rows) const {
  if (rows == 0) return;
  const LinearLayout layout = chunks_.layout(rows);
  if (chunks_.needs_rows(layout)) prepare_chunks(rows, layout);
  if (layout.by_vocabulary) prepare_blocks(rows, layout);
}

std::vector<const Launcher*> FusedLinearCrossEntropy::launchers() const {
  std::vector<const Launcher*> all;
  for (const auto* step :
       {&count_, &rows_, &finish_, &first_d_bias_, &next_d_bias_, &round_d_bias_, &weight_.step(),
        &convert_x_, &check_ignored_rows_, &round_d_x_, &round_d_weight_, &zero_d_weight_,
        &zero_d_bias_, &label_logit_, &columns_}) {
    if (*step) all.push_back((*step)->launcher());
  }
  if (counted_x_) counted_x_->add_launchers(&all);
  if (exponentials_) exponentials_->add_launchers(&all);
  if (smoothing_) smoothing_->add_launchers(&all);
  if (gradients_) gradients_->add_launchers(&all);
  if (products_.kernels) products_.kernels->add_launchers(&all);
  return all;
}

std::vector<Fact> FusedLinearCrossEntropy::facts(const Call& call) const {
  return facts_of({.own_products = products_.kernels != nullptr,
                   .or_own = d_.products == LIGERDSL_PRODUCTS_AUTO,
                   .kept = exponentials_             ? LogitsAs::exponentials
                           : from_lse_ && gradients_ ? LogitsAs::gradient
                                                     : LogitsAs::logits,
                   .with_d_x = d_.with_d_x != 0,
                   .with_d_weight = d_.d_weight_dtype != 0,
                   .with_d_bias = d_.d_bias_dtype != 0,
                   .from_lse = from_lse_,
                   .product_type = product_type_,
                   .classes = d_.n_classes,
                   .cols = d_.n_cols,
                   .tile_rows = exponentials_ ? exponentials_->tile_rows() : 0},
                  layout_of(call), call.sizes[op::dim_N]);
}

LinearChunkOptions FusedLinearCrossEntropy::chunk_options_of(size_t product_workspace) const {
  LinearChunkOptions chunks =
      chunk_options(d_, from_lse_, product_type_, few_rows(context_->machine()), product_workspace);
  chunks.aligned_copies = aligned_copies_;
  return chunks;
}

LinearChunkOptions FusedLinearCrossEntropy::stored_chunk_options() const {
  LinearChunkOptions chunks = chunk_options_of(matmul_->workspace_bytes());
  chunks.ignores_rows = true;
  return chunks;
}

LinearLayout FusedLinearCrossEntropy::layout_of(const Call& call) const {
  const BoundTensor& d_weight = call.tensors[op::k_d_weight];
  return chunks_.layout(
      call.sizes[op::dim_N],
      d_weight.present && (d_weight.dims[0] == 1 || d_weight.strides[0] == d_weight.dims[1]));
}

int32_t FusedLinearCrossEntropy::choice_of_products() const {
  if (d_.products != LIGERDSL_PRODUCTS_AUTO) return d_.products;
  const kernels::Machine machine = context_->machine();
  if (aligned_copies_ ||
      own_products_are_faster(machine, product_type_, d_.n_classes, {&d_.n_cols, 1}))
    return LIGERDSL_PRODUCTS_KERNELS;
  const bool has_lse = from_lse_ || d_.with_lse, losses_alone = !with_gradient(d_),
             limited = d_.max_workspace_bytes < kDefaultLogits && may_use_d_weight();
  const bool own = !has_lse && has_exponentials() && (losses_alone || limited) &&
                   kernels::has_fast_products(machine, product_type_);
  return own ? LIGERDSL_PRODUCTS_KERNELS : LIGERDSL_PRODUCTS_AUTO;
}

std::vector<ProductKind> FusedLinearCrossEntropy::product_kinds() const {
  return head_products({.classes = d_.n_classes,
                        .cols = d_.n_cols,
                        .type = type_,
                        .product_type = product_type_,
                        .logits_type = product_type_,
                        .adds_up_d_x = type_ != product_type_ || weight_type(d_) != product_type_ ||
                                       (aligned_copies_ && d_.max_workspace_bytes > 0),
                        .with_d_x = d_.with_d_x != 0,
                        .with_d_weight = d_.d_weight_dtype != 0,
                        .d_weight_type = dtype_of(d_.d_weight_dtype),
                        .logits = !takes_gradients(),
                        .row_scale = takes_exponentials(),
                        .tile_rows = takes_exponentials() ? tile_rows() : 0,
                        .outer = smooths(),
                        .in_blocks = in_blocks(),
                        .by_vocabulary = LinearChunks(chunk_options_of(0)).may_go_by_vocabulary(),
                        .label_type = dtype_of(d_.label_dtype),
                        .ignore_index = d_.ignore_index});
}

int64_t FusedLinearCrossEntropy::tile_rows() const {
  const kernels::LinearCrossEntropyOptions options = linear_options(false);
  return kernels::linear_matmul(context_->machine(), options).config.tile_m;
}

void FusedLinearCrossEntropy::prepare_chunks(int64_t rows, const LinearLayout& layout) const {
  for (const Part& chunk : parts(rows, layout.chunk)) {
    const Matrix x =
        rows_at(product_type_, chunk, d_.n_cols, convert_x_ || (counted_x_ && !d_.with_d_x));
    for (const Part& classes : parts(d_.n_classes, layout.weight_rows)) {
      const Matrix z = logits_at(chunk.size, classes, layout.logits_stride),
                   weight = weight_.at(classes, layout);
      matmul_->prepare(Product::nt, x, weight, z);
      if (d_.with_d_x) matmul_->prepare(Product::nn, z, weight, d_x_at(chunk, layout));
    }
    if (d_.d_weight_dtype != 0 && !layout.by_vocabulary)
      matmul_->prepare(Product::tn, logits_at(chunk.size, {0, d_.n_classes}, layout.logits_stride),
                       x, rows_at(sum_type(layout), {0, d_.n_classes}, d_.n_cols, true));
  }
}

void FusedLinearCrossEntropy::prepare_blocks(int64_t rows, const LinearLayout& layout) const {
  for (const Part& block : parts(d_.n_classes, layout.columns)) {
    for (const Part& some : parts(rows, layout.block_rows)) {
      const Matrix x = rows_at(product_type_, some, d_.n_cols, convert_x_ || counted_x_);
      for (const Part& classes : parts(block.size, layout.weight_rows))
        matmul_->prepare(Product::nt, x,
                         weight_.at({block.first + classes.first, classes.size}, layout),
                         logits_at(some.size, classes, layout.block_stride));
      matmul_->prepare(Product::tn, logits_at(some.size, {0, block.size}, layout.block_stride), x,
                       rows_at(sum_type(layout), block, d_.n_cols, layout.add_up_d_weight));
    }
  }
}

Matrix FusedLinearCrossEntropy::logits_at(int64_t rows, const Part& columns, int64_t stride) const {
  const int64_t offset = columns.first * size_of(product_type_);
  return {reinterpret_cast<void*>(static_cast<uintptr_t>(offset)), product_type_, rows,
          columns.size, stride};
}

Matrix FusedLinearCrossEntropy::d_x_at(const Part& rows, const LinearLayout& layout) const {
  return rows_at(layout.add_up_d_x ? DType::f32 : type_, rows, d_.n_cols, layout.add_up_d_x);
}

DType FusedLinearCrossEntropy::sum_type(const LinearLayout& layout) const {
  return layout.add_up_d_weight ? DType::f32 : dtype_of(d_.d_weight_dtype);
}

}  // namespace ligerdsl::lib::head

namespace ligerdsl::lib {

using namespace head;
namespace op = fused_linear_cross_entropy;

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const Desc& d) {
  check_types(d);
  check_wanted(d);
  return std::make_unique<FusedLinearCrossEntropy>(context, d, op::info(), false);
}

std::unique_ptr<OpPlan> gradients_from_lse(const ContextRef& context, const Desc& d,
                                           const OpInfo& info) {
  check_types(d);
  if (!with_gradient(d))
    fail(Status::invalid_argument,
         "`with_d_x`, `d_weight_dtype`, `d_bias_dtype`: expected at least one that is not 0, got 0 "
         "for each; pass d_x, d_weight or d_bias");
  return std::make_unique<FusedLinearCrossEntropy>(context, d, info, true);
}

}  // namespace ligerdsl::lib
