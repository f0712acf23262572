// Fused linear cross-entropy: chunk by chunk, a product makes logits, cross-entropy turns them into their gradient in
// place, two products turn that into the gradients of weight and x.
//
//   counts over all labels
//   for every chunk of rows:
//     z = x w^T;  z = d(loss)/dz in place, and the rows' losses;  d_bias += sum of rows of z;  d_w += z^T x;  d_x = z w
//   loss = sum of the rows' losses
//
// d_weight comes before d_x, so that d_x may overwrite x. Where chunks would be too small to add to d_w for each
// (linear_chunks.h), the loop keeps the rows' log-sum-exp instead, and a second one follows, for which x must remain:
//
//   for every block of the vocabulary, for many rows at a time:
//     z = x w_block^T;  z = d(loss)/dz in place;  d_w_block += z^T x
//
// On a CPU products are f32: x, weight and d_x of other types are converted on the way, and logits stay f32.
#include <array>
#include <limits>
#include <optional>

#include "kernels/convert_rows.h"
#include "kernels/cross_entropy_columns.h"
#include "kernels/cross_entropy_config.h"
#include "kernels/reduce_partials.h"
#include "lib/src/kernel_step.h"
#include "lib/src/ops/cross_entropy_options.h"
#include "lib/src/ops/linear_chunks.h"
#include "runtime/matmul.h"

