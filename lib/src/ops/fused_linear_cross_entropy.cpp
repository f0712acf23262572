// Fused linear cross-entropy: chunk by chunk, a product makes logits, cross-entropy turns them into their gradient in
// place, two products turn that into the gradients of weight and x.
//
//   counts over all labels
//   for every chunk of rows:
//     z = x w^T;  z = d(loss)/dz in place, and the rows' losses;  d_bias += sum of rows of z;  d_w += z^T x;  d_x = z w
//   loss = sum of the rows' losses
//
// d_weight comes before d_x, so that d_x may overwrite x. The memory of d_x first holds the copy of x that z^T x takes
// (counted_x.h). Where chunks would be too small to add to d_w for each (linear_chunks.h), the loop keeps the rows' log-sum-exp instead, and a second one follows, for which x must remain:
//
//   for every block of the vocabulary, for many rows at a time:
//     z = x w_block^T;  z = d(loss)/dz in place;  d_w_block += z^T x
//
// Where products are the library's own kernels and the options allow it, logits are never stored: their product stores
// exponentials relative to the label's logit and the sums of each tile's rows, if no gradient is wanted the sums alone
// (kernels/fused_linear/linear_cross_entropy.h). The chunk then is:
//
//     e = exp(x w^T - label logit), sums;  the rows' losses and factors f;  d_bias += f^T e;  d_w += e^T (f x);  d_x = f (e w)
//
// to each of which smoothing adds what is the same for all logits of a row (kernels/fused_linear/linear_smoothing.h). Tiles of rows none of which
// counts are left out (kernels/matmul/row_tiles.h).
//
// Under a limit of memory they are stored where d_weight will be (linear_chunks.h), in blocks of the vocabulary, and d_weight is
// made from the last block on, each where the exponentials of the block above it were:
//
//   for every chunk of rows:  e, sums, losses, f;  d_x = f (e w)
//   for every block of the vocabulary:
//     d_w_block = e_block^T (f x) of the last chunk;  for the rows before, many at a time:  d = d(loss)/dz;  d_w_block += d^T x
//
// or, where d_weight is f32 and the workspace has room for large chunks, for as many rows as stand there alone; chunks of the
// others are then added to what those made.
//
// From rows' log-sum-exps that an earlier call left (fused_linear_cross_entropy_backward) the first loop makes d(loss)/dz
// as the second one does. Products of the library's own kernels store d(loss)/dz itself there
// (kernels/fused_linear/linear_cross_entropy_columns.h), but after a pass that stores logits: the lse of rounded logits is theirs alone.
//
// On a CPU products are f32: x, weight and d_x of other types are converted on the way, and logits stay f32. On a GPU
// products are of x's type, and an f32 weight is rounded to it: once, or block by block of its rows where the workspace
// has no room for all of it. A product then becomes one for each block, and d_x their sum in f32.
#include <array>
#include <optional>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_columns.h"
#include "kernels/cross_entropy/target_counts.h"
#include "kernels/matmul/row_tiles.h"
#include "kernels/reduce/reduce_partials.h"
#include "lib/src/kernel_matmul.h"
#include "lib/src/ops/counted_x.h"
#include "lib/src/ops/exponential_products.h"
#include "lib/src/ops/gradients_from_lse.h"
#include "lib/src/ops/head_exponentials.h"
#include "lib/src/ops/head_gradients.h"
#include "lib/src/ops/head_options.h"
#include "lib/src/ops/head_report.h"
#include "lib/src/ops/head_smoothing.h"
#include "lib/src/ops/linear_plan.h"

namespace ligerdsl::lib {

namespace {

using namespace head;
namespace op = fused_linear_cross_entropy;
using runtime::Matrix;
using runtime::Product;

class FusedLinearCrossEntropy final : public OpPlan {
 public:
  // from_lse: lse and entropy of the call are given, and losses are not made.
  FusedLinearCrossEntropy(const ContextRef& context, const Desc& d, const OpInfo& info, bool from_lse)
      : context_(context),
        d_(d),
        info_(info),
        from_lse_(from_lse),
        type_(dtype_of(d.dtype)),
        product_type_(context->machine().is_gpu() ? type_ : DType::f32),
        products_(products_of(*context, choice_of_products(), product_kinds())),
        matmul_(products_.matmul),
        chunks_(stored_chunk_options()),
        weight_(*context, d, weight_type(d), product_type_) {
    check_product_width("n_classes", d_.n_classes);
    check_product_width("n_cols", d_.n_cols);
    if (products_.kernels && takes_exponentials()) make_exponentials();
    if (products_.kernels && takes_gradients()) make_gradients();
    if (from_lse_)
      make_counts();
    else
      make_cross_entropy();
    make_columns();
    make_sums();
    make_conversions();
  }

  int64_t rows(const Call& call) const override {
    const int64_t rows = call.sizes[op::dim_N];
    const bool per_row = d_.reduction == LIGERDSL_REDUCTION_NONE;
    check_reduced(call, op::dim_L, "loss", per_row, rows);
    check_reduced(call, op::dim_Z, "z_loss", per_row, rows);
    check_reduced(call, op::dim_R, "accuracy", per_row, rows);
    check_reduced(call, op::dim_G, "d_loss", per_row, rows);
    check_rows_apart("x", call.tensors[op::k_x]);
    check_rows_apart("weight", call.tensors[op::k_weight]);
    return rows;
  }

  std::string refusal(int64_t rows) const override {
    const std::string refused = refuse_linear(rows, d_.n_classes, d_.n_cols);
    if (!refused.empty() || !columns_ || !from_lse_ || rows == 0) return refused;
    return refuse_grid({chunks_.layout(rows).chunk * column_blocks(d_.n_classes), 1, 1}, *columns_->launcher());
  }

  size_t workspace_bytes(int64_t rows) const override {
    const LinearLayout layout = chunks_.layout(rows);
    check_limit(layout, rows, d_.max_workspace_bytes, d_.chunk_rows == 0 && d_.chunking == LIGERDSL_CHUNKING_WORKSPACE,
                "; with d_weight in f32, or d_x apart from x, its sums need less");
    return std::max(layout.bytes, chunks_.layout(rows, true).bytes);  // whatever the strides of d_weight
  }

  // Tensors of the caller are taken to be contiguous and to begin at multiples of 256 bytes, as they mostly do.
  void prepare(int64_t rows) const override {
    if (rows == 0) return;
    const LinearLayout layout = chunks_.layout(rows);
    if (chunks_.needs_rows(layout)) prepare_chunks(rows, layout);
    if (layout.by_vocabulary) prepare_blocks(rows, layout);
  }

  void execute(const Call& call) const override {
    const int64_t rows = call.sizes[op::dim_N];
    const LinearLayout layout = layout_of(call);
    Views views = whole_batch(call, layout, rows);
    if (rows == 0) return without_rows(views, call);
    weight_.convert_all(call, layout, &views);
    if (count_) count_->run(views.data(), nullptr, rows, call.stream);
    if (smoothing_) smoothing_->sum_weight(call, layout, &views);
    if (layout.rows_in_front > 0) run_in_front(call, chunks_.in_front(layout, rows), &views);
    if (chunks_.needs_rows(layout)) run_chunks(call, layout, layout.rows_in_front, rows, &views);
    if (finish_) finish_->run(views.data(), nullptr, rows, call.stream);
    if (round_d_bias_) round_d_bias_->run(views.data(), nullptr, 1, call.stream);
    if (layout.by_vocabulary) check_ignored_rows(call, layout, layout.in_d_weight ? rows - layout.chunk : rows, views);
    if (layout.in_d_weight) {
      run_blocks_in_place(call, layout, views);
    } else if (layout.by_vocabulary) {
      for (int64_t first = 0; first < d_.n_classes; first += layout.columns) {
        run_block(call, layout, first, std::min(layout.columns, d_.n_classes - first), views);
      }
    } else if (layout.add_up_d_weight) {
      round_d_weight_->run(views.data(), nullptr, d_.n_classes, call.stream);
    }
  }