namespace ligerdsl::lib {

namespace {

namespace op = fused_linear_cross_entropy;
using Desc = ligerdsl_fused_linear_cross_entropy_desc_t;
using runtime::Matrix;
using runtime::Product;

// Views that kernels see. A view of a chunk is set anew for every chunk.
enum View : int {
  kLogits,  // of the chunk or block, then their gradient
  kX,       // of the chunk, as products take it
  kXGiven,  // of the chunk, as the caller has it
  kDX,
  kDXWanted,
  kWeight,  // all of it, or the rows of a block of the vocabulary; likewise the next three
  kWeightGiven,
  kDWeight,  // as it is summed
  kDWeightWanted,
  kDBias,        // as it is summed
  kDBiasSums,    // the same, as a row
  kDBiasWanted,  // as a row
  kBias,
  kLabels,  // of the chunk
  kAllLabels,
  kClassWeight,
  kColumnBias,  // of a block of the vocabulary
  kColumnWeight,
  kLse,  // of the chunk
  kLabelLogit,
  kAllLse,
  kAllLabelLogit,
  kDLoss,
  kEntropy,
  kAllEntropy,
  kDEntropy,
  kCounts,
  kRowLoss,  // of the chunk
  kRowZLoss,
  kRowAccuracy,
  kPredictions,
  kAllRowLoss,
  kAllRowZLoss,
  kAllRowAccuracy,
  kLoss,
  kZLoss,
  kAccuracy,
  kError,
  kViews
};
using Views = std::array<BoundTensor, kViews>;

BoundTensor make_view(std::byte* data, DType type, int64_t rows, int64_t cols, int64_t stride) {
  return {.data = data, .dims = {rows, cols}, .strides = {stride, 1}, .rank = 2, .dtype = type, .present = true};
}

BoundTensor make_vector(std::byte* data, DType type, int64_t size) {
  return {.data = data, .dims = {size}, .strides = {1}, .rank = 1, .dtype = type, .present = true};
}

// A vector as one row.
BoundTensor as_row(const BoundTensor& vector) {
  return make_view(vector.data, vector.dtype, 1, vector.dims[0], vector.dims[0]);
}

BoundTensor rows_of(BoundTensor tensor, int64_t first, int64_t count) {
  if (!tensor.present) return tensor;
  tensor.data += first * tensor.strides[0] * size_of(tensor.dtype);
  tensor.dims[0] = count;
  return tensor;
}

Matrix matrix(const BoundTensor& t) {
  return {t.data, t.dtype, t.dims[0], t.dims[1], t.dims[0] > 1 ? t.strides[0] : t.dims[1]};
}

// Products read whole rows: they may not overlap, as those of a broadcast or sliding view do.
void check_rows_apart(const char* name, const BoundTensor& t) {
  if (t.dims[0] <= 1 || t.strides[0] >= t.dims[1]) return;
  fail(Status::invalid_shape, std::string("`") + name + "`: expected a row stride of at least " +
                                  std::to_string(t.dims[1]) + ", got " + std::to_string(t.strides[0]) +
                                  "; make the tensor contiguous");
}

void check_types(const Desc& d) {
  const auto check = [](const char* name, int32_t got, int32_t other) {
    if (got == 0 || got == LIGERDSL_F32 || got == other) return;
    fail(Status::invalid_dtype,
         std::string("`") + name + "`: expected f32 or " + dtype_name(other) + ", got " + dtype_name(got));
  };
  check("bias_dtype", d.bias_dtype, d.dtype);
  check_gradient("d_weight_dtype", d.d_weight_dtype, d.dtype, d.accumulate);
  check_gradient("d_bias_dtype", d.d_bias_dtype, d.bias_dtype, d.accumulate);
  const bool gradients = d.with_d_x || d.d_weight_dtype || d.d_bias_dtype;
  check_without_loss(d, gradients);
  check_upstream("with_d_entropy", d.with_d_entropy, gradients, "d_x, d_weight or d_bias");
  if (d.d_bias_dtype != 0 && d.bias_dtype == 0)
    fail(Status::invalid_argument, "`d_bias_dtype`: expected 0 without a bias (`bias_dtype` is 0)");
}

kernels::CrossEntropyOptions kernel_options(const Desc& d, DType product_type, bool keeps_lse) {
  kernels::CrossEntropyOptions options = cross_entropy_options(d);
  options.type = product_type;
  options.has_bias = d.bias_dtype != 0;
  options.bias_type = dtype_of(d.bias_dtype);
  options.with_gradient = d.with_d_x || d.d_weight_dtype || d.d_bias_dtype;
  options.with_d_loss = options.with_gradient && d.with_d_loss;
  options.d_loss_type = dtype_of(d.d_loss_dtype);
  options.token_scaling = d.use_token_scaling != 0;
  options.with_lse = keeps_lse;
  options.with_entropy = d.with_entropy || (d.with_d_entropy && keeps_lse);
  options.part = true;
  return options;
}

// Rows below which adding a chunk's part to d_weight, 8 V H bytes, takes longer than a product, 2 C V H flop: on a GPU
// of 190 flop per byte, on a CPU of about 16.
int64_t few_rows(const kernels::Machine& machine) {
  return machine.is_gpu() ? 768 : 64;
}

LinearChunkOptions chunk_options(const Desc& d, DType product_type, int64_t few_rows, size_t product_workspace) {
  return {.classes = d.n_classes,
          .cols = d.n_cols,
          .type = dtype_of(d.dtype),
          .product_type = product_type,
          .with_d_x = d.with_d_x != 0,
          .with_d_weight = d.d_weight_dtype != 0,
          .with_d_bias = d.d_bias_dtype != 0,
          .d_weight_type = dtype_of(d.d_weight_dtype),
          .d_bias_type = dtype_of(d.d_bias_dtype),
          .product_workspace = product_workspace,
          .few_rows = few_rows,
          .keeps_x = !(d.with_d_x && d.in_place),
          .token_scaling = d.use_token_scaling != 0,
          .keeps_entropy = d.with_d_entropy && !d.with_entropy,
          .rule = d.chunking == LIGERDSL_CHUNKING_PUBLISHED ? ChunkRule::published : ChunkRule::by_workspace,
          .chunk_rows = d.chunk_rows,
          .max_workspace_bytes = d.max_workspace_bytes};
}

class FusedLinearCrossEntropy final : public OpPlan {
  static constexpr int64_t kMostBytes = 4;      // of an element in the workspace
  static constexpr int64_t kMostPadding = 128;  // elements between a row of logits and the next