  std::vector<const Launcher*> launchers() const override {
    std::vector<const Launcher*> all;
    for (const auto* step : {&count_, &rows_, &finish_, &first_d_bias_, &next_d_bias_, &round_d_bias_, &weight_.step(),
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

  std::vector<Fact> facts(const Call& call) const override {
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

 private:
  using Step = std::optional<KernelStep>;

  LinearChunkOptions chunk_options_of(size_t product_workspace) const {
    return chunk_options(d_, from_lse_, product_type_, few_rows(context_->machine()), product_workspace);
  }
  // Options of a plan that stores logits or their gradient.
  LinearChunkOptions stored_chunk_options() const {
    LinearChunkOptions chunks = chunk_options_of(matmul_->workspace_bytes());
    chunks.ignores_rows = true;
    return chunks;
  }

  LinearLayout layout_of(const Call& call) const {
    const BoundTensor& d_weight = call.tensors[op::k_d_weight];
    return chunks_.layout(call.sizes[op::dim_N],
                          d_weight.present && (d_weight.dims[0] == 1 || d_weight.strides[0] == d_weight.dims[1]));
  }
  // AUTO takes the library's own products where they are faster than those of cuBLASLt:
  // * V is no multiple of 8 (own_products_are_faster). The rule depends on sizes alone, so a call that writes an lse and
  //   the call that reads it agree.
  // * A limit of memory lets d_weight's memory hold exponentials. With stored logits the call would take a third longer.
  // * Losses alone. They take 2 % longer, in hundredths of the memory.
  // The last two do not hold for calls that write or read an lse: an lse of logits that were not rounded is not the lse
  // of logits that were.
  int32_t choice_of_products() const {
    if (d_.products != LIGERDSL_PRODUCTS_AUTO) return d_.products;
    const kernels::Machine machine = context_->machine();
    if (own_products_are_faster(machine, product_type_, d_.n_classes, {d_.n_cols})) return LIGERDSL_PRODUCTS_KERNELS;
    const bool has_lse = from_lse_ || d_.with_lse, losses_alone = !with_gradient(d_),
               limited = d_.max_workspace_bytes < kDefaultLogits && may_use_d_weight(d_, product_type_);
    const bool own = !has_lse && has_exponentials() && (losses_alone || limited) &&
                     kernels::has_fast_products(machine, product_type_);
    return own ? LIGERDSL_PRODUCTS_KERNELS : LIGERDSL_PRODUCTS_AUTO;
  }
  bool in_blocks() const { return takes_exponentials() && may_use_d_weight(d_, product_type_); }

  bool has_exponentials() const { return kernels::has_exponentials(kernel_options(d_, product_type_, false)); }
  bool takes_exponentials() const { return !from_lse_ && has_exponentials(); }
  // Whether products add the gradients of smoothing.
  bool smooths() const { return takes_exponentials() && d_.label_smoothing != 0 && with_gradient(d_); }
  // Whether products by the library's own kernels make gradients from an lse, without storing logits: where what makes the
  // lse stores none.
  bool takes_gradients() const { return from_lse_ ? product_type_ != DType::f16 : takes_exponentials(); }

  std::vector<ProductKind> product_kinds() const {
    return head_products({.classes = d_.n_classes,
                          .cols = d_.n_cols,
                          .type = type_,
                          .product_type = product_type_,
                          .logits_type = product_type_,
                          .adds_up_d_x = type_ != product_type_ || weight_type(d_) != product_type_,
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

  // Of the product that makes exponentials.
  int64_t tile_rows() const {
    const kernels::LinearCrossEntropyOptions options = linear_options(false);
    return kernels::linear_product(context_->machine(), options).config.tile_m;
  }

  void prepare_chunks(int64_t rows, const LinearLayout& layout) const {
    for (const Part& chunk : parts(rows, layout.chunk)) {
      const Matrix x = rows_at(product_type_, chunk, d_.n_cols, convert_x_ || (counted_x_ && !d_.with_d_x));
      for (const Part& classes : parts(d_.n_classes, layout.weight_rows)) {
        const Matrix z = logits_at(chunk.size, classes, layout.logits_stride), weight = weight_.at(classes, layout);
        matmul_->prepare(Product::nt, x, weight, z);
        if (d_.with_d_x) matmul_->prepare(Product::nn, z, weight, d_x_at(chunk, layout));
      }
      if (d_.d_weight_dtype != 0 && !layout.by_vocabulary)
        matmul_->prepare(Product::tn, logits_at(chunk.size, {0, d_.n_classes}, layout.logits_stride), x,
                         rows_at(sum_type(layout), {0, d_.n_classes}, d_.n_cols, true));
    }
  }

  void prepare_blocks(int64_t rows, const LinearLayout& layout) const {
    for (const Part& block : parts(d_.n_classes, layout.columns)) {
      for (const Part& some : parts(rows, layout.block_rows)) {
        const Matrix x = rows_at(product_type_, some, d_.n_cols, convert_x_ || counted_x_);
        for (const Part& classes : parts(block.size, layout.weight_rows))
          matmul_->prepare(Product::nt, x, weight_.at({block.first + classes.first, classes.size}, layout),
                           logits_at(some.size, classes, layout.block_stride));
        matmul_->prepare(Product::tn, logits_at(some.size, {0, block.size}, layout.block_stride), x,
                         rows_at(sum_type(layout), block, d_.n_cols, layout.add_up_d_weight));
      }
    }
  }

  Step step(const kernels::Step& recorded, StepNames names) const {
    return head_step(*context_, d_, recorded, std::move(names));
  }

  static StepNames count_names() {
    return {.views = {{"counts", kCounts}, {"labels", kAllLabels}, {"weight", kClassWeight}}};
  }

  kernels::LinearCrossEntropyOptions linear_options(bool keeps_lse) const {
    kernels::LinearCrossEntropyOptions options{kernel_options(d_, product_type_, keeps_lse)};
    options.head_type = weight_type(d_), options.cols = d_.n_cols;
    options.scales_x = d_.d_weight_dtype != 0;
    options.in_blocks = in_blocks();
    return options;
  }

  void make_exponentials() {
    const kernels::LinearCrossEntropyOptions options = linear_options(chunks_.may_go_by_vocabulary());
    exponentials_.emplace(*context_, d_, options);
    if (smooths()) smoothing_.emplace(*context_, d_, options, options.head_type);
    exponential_products_.emplace(*products_.kernels, d_, product_type_, smoothing_.has_value(), options.in_blocks);
    LinearChunkOptions chunks = chunk_options_of(matmul_->workspace_bytes());
    chunks.tile_columns = exponentials_->tile_columns(), chunks.tile_numbers = exponentials_->tile_numbers();
    if (smoothing_) chunks.smoothing_parts = smoothing_->parts();
    chunks.in_blocks = options.in_blocks, chunks.tile_rows = exponentials_->tile_rows();
    chunks.tiles_at_once = std::max<int64_t>(context_->machine().sms, 1);
    chunks_ = LinearChunks(chunks);
  }

  void make_gradients() {
    if (from_lse_ || chunks_.may_go_by_vocabulary())
      gradients_.emplace(*context_, d_, linear_options(chunks_.may_go_by_vocabulary()), from_lse_);
  }

  // The launches of cross-entropy: the one that takes logits runs on every chunk, the others on all rows.
  void make_cross_entropy() {
    const kernels::CrossEntropyOptions options = kernel_options(d_, product_type_, chunks_.may_go_by_vocabulary());
    // Without logits nothing of it has a schedule to choose.
    const kernels::Operation operation = exponentials_ ? kernels::cross_entropy_kernel(context_->machine(), options)
                                                       : configured(context_, kernels::cross_entropy_kernel, options);
    for (const kernels::Step& recorded : operation.steps) {
      const auto takes = [&](const char* name) {
        return std::any_of(recorded.program.arguments.begin(), recorded.program.arguments.end(),
                           [&](const program::Argument& argument) { return argument.name == name; });
      };
      if (takes("logits")) {
        if (!exponentials_) rows_ = step(recorded, row_names());
      } else if (takes("labels")) {
        count_ = step(recorded, count_names());
      } else {
        finish_ = step(recorded, {.views = {{"loss", kLoss},
                                            {"row_loss", kAllRowLoss},
                                            {"z_loss", kZLoss},
                                            {"row_z_loss", kAllRowZLoss},
                                            {"accuracy", kAccuracy},
                                            {"row_accuracy", kAllRowAccuracy},
                                            {"counts", kCounts}}});
      }
    }
  }

  void make_counts() {
    const kernels::CrossEntropyOptions options = kernel_options(d_, product_type_, true);
    if (!kernels::needs_counts(options)) return;
    count_ = step(kernels::target_counts_step({.label_type = options.label_type,
                                               .has_weight = options.has_weight,
                                               .classes = options.classes,
                                               .weight_type = options.weight_type}),
                  count_names());
  }

  // What makes gradients of logits that are stored from the rows' lse.
  void make_columns() {
    if (gradients_ || (!from_lse_ && !chunks_.may_go_by_vocabulary())) return;
    const kernels::CrossEntropyOptions options = kernel_options(d_, product_type_, true);
    const kernels::CrossEntropyColumns columns =
        kernels::cross_entropy_columns(context_->machine(), options, from_lse_);
    column_block_ = columns.block;
    columns_ = step(columns.step, {.views = {{"logits", kLogits},
                                             {"labels", kLabels},
                                             {"lse", kLse},
                                             {"label_logit", kLabelLogit},
                                             {"bias", kColumnBias},
                                             {"weight", kClassWeight},
                                             {"column_weight", kColumnWeight},
                                             {"d_loss", kDLoss},
                                             {"entropy", kEntropy},
                                             {"d_entropy", kDEntropy},
                                             {"counts", kCounts},
                                             {"error", kError}}});
    if (!options.token_scaling) return;
    label_logit_ =
        step(kernels::cross_entropy_label_logit(context_->machine(), options),
             {.views = {{"label_logit", kLabelLogit}, {"logits", kLogits}, {"labels", kLabels}, {"bias", kBias}}});
  }

  void make_sums() {
    if (d_.d_bias_dtype == 0) return;
    const auto machine = context_->machine();
    const StepNames names{.views = {{"d_bias", kDBias}, {"partials", kLogits}, {"scale", kFactor}}};
    const auto sum = [&](bool accumulate) {
      return kernels::reduce_partials(machine, {{.out = "d_bias",
                                                 .from = product_type_,
                                                 .cols = d_.n_classes,
                                                 .accumulate = accumulate,
                                                 .scale = exponentials_.has_value() ? "scale" : ""}});
    };
    if (!d_.accumulate) first_d_bias_ = step(sum(false), names);
    next_d_bias_ = step(sum(true), names);
  }

  void make_conversions() {
    const auto convert = [&](DType from, DType to, int64_t cols, View in, View out) {
      return convert_step(*context_, from, to, cols, in, out);
    };
    const auto zero = [&](int32_t type, int64_t cols, View out) {
      return zero_step(*context_, dtype_of(type), cols, out);
    };
    make_x();
    if (d_.with_d_x && type_ != DType::f32 && (convert_x_ || weight_.converts()))
      round_d_x_ = convert(DType::f32, type_, d_.n_cols, kDX, kDXWanted);
    if (d_.d_weight_dtype != 0) {
      if (d_.d_weight_dtype != LIGERDSL_F32)
        round_d_weight_ = convert(DType::f32, dtype_of(d_.d_weight_dtype), d_.n_cols, kDWeight, kDWeightWanted);
      if (!d_.accumulate) zero_d_weight_ = zero(d_.d_weight_dtype, d_.n_cols, kDWeightWanted);
    }
    if (d_.d_bias_dtype != 0) {
      if (d_.d_bias_dtype != LIGERDSL_F32)
        round_d_bias_ = convert(DType::f32, dtype_of(d_.d_bias_dtype), d_.n_classes, kDBiasSums, kDBiasWanted);
      if (!d_.accumulate) zero_d_bias_ = zero(d_.d_bias_dtype, d_.n_classes, kDBiasWanted);
    }
  }

  // x as products take it. z^T x sees zeros in ignored rows. Exponentials are multiplied with x times a factor, which has
  // zeros there, but where classes go block by block.
  void make_x() {
    const bool zeros = d_.d_weight_dtype != 0;
    const CountedX::Views views{kXGiven, kX, kLabels};
    const CountedX::Rows rows{d_.n_cols, dtype_of(d_.label_dtype), d_.ignore_index};
    if (product_type_ != type_) {
      convert_x_ = zeros ? CountedX::convert(*context_, views, rows, type_, product_type_)
                         : convert_step(*context_, type_, product_type_, d_.n_cols, kXGiven, kX);
    } else if (zeros && !exponentials_) {
      counted_x_.emplace(*context_, views, rows, type_, d_.with_d_x && d_.in_place);
    } else if (zeros && chunks_.may_go_by_vocabulary()) {
      check_ignored_rows_ = step(kernels::check_ignored_rows(context_->machine(), type_, d_.n_cols, rows.label_type),
                                 {.views = {{"depth", kAllDepth}, {"x", kX}, {"labels", kLabels}}});
    }
  }
  // The memory of a chunk's d_x holds the copy first. If d_x overwrites x, x becomes that copy.
  void count_x(const Call& call, const LinearLayout& layout, int64_t rows, Views* views) const {
    if (!counted_x_ || layout.by_vocabulary) return;
    const BoundTensor place = d_.with_d_x ? (*views)[kDXWanted] : x_in_workspace(call, layout, rows);
    counted_x_->run(views->data(), place, rows, call.stream);
  }
  BoundTensor x_in_workspace(const Call& call, const LinearLayout& layout, int64_t rows) const {
    return make_view(call.workspace + layout.x, product_type_, rows, d_.n_cols, d_.n_cols);
  }

  Views whole_batch(const Call& call, const LinearLayout& layout, int64_t rows) const {
    Views v{};
    const auto f32_rows = [&](size_t at) { return make_vector(call.workspace + at, DType::f32, rows); };
    const auto as_row_if = [](const BoundTensor& vector) { return vector.present ? as_row(vector) : vector; };
    const bool per_row = d_.reduction == LIGERDSL_REDUCTION_NONE;
    v[kError] = context_->error_word(info_);
    v[kCounts] = make_vector(call.workspace + layout.counts, DType::f32, 4);
    v[kAllLabels] = call.tensors[op::k_labels];
    v[kClassWeight] = call.tensors[op::k_class_weight];
    v[kBias] = call.tensors[op::k_bias];
    v[kLoss] = call.tensors[op::k_loss];
    v[kZLoss] = call.tensors[op::k_z_loss];
    v[kAccuracy] = call.tensors[op::k_accuracy];
    v[kAllRowLoss] = per_row ? v[kLoss] : f32_rows(layout.row_loss);
    v[kAllRowZLoss] = per_row ? v[kZLoss] : f32_rows(layout.row_z_loss);
    v[kAllRowAccuracy] = per_row ? v[kAccuracy] : f32_rows(layout.row_accuracy);
    v[kWeightGiven] = call.tensors[op::k_weight];
    v[kAllWeight] = weight_.all(call, layout, v[kWeightGiven]);
    v[kDWeightWanted] = call.tensors[op::k_d_weight];
    v[kAllLse] = d_.with_lse ? call.tensors[op::k_lse] : f32_rows(layout.lse);
    v[kAllLabelLogit] = f32_rows(layout.label_logit);
    v[kAllEntropy] = d_.with_entropy ? call.tensors[op::k_entropy] : f32_rows(layout.entropy);
    v[kDWeight] = layout.add_up_d_weight && !layout.by_vocabulary
                      ? make_view(call.workspace + layout.d_weight, DType::f32, d_.n_classes, d_.n_cols, d_.n_cols)
                      : v[kDWeightWanted];
    v[kDBiasWanted] = as_row_if(call.tensors[op::k_d_bias]);
    v[kDBias] = round_d_bias_ ? make_vector(call.workspace + layout.d_bias, DType::f32, d_.n_classes)
                              : call.tensors[op::k_d_bias];
    v[kDBiasSums] = as_row_if(v[kDBias]);
    return v;
  }

  Matrix logits_at(int64_t rows, const Part& columns, int64_t stride) const {
    const int64_t offset = columns.first * size_of(product_type_);
    return {reinterpret_cast<void*>(static_cast<uintptr_t>(offset)), product_type_, rows, columns.size, stride};
  }
  Matrix d_x_at(const Part& rows, const LinearLayout& layout) const {
    return rows_at(layout.add_up_d_x ? DType::f32 : type_, rows, d_.n_cols, layout.add_up_d_x);
  }
  DType sum_type(const LinearLayout& layout) const {
    return layout.add_up_d_weight ? DType::f32 : dtype_of(d_.d_weight_dtype);
  }

  // The views of these rows of the batch that both loops read.
  void select_rows(const Call& call, const LinearLayout& layout, int64_t first, int64_t count, Views* views) const {
    Views& v = *views;
    v[kXGiven] = rows_of(call.tensors[op::k_x], first, count);
    v[kX] = convert_x_ ? x_in_workspace(call, layout, count) : v[kXGiven];
    v[kLabels] = rows_of(v[kAllLabels], first, count);
    v[kLse] = rows_of(v[kAllLse], first, count);
    v[kLabelLogit] = rows_of(v[kAllLabelLogit], first, count);
    v[kEntropy] = rows_of(v[kAllEntropy], first, count);
    v[kDEntropy] = rows_of(call.tensors[op::k_d_entropy], first, count);
    v[kDLoss] = call.tensors[op::k_d_loss];
    if (d_.reduction == LIGERDSL_REDUCTION_NONE) v[kDLoss] = rows_of(v[kDLoss], first, count);
  }

  void multiply(const Call& call, const LinearLayout& layout, const Views& v, Product product, View a, View b, bool add,
                View c) const {
    matmul_->multiply(product, matrix(v[a]), matrix(v[b]), add ? 1.0f : 0.0f, matrix(v[c]),
                      call.workspace + layout.products, call.stream);
  }

  // v[kLogits], whose columns are the classes from `first` on.
  void multiply_logits(const Call& call, const LinearLayout& layout, int64_t first, Views* views) const {
    const BoundTensor logits = (*views)[kLogits];
    weight_.for_pieces(call, layout, first, logits.dims[1], views, [&](const Part& piece) {
      (*views)[kLogits] = columns_of(logits, piece.first - first, piece.size);
      multiply(call, layout, *views, Product::nt, kX, kWeight, false, kLogits);
    });
    (*views)[kLogits] = logits;
  }

  void multiply_d_x(const Call& call, const LinearLayout& layout, Views* views) const {
    const BoundTensor logits = (*views)[kLogits];
    weight_.for_pieces(call, layout, 0, d_.n_classes, views, [&](const Part& piece) {
      Views& v = *views;
      v[kLogits] = columns_of(logits, piece.first, piece.size);
      const bool add = piece.first > 0;
      if (exponential_products_)
        exponential_products_->multiply_d_x(call, layout, add, views);
      else
        multiply(call, layout, v, Product::nn, kLogits, kWeight, add, kDX);
    });
    (*views)[kLogits] = logits;
  }

  void run_chunk(const Call& call, const LinearLayout& layout, int64_t first, int64_t count, Views* views) const {
    Views& v = *views;
    std::byte* const memory = call.workspace;
    select_rows(call, layout, first, count, views);
    v[kDXWanted] = rows_of(call.tensors[op::k_d_x], first, count);
    v[kDX] = layout.add_up_d_x ? make_view(memory + layout.d_x, DType::f32, count, d_.n_cols, d_.n_cols) : v[kDXWanted];
    v[kLogits] = make_view(memory + layout.logits, product_type_, count, d_.n_classes, layout.logits_stride);
    v[kRowLoss] = rows_of(v[kAllRowLoss], first, count);
    v[kRowZLoss] = rows_of(v[kAllRowZLoss], first, count);
    v[kRowAccuracy] = rows_of(v[kAllRowAccuracy], first, count);
    v[kPredictions] = rows_of(call.tensors[op::k_predictions], first, count);
    if (exponential_products_) exponential_products_->select(layout, count, views);

    if (convert_x_) convert_x_->run(v.data(), nullptr, count, call.stream);
    count_x(call, layout, count, &v);
    if (exponentials_)
      exponentials_->run(call, layout, weight_, first, &v);
    else
      run_logits(call, layout, first, count, &v);
    const bool add = d_.accumulate || first > 0;
    if (next_d_bias_) (add ? next_d_bias_ : first_d_bias_)->run(v.data(), nullptr, count, call.stream);
    if (smoothing_ && d_.d_bias_dtype != 0) smoothing_->add_to_bias(call, v);
    const bool kept = layout.in_d_weight && first + count == layout.rows;
    if (d_.d_weight_dtype != 0 && (kept || !layout.by_vocabulary)) {
      if (exponentials_) exponentials_->scale_x(call, layout, &v);
      if (smoothing_) smoothing_->sum_x(call, v);
    }
    if (d_.d_weight_dtype != 0 && !layout.by_vocabulary) {
      if (exponential_products_)
        exponential_products_->multiply_d_weight(call, v, add);
      else
        multiply(call, layout, v, Product::tn, kLogits, kX, add, kDWeight);
    }
    if (d_.with_d_x) multiply_d_x(call, layout, &v);
    if (layout.add_up_d_x) round_d_x_->run(v.data(), nullptr, count, call.stream);
  }

  // Of the rows [first, end).
  void run_chunks(const Call& call, const LinearLayout& layout, int64_t first, int64_t end, Views* views) const {
    while (first < end) {
      const int64_t count = LinearChunks::chunk_at(layout, end, first);
      run_chunk(call, layout, first, count, views);
      first += count;
    }
  }

  // Losses, d_x and d_weight of the rows that `layout` is for, to which others add.
  void run_in_front(const Call& call, const LinearLayout& layout, Views* views) const {
    run_chunks(call, layout, 0, layout.rows, views);
    run_blocks_in_place(call, layout, *views);
  }

  // Of a chunk whose views are selected: logits, then their gradient, and the rows' results.
  void run_logits(const Call& call, const LinearLayout& layout, int64_t first, int64_t count, Views* views) const {
    Views& v = *views;
    if (gradients_) {
      gradients_->find_label_logits(&v, call);
      return gradients_->run(call, layout, weight_, first, 0, &v);
    }
    multiply_logits(call, layout, 0, &v);
    if (label_logit_ && (from_lse_ || layout.by_vocabulary)) label_logit_->run(v.data(), nullptr, count, call.stream);
    if (!from_lse_) return rows_->run(v.data(), &first, count, call.stream);
    v[kColumnBias] = v[kBias];
    v[kColumnWeight] = v[kClassWeight];
    run_columns(call, v, {first, 0});
  }

  // v[kLogits], from the first row and column that `numbers` says, become their gradient.
  void run_columns(const Call& call, const Views& v, const Numbers& numbers) const {
    const int64_t* const size = v[kLogits].dims;
    columns_->run(v.data(), numbers.data(), size[0] * column_blocks(size[1]), call.stream);
  }
  int64_t column_blocks(int64_t columns) const { return kernels::ceil_div(columns, column_block_); }

  void run_blocks_in_place(const Call& call, const LinearLayout& layout, const Views& views) const {
    const int64_t blocks = kernels::ceil_div(d_.n_classes, layout.columns);
    for (int64_t block = blocks - 1; block >= 0; --block) run_block_in_place(call, layout, block, views);
  }

  // Whether products with x of the first `rows` rows, which are multiplied by blocks of classes, must not read ignored ones.
  void check_ignored_rows(const Call& call, const LinearLayout& layout, int64_t rows, Views v) const {
    if (!check_ignored_rows_ || rows <= 0) return;
    select_rows(call, layout, 0, rows, &v);
    check_ignored_rows_->run(v.data(), nullptr, rows, call.stream);
  }

  // d_weight of a block of classes, of whose exponentials those of the last chunk are still there.
  void run_block_in_place(const Call& call, const LinearLayout& layout, int64_t block, Views v) const {
    const int64_t first_column = block * layout.columns, rows = layout.rows,
                  columns = std::min(layout.columns, d_.n_classes - first_column), kept = v[kFirstBlock].dims[0];
    exponential_products_->select_block(block, columns, &v);
    v[kClassFactor] = rows_of(v[kClassFactor], first_column, columns);
    select_block(call, layout, first_column, columns, &v);
    exponential_products_->multiply_d_weight(call, v, false);
    const LinearChunks::Again again = LinearChunks::again_at(layout, block);
    std::byte* const behind = v[kOtherBlocks].data + block * kept * layout.columns * size_of(product_type_);
    add_rows(call, layout, first_column, again.in_d_weight ? behind : call.workspace + layout.again_logits, again.rows,
             rows - kept, true, &v);
  }

  // d_weight of the classes [first_column, first_column + columns).
  void run_block(const Call& call, const LinearLayout& layout, int64_t first_column, int64_t columns, Views v) const {
    select_block(call, layout, first_column, columns, &v);
    add_rows(call, layout, first_column, call.workspace + layout.logits, layout.block_rows, v[kAllLabels].dims[0],
             d_.accumulate != 0, &v);
    if (layout.add_up_d_weight) round_d_weight_->run(v.data(), nullptr, columns, call.stream);
  }

  void select_block(const Call& call, const LinearLayout& layout, int64_t first_column, int64_t columns,
                    Views* views) const {
    Views& v = *views;
    const auto part = [&](const BoundTensor& all) { return rows_of(all, first_column, columns); };
    v[kColumnBias] = part(v[kBias]);
    v[kColumnWeight] = part(v[kClassWeight]);
    v[kDWeightWanted] = part(v[kDWeightWanted]);
    v[kDWeight] = layout.add_up_d_weight
                      ? make_view(call.workspace + layout.d_weight, DType::f32, columns, d_.n_cols, d_.n_cols)
                      : v[kDWeightWanted];
  }

  // What the first `rows` rows of the batch add to v[kDWeight], that of the classes from first_column on; `at_once` of them have
  // their d at `logits`. add: to what is there.
  void add_rows(const Call& call, const LinearLayout& layout, int64_t first_column, std::byte* logits, int64_t at_once,
                int64_t rows, bool add, Views* views) const {
    Views& v = *views;
    const int64_t columns = v[kDWeight].dims[0];
    for (int64_t first = 0; first < rows; first += at_once) {
      const int64_t count = std::min(at_once, rows - first);
      select_rows(call, layout, first, count, views);
      v[kLogits] = make_view(logits, product_type_, count, columns, layout.block_stride);
      if (convert_x_) convert_x_->run(v.data(), nullptr, count, call.stream);
      if (counted_x_) {
        v[kX] = x_in_workspace(call, layout, count);
        // A copy of all rows serves every block.
        if (first_column == 0 || at_once < rows) counted_x_->run(v.data(), v[kX], count, call.stream);
      }
      if (gradients_) {
        gradients_->run(call, layout, weight_, first, first_column, views);
      } else {
        multiply_logits(call, layout, first_column, views);
        run_columns(call, v, {first, first_column});
      }
      if (exponential_products_)
        exponential_products_->add_rows(call, v, add || first > 0);
      else
        multiply(call, layout, v, Product::tn, kLogits, kX, add || first > 0, kDWeight);
    }
  }

  // Sums of nothing.
  void without_rows(const Views& views, const Call& call) const {
    if (count_) count_->run(views.data(), nullptr, 0, call.stream);
    if (finish_) finish_->run(views.data(), nullptr, 0, call.stream);
    if (zero_d_weight_) zero_d_weight_->run(views.data(), nullptr, d_.n_classes, call.stream);
    if (zero_d_bias_) zero_d_bias_->run(views.data(), nullptr, 1, call.stream);
  }

  ContextRef context_;
  Desc d_;
  const OpInfo& info_;
  bool from_lse_;
  DType type_, product_type_;
  Products products_;
  std::shared_ptr<runtime::Matmul> matmul_;
  LinearChunks chunks_;
  HeadWeight weight_;
  Step count_, rows_, finish_;
  Step first_d_bias_, next_d_bias_, round_d_bias_;
  Step convert_x_, check_ignored_rows_, round_d_x_, round_d_weight_;
  std::optional<CountedX> counted_x_;  // where neither convert_x_ nor a factor makes zeros
  Step zero_d_weight_, zero_d_bias_;
  Step label_logit_, columns_;
  std::optional<HeadExponentials> exponentials_;  // where logits are not stored; likewise the next
  std::optional<HeadSmoothing> smoothing_;
  std::optional<ExponentialProducts> exponential_products_;
  std::optional<HeadGradients> gradients_;
  int64_t column_block_ = 0;  // columns of one program of columns_
};

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const Desc& d) {
  check_types(d);
  check_wanted(d);
  return std::make_unique<FusedLinearCrossEntropy>(context, d, op::info(), false);
}

std::unique_ptr<OpPlan> gradients_from_lse(const ContextRef& context, const Desc& d, const OpInfo& info) {
  check_types(d);
  if (!with_gradient(d))
    fail(
        Status::invalid_argument,
        "`with_d_x`, `d_weight_dtype`, `d_bias_dtype`: expected at least one of d_x, d_weight and d_bias to be wanted, "
        "got none");
  return std::make_unique<FusedLinearCrossEntropy>(context, d, info, true);
}

}  // namespace ligerdsl::lib