 public:
  FusedLinearCrossEntropy(const ContextRef& context, const Desc& d)
      : context_(context),
        d_(d),
        type_(dtype_of(d.dtype)),
        product_type_(context->machine().is_gpu() ? type_ : DType::f32),
        matmul_(context->device().matmul()),
        chunks_(chunk_options(d, product_type_, few_rows(context->machine()), matmul_->workspace_bytes())) {
    check_widths();
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

  // What a layout computes with stays below the largest workspace when all logits do; matrix libraries count in 32
  // bits.
  std::string refusal(int64_t rows) const override {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (rows > kMost) return "matrix products take at most " + std::to_string(kMost) + " rows; split the call";
    const kernels::Count of_row = kernels::Count(d_.n_classes) + kMostPadding + kernels::Count(d_.n_cols) * 2;
    return refuse_workspace((kernels::Count(d_.n_classes) * d_.n_cols + of_row * rows) * kMostBytes);
  }

  size_t workspace_bytes(int64_t rows) const override {
    const LinearLayout layout = chunks_.layout(rows);
    check_limit(layout, rows);
    return layout.bytes;
  }

  // Tensors of the caller are taken to be contiguous and to begin at multiples of 256 bytes, as they mostly do.
  void prepare(int64_t rows) const override {
    if (rows == 0) return;
    const LinearLayout layout = chunks_.layout(rows);
    for (const Part& chunk : parts(rows, layout.chunk)) {
      const Matrix z{nullptr, product_type_, chunk.size, d_.n_classes, layout.logits_stride};
      const Matrix weight = rows_at(product_type_, {0, d_.n_classes}, true);
      const Matrix x = rows_at(product_type_, chunk, convert_x_.has_value());
      matmul_->prepare(Product::nt, x, weight, z);
      if (d_.with_d_x)
        matmul_->prepare(Product::nn, z, weight, rows_at(round_d_x_ ? product_type_ : type_, chunk, !!round_d_x_));
      if (d_.d_weight_dtype != 0 && !layout.by_vocabulary)
        matmul_->prepare(Product::tn, z, x, rows_at(sum_type(layout), {0, d_.n_classes}, true));
    }
    if (!layout.by_vocabulary) return;
    for (const Part& block : parts(d_.n_classes, layout.columns)) {
      for (const Part& some : parts(rows, layout.block_rows)) {
        const Matrix z{nullptr, product_type_, some.size, block.size, layout.block_stride};
        const Matrix x = rows_at(product_type_, some, convert_x_.has_value());
        matmul_->prepare(Product::nt, x, rows_at(product_type_, block, false), z);
        matmul_->prepare(Product::tn, z, x, rows_at(sum_type(layout), block, layout.add_up_d_weight));
      }
    }
  }

  void execute(const Call& call) const override {
    const int64_t rows = call.sizes[op::dim_N];
    const LinearLayout layout = chunks_.layout(rows);
    Views views = whole_batch(call, layout, rows);
    if (rows == 0) return without_rows(views, call);
    if (convert_weight_) convert_weight_->run(views.data(), nullptr, d_.n_classes, call.stream);
    if (count_) count_->run(views.data(), nullptr, rows, call.stream);
    for (int64_t first = 0; first < rows; first += layout.chunk) {
      run_chunk(call, layout, first, std::min(layout.chunk, rows - first), &views);
    }
    if (finish_) finish_->run(views.data(), nullptr, rows, call.stream);
    if (round_d_bias_) round_d_bias_->run(views.data(), nullptr, 1, call.stream);
    if (layout.by_vocabulary) {
      for (int64_t first = 0; first < d_.n_classes; first += layout.columns) {
        run_block(call, layout, first, std::min(layout.columns, d_.n_classes - first), views);
      }
    } else if (layout.add_up_d_weight) {
      round_d_weight_->run(views.data(), nullptr, d_.n_classes, call.stream);
    }
  }

  std::vector<const Launcher*> launchers() const override {
    std::vector<const Launcher*> all;
    for (const auto* step :
         {&count_, &rows_, &finish_, &first_d_bias_, &next_d_bias_, &round_d_bias_, &convert_weight_, &convert_x_,
          &round_d_x_, &round_d_weight_, &zero_d_weight_, &zero_d_bias_, &label_logit_, &columns_}) {
      if (*step) all.push_back((*step)->launcher());
    }
    return all;
  }

 private:
  using Step = std::optional<KernelStep>;

  Step step(const kernels::Step& recorded, StepNames names) const {
    names.constants = {{"label_smoothing", d_.label_smoothing},
                       {"lse_square_scale", d_.lse_square_scale},
                       {"softcap", d_.softcap},
                       {"temperature", d_.temperature}};
    names.integers = {{"ignore_index", d_.ignore_index}};
    names.numbers = {{"first_row", 0}, {"first_column", 0}};
    return Step(std::in_place, *context_, recorded, names);
  }

  // The launches of cross-entropy: the one that takes logits runs on every chunk, the others on all rows.
  void make_cross_entropy() {
    const auto operation = configured(context_, kernels::cross_entropy_kernel,
                                      kernel_options(d_, product_type_, chunks_.may_go_by_vocabulary()));
    for (const kernels::Step& recorded : operation.steps) {
      const auto takes = [&](const char* name) {
        return std::any_of(recorded.program.arguments.begin(), recorded.program.arguments.end(),
                           [&](const program::Argument& argument) { return argument.name == name; });
      };
      if (takes("logits")) {
        rows_ = step(recorded, {.views = {{"loss", kRowLoss},
                                          {"z_loss", kRowZLoss},
                                          {"accuracy", kRowAccuracy},
                                          {"row_loss", kRowLoss},
                                          {"row_z_loss", kRowZLoss},
                                          {"row_accuracy", kRowAccuracy},
                                          {"lse", kLse},
                                          {"entropy", kEntropy},
                                          {"predictions", kPredictions},
                                          {"d_logits", kLogits},
                                          {"logits", kLogits},
                                          {"labels", kLabels},
                                          {"bias", kBias},
                                          {"weight", kClassWeight},
                                          {"d_loss", kDLoss},
                                          {"d_entropy", kDEntropy},
                                          {"counts", kCounts},
                                          {"error", kError}}});
      } else if (takes("labels")) {
        count_ = step(recorded, {.views = {{"counts", kCounts}, {"labels", kAllLabels}, {"weight", kClassWeight}}});
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

  // What the second loop needs.
  void make_columns() {
    if (!chunks_.may_go_by_vocabulary()) return;
    const kernels::CrossEntropyOptions options = kernel_options(d_, product_type_, true);
    const kernels::CrossEntropyColumns columns = kernels::cross_entropy_columns(context_->machine(), options);
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
                                             {"counts", kCounts}}});
    if (!options.token_scaling) return;
    label_logit_ =
        step(kernels::cross_entropy_label_logit(context_->machine(), options),
             {.views = {{"label_logit", kLabelLogit}, {"logits", kLogits}, {"labels", kLabels}, {"bias", kBias}}});
  }

  void make_sums() {
    if (d_.d_bias_dtype == 0) return;
    const auto machine = context_->machine();
    const StepNames names{.views = {{"d_bias", kDBias}, {"partials", kLogits}}};
    const auto sum = [&](bool accumulate) {
      return kernels::reduce_partials(machine, "d_bias", DType::f32, accumulate, d_.n_classes, product_type_);
    };
    if (!d_.accumulate) first_d_bias_ = step(sum(false), names);
    next_d_bias_ = step(sum(true), names);
  }

  void make_conversions() {
    const auto convert = [&](DType from, DType to, int64_t cols, View in, View out) {
      return step(kernels::convert_rows(context_->machine(), from, to, cols).steps[0],
                  {.views = {{"in", in}, {"out", out}}});
    };
    const auto zero = [&](int32_t type, int64_t cols, View out) {
      return step(kernels::zero_rows(context_->machine(), dtype_of(type), cols).steps[0], {.views = {{"out", out}}});
    };
    if (product_type_ != type_) {
      convert_weight_ = convert(type_, product_type_, d_.n_cols, kWeightGiven, kWeight);
      convert_x_ = convert(type_, product_type_, d_.n_cols, kXGiven, kX);
      if (d_.with_d_x) round_d_x_ = convert(product_type_, type_, d_.n_cols, kDX, kDXWanted);
    }
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

  // Products take strides of 32 bits.
  void check_widths() const {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - kMostPadding;
    for (const auto& [name, width] : {std::pair("n_classes", d_.n_classes), std::pair("n_cols", d_.n_cols)}) {
      if (width > kMost)
        fail(Status::invalid_shape, std::string("`") + name + "`: expected at most " + std::to_string(kMost) +
                                        " for matrix products, got " + std::to_string(width));
    }
  }

  void check_limit(const LinearLayout& layout, int64_t rows) const {
    if (d_.max_workspace_bytes == 0 || layout.bytes <= static_cast<size_t>(d_.max_workspace_bytes)) return;
    const bool chosen = d_.chunk_rows == 0 && d_.chunking == LIGERDSL_CHUNKING_WORKSPACE;
    fail(Status::invalid_argument,
         "`max_workspace_bytes`: expected at least " + std::to_string(layout.bytes) + " for " + std::to_string(rows) +
             (chosen ? " rows, even with chunks of one row, got " : " rows in the chunks that were asked for, got ") +
             std::to_string(d_.max_workspace_bytes) +
             (layout.add_up_d_weight ? "; with d_weight in f32, or d_x apart from x, its sums need less" : ""));
  }

  Views whole_batch(const Call& call, const LinearLayout& layout, int64_t rows) const {
    Views v{};
    const auto f32_rows = [&](size_t at) { return make_vector(call.workspace + at, DType::f32, rows); };
    const auto as_row_if = [](const BoundTensor& vector) { return vector.present ? as_row(vector) : vector; };
    const bool per_row = d_.reduction == LIGERDSL_REDUCTION_NONE;
    v[kError] = context_->error_word(op::info());
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
    v[kWeight] = convert_weight_
                     ? make_view(call.workspace + layout.weight, product_type_, d_.n_classes, d_.n_cols, d_.n_cols)
                     : v[kWeightGiven];
    v[kDWeightWanted] = call.tensors[op::k_d_weight];
    v[kAllLse] = f32_rows(layout.lse);
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

  // Some of `total` things taken `each` at a time: the first ones, the next, which may be aligned less, and the last.
  struct Part {
    int64_t first, size;
  };
  static std::array<Part, 3> parts(int64_t total, int64_t each) {
    const int64_t last = (total - 1) / each * each, second = std::min(each, last);
    return {Part{0, std::min(each, total)}, {second, std::min(each, total - second)}, {last, total - last}};
  }
  // Rows of H elements of a tensor, or a copy that begins with them.
  Matrix rows_at(DType type, const Part& part, bool copy) const {
    const int64_t offset = copy ? 0 : part.first * d_.n_cols * size_of(type);
    return {reinterpret_cast<void*>(static_cast<uintptr_t>(offset)), type, part.size, d_.n_cols, d_.n_cols};
  }
  DType sum_type(const LinearLayout& layout) const {
    return layout.add_up_d_weight ? DType::f32 : dtype_of(d_.d_weight_dtype);
  }

  // The views of these rows of the batch that both loops read.
  void select_rows(const Call& call, const LinearLayout& layout, int64_t first, int64_t count, Views* views) const {
    Views& v = *views;
    v[kXGiven] = rows_of(call.tensors[op::k_x], first, count);
    v[kX] = convert_x_ ? make_view(call.workspace + layout.x, product_type_, count, d_.n_cols, d_.n_cols) : v[kXGiven];
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

  void run_chunk(const Call& call, const LinearLayout& layout, int64_t first, int64_t count, Views* views) const {
    Views& v = *views;
    std::byte* const memory = call.workspace;
    select_rows(call, layout, first, count, views);
    v[kDXWanted] = rows_of(call.tensors[op::k_d_x], first, count);
    v[kDX] = round_d_x_ ? make_view(memory + layout.d_x, product_type_, count, d_.n_cols, d_.n_cols) : v[kDXWanted];
    v[kLogits] = make_view(memory + layout.logits, product_type_, count, d_.n_classes, layout.logits_stride);
    v[kRowLoss] = rows_of(v[kAllRowLoss], first, count);
    v[kRowZLoss] = rows_of(v[kAllRowZLoss], first, count);
    v[kRowAccuracy] = rows_of(v[kAllRowAccuracy], first, count);
    v[kPredictions] = rows_of(call.tensors[op::k_predictions], first, count);

    if (convert_x_) convert_x_->run(v.data(), nullptr, count, call.stream);
    multiply(call, layout, v, Product::nt, kX, kWeight, false, kLogits);
    if (label_logit_ && layout.by_vocabulary) label_logit_->run(v.data(), nullptr, count, call.stream);
    rows_->run(v.data(), &first, count, call.stream);
    const bool add = d_.accumulate || first > 0;
    if (next_d_bias_) (add ? next_d_bias_ : first_d_bias_)->run(v.data(), nullptr, count, call.stream);
    if (d_.d_weight_dtype != 0 && !layout.by_vocabulary)
      multiply(call, layout, v, Product::tn, kLogits, kX, add, kDWeight);
    if (d_.with_d_x) multiply(call, layout, v, Product::nn, kLogits, kWeight, false, kDX);
    if (round_d_x_) round_d_x_->run(v.data(), nullptr, count, call.stream);
  }

  // d_weight of the classes [first_column, first_column + columns).
  void run_block(const Call& call, const LinearLayout& layout, int64_t first_column, int64_t columns, Views v) const {
    std::byte* const memory = call.workspace;
    const auto part = [&](const BoundTensor& all) { return rows_of(all, first_column, columns); };
    v[kWeight] = part(v[kWeight]);
    v[kColumnBias] = part(v[kBias]);
    v[kColumnWeight] = part(v[kClassWeight]);
    v[kDWeightWanted] = part(v[kDWeightWanted]);
    v[kDWeight] = layout.add_up_d_weight
                      ? make_view(memory + layout.d_weight, DType::f32, columns, d_.n_cols, d_.n_cols)
                      : v[kDWeightWanted];
    const int64_t rows = v[kAllLabels].dims[0];
    for (int64_t first = 0; first < rows; first += layout.block_rows) {
      const int64_t count = std::min(layout.block_rows, rows - first);
      select_rows(call, layout, first, count, &v);
      v[kLogits] = make_view(memory + layout.logits, product_type_, count, columns, layout.block_stride);
      if (convert_x_) convert_x_->run(v.data(), nullptr, count, call.stream);
      multiply(call, layout, v, Product::nt, kX, kWeight, false, kLogits);
      columns_->run(v.data(), &first_column, count * kernels::ceil_div(columns, column_block_), call.stream);
      multiply(call, layout, v, Product::tn, kLogits, kX, d_.accumulate || first > 0, kDWeight);
    }
    if (layout.add_up_d_weight) round_d_weight_->run(v.data(), nullptr, columns, call.stream);
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
  DType type_, product_type_;
  std::shared_ptr<runtime::Matmul> matmul_;
  LinearChunks chunks_;
  Step count_, rows_, finish_;
  Step first_d_bias_, next_d_bias_, round_d_bias_;
  Step convert_weight_, convert_x_, round_d_x_, round_d_weight_;
  Step zero_d_weight_, zero_d_bias_;
  Step label_logit_, columns_;
  int64_t column_block_ = 0;  // columns of one program of columns_
};

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const Desc& d) {
  check_types(d);
  return std::make_unique<FusedLinearCrossEntropy>(context, d);
}

}  // namespace ligerdsl::lib
