// Fused linear Jensen-Shannon divergence. For each chunk of rows, two matmuls compute the student's
// and the teacher's logits. One kernel computes the losses, and the gradient of the student's
// logits. Two more matmuls compute the gradients of the weight and of x from it.
//
//   count the labels, if there are any
//   for each chunk of rows:
//     z = x w^T;  t = target_x target_w^T
//     losses of the rows;  d = d(loss)/dz
//     d_w += d^T x;  d_x = d w
//   loss = sum of the rows' losses
//
// d_weight is computed before d_x, so that d_x may overwrite x. If there are labels, d_x's memory
// first holds the copy of x that d^T x reads (counted_x.h).
//
// Logits are f32 for every operand dtype, because the divergence is a small difference, and the
// errors of rounded logits would exceed it. The gradient d is rounded once, to the matmuls' dtype.
// If that dtype is f32, d overwrites z. On a CPU matmuls are f32; x, target_x, d_x and both weights
// are converted if they have another dtype. On a GPU the four operands are copied if their rows are
// not aligned for the library's matmuls (need_aligned_copies).
#include <array>
#include <optional>

#include "kernels/fused_linear/logit_divergence.h"
#include "lib/abi/fused_linear/counted_x.h"
#include "lib/abi/fused_linear/linear_plan.h"
#include "lib/abi/fused_linear/report.h"
#include "lib/abi/kernel_matmul.h"
#include "lib/abi/ops/cross_entropy_options.h"

namespace ligerdsl::lib {

namespace {

namespace op = fused_linear_jsd;
using Desc = ligerdsl_fused_linear_jsd_desc_t;
using runtime::Matrix;
using runtime::Product;

struct Views {
  // Set once per call. `*_given` and `*_wanted` are the caller's tensors. A view without this
  // suffix is the same memory, a copy in the matmuls' dtype, or an f32 accumulator.
  struct Batch {
    BoundTensor weight_given, weight, target_weight_given, target_weight;
    BoundTensor labels, d_loss, counts, row_loss, loss;
    BoundTensor d_weight, d_weight_wanted;
  } batch;

  // Set for each chunk of rows.
  struct Chunk {
    BoundTensor x_given, x, target_x_given, target_x, labels;
    BoundTensor logits, target_logits;
    BoundTensor d_logits;  // same memory as `logits` if the dtypes are the same
    BoundTensor row_loss, d_x, d_x_wanted;
  } chunk;
};

void check(const Desc& d) {
  check_gradient("d_weight_dtype", d.d_weight_dtype, d.dtype, d.accumulate);
  const bool gradients = d.with_d_x || d.d_weight_dtype;
  check_upstream("with_d_loss", d.with_d_loss, gradients, "d_x or d_weight");
  if (d.without_loss && !gradients)
    fail(Status::invalid_argument,
         "`without_loss`: expected 0 without a gradient, got 1; pass loss, d_x or d_weight");
}

kernels::LogitDivergenceOptions kernel_options(const Desc& d, DType product_type) {
  using kernels::Divergence;
  return {.classes = d.n_classes,
          .type = product_type,
          .f32_logits = product_type != DType::f32,
          .kind = d.beta == 0   ? Divergence::forward_kl
                  : d.beta == 1 ? Divergence::reverse_kl
                                : Divergence::jsd,
          .reduction = reduction_of(d.reduction),
          .tempered = d.temperature != 0 && d.temperature != 1,
          .has_labels = d.label_dtype != 0,
          .label_type = dtype_of(d.label_dtype, DType::i64),
          .with_loss = d.without_loss == 0,
          .loss_type = dtype_of(d.loss_dtype),
          .with_gradient = d.with_d_x || d.d_weight_dtype != 0,
          .with_d_loss = d.with_d_loss != 0,
          .d_loss_type = dtype_of(d.d_loss_dtype)};
}

LinearChunkOptions chunk_options(const Desc& d, DType product_type, bool aligned_copies,
                                 int64_t few_rows, size_t product_workspace) {
  return {.classes = d.n_classes,
          .cols = d.n_cols,
          .target_cols = d.n_target_cols,
          .type = dtype_of(d.dtype),
          .weight_type = dtype_of(d.dtype),
          .product_type = product_type,
          .aligned_copies = aligned_copies,
          .f32_logits = true,
          .with_d_x = d.with_d_x != 0,
          .with_d_weight = d.d_weight_dtype != 0,
          .ignores_rows = d.label_dtype != 0,
          .d_weight_type = dtype_of(d.d_weight_dtype),
          .product_workspace = product_workspace,
          .few_rows = few_rows,
          .keeps_x = false,  // no second pass over blocks of the vocabulary
          .whole_weight = true,
          .chunk_rows = d.chunk_rows,
          .max_workspace_bytes = d.max_workspace_bytes};
}

class FusedLinearJsd final : public OpPlan {
 public:
  FusedLinearJsd(const ContextRef& context, const Desc& d)
      : context_(context),
        d_(d),
        type_(dtype_of(d.dtype)),
        product_type_(context->machine().is_gpu() ? type_ : DType::f32),
        aligned_copies_(takes_aligned_copies()),
        products_(products_of(*context, choice_of_products(), product_kinds())),
        matmul_(products_.matmul),
        chunks_(chunk_options(d, product_type_, aligned_copies_, few_rows(context->machine()),
                              matmul_->workspace_bytes())) {
    check_product_width("n_classes", d_.n_classes);
    check_product_width("n_cols", d_.n_cols);
    check_product_width("n_target_cols", d_.n_target_cols);
    make_divergence();
    make_conversions();
  }

  int64_t rows(const Call& call) const override {
    check_reduced(call, op::dim_L, "loss", false, 1);
    check_reduced(call, op::dim_G, "d_loss", false, 1);
    for (const auto& [name, tensor] :
         {std::pair("x", op::k_x), std::pair("weight", op::k_weight),
          std::pair("target_x", op::k_target_x), std::pair("target_weight", op::k_target_weight)})
      check_rows_disjoint(name, call.tensors[tensor]);
    return call.sizes[op::dim_N];
  }

  std::string refusal(int64_t rows) const override {
    // 3 V: both logits and the gradient. The sum of both widths: copies of rows and weights.
    return refuse_linear(rows, 3 * d_.n_classes, d_.n_cols + d_.n_target_cols);
  }

  size_t workspace_bytes(int64_t rows) const override {
    const LinearLayout layout = chunks_.layout(rows);
    check_limit(layout, rows, d_.max_workspace_bytes, d_.chunk_rows == 0,
                "; use an f32 d_weight, which needs no accumulator in the workspace");
    return layout.bytes;
  }

  // Prepares for contiguous, 256-byte aligned tensors. Calls with other tensors choose their
  // matmuls when they run.
  void prepare(int64_t rows) const override {
    if (rows == 0) return;
    const LinearLayout layout = chunks_.layout(rows);
    const Part classes{0, d_.n_classes};
    const bool copies = convert_x_.has_value(), counted = copies || (counted_x_ && !d_.with_d_x);
    const DType sums = layout.add_up_d_weight ? DType::f32 : dtype_of(d_.d_weight_dtype);
    for (const Part& chunk : parts(rows, layout.chunk)) {
      const Matrix z{nullptr, DType::f32, chunk.size, d_.n_classes, layout.logits_stride},
          d{nullptr, product_type_, chunk.size, d_.n_classes, layout.logits_stride};
      const Matrix x = rows_at(product_type_, chunk, d_.n_cols, counted);
      const Matrix weight = rows_at(product_type_, classes, d_.n_cols, true);
      matmul_->prepare(Product::nt, x, weight, z);
      matmul_->prepare(Product::nt, rows_at(product_type_, chunk, d_.n_target_cols, copies),
                       rows_at(product_type_, classes, d_.n_target_cols, true), z);
      if (d_.d_weight_dtype != 0)
        matmul_->prepare(Product::tn, d, x, rows_at(sums, classes, d_.n_cols, true));
      if (d_.with_d_x)
        matmul_->prepare(
            Product::nn, d, weight,
            rows_at(layout.add_up_d_x ? DType::f32 : type_, chunk, d_.n_cols, layout.add_up_d_x));
    }
  }

  void execute(const Call& call) const override {
    const int64_t rows = call.sizes[op::dim_N];
    const LinearLayout layout = chunks_.layout(rows);
    Views views = whole_batch(call, layout, rows);
    if (rows == 0) return without_rows(views, call);
    for (const Step* step : {&convert_weight_, &convert_target_weight_})
      if (*step) (*step)->run(view_table(views), nullptr, d_.n_classes, call.stream);
    if (count_) count_->run(view_table(views), nullptr, rows, call.stream);
    for (int64_t first = 0; first < rows; first += layout.chunk)
      run_chunk(call, layout, first, std::min(layout.chunk, rows - first), &views);
    if (finish_) finish_->run(view_table(views), nullptr, rows, call.stream);
    if (layout.add_up_d_weight)
      round_d_weight_->run(view_table(views), nullptr, d_.n_classes, call.stream);
  }

  std::vector<const Launcher*> launchers() const override {
    std::vector<const Launcher*> all;
    for (const Step* step :
         {&count_, &rows_, &finish_, &convert_weight_, &convert_target_weight_, &convert_x_,
          &convert_target_x_, &round_d_x_, &round_d_weight_, &zero_d_weight_})
      if (*step) all.push_back((*step)->launcher());
    if (counted_x_) counted_x_->add_launchers(&all);
    if (products_.kernels) products_.kernels->add_launchers(&all);
    return all;
  }

  std::vector<Fact> facts(const Call& call) const override {
    const int64_t rows = call.sizes[op::dim_N];
    return facts_of({.own_products = products_.kernels != nullptr,
                     .or_own = d_.products == LIGERDSL_PRODUCTS_AUTO,
                     .kept = LogitsAs::logits,
                     .with_d_x = d_.with_d_x != 0,
                     .with_d_weight = d_.d_weight_dtype != 0,
                     .with_d_bias = false,
                     .from_lse = false,
                     .product_type = DType::f32,
                     .classes = d_.n_classes,
                     .cols = d_.n_cols,
                     .target_cols = d_.n_target_cols},
                    chunks_.layout(rows), rows);
  }

 private:
  using Step = std::optional<KernelStep>;

  // Creates the divergence's steps. The step that reads logits runs on each chunk; the others run
  // once on all rows.
  void make_divergence() {
    const auto operation =
        configured(context_, kernels::logit_divergence_kernel, kernel_options(d_, product_type_));
    for (const kernels::Step& recorded : operation.steps) {
      const auto takes = [&](const char* name) {
        return std::any_of(
            recorded.program.arguments.begin(), recorded.program.arguments.end(),
            [&](const program::Argument& argument) { return argument.name == name; });
      };
      const bool of_chunk = takes("logits");
      StepNames names{.views = {{"logits", LIGERDSL_VIEW(chunk.logits)},
                                {"target_logits", LIGERDSL_VIEW(chunk.target_logits)},
                                {"d_logits", LIGERDSL_VIEW(chunk.d_logits)},
                                {"labels", of_chunk ? LIGERDSL_VIEW(chunk.labels)
                                                    : LIGERDSL_VIEW(batch.labels)},
                                {"d_loss", LIGERDSL_VIEW(batch.d_loss)},
                                {"counts", LIGERDSL_VIEW(batch.counts)},
                                {"row_loss", of_chunk ? LIGERDSL_VIEW(chunk.row_loss)
                                                      : LIGERDSL_VIEW(batch.row_loss)},
                                {"loss", LIGERDSL_VIEW(batch.loss)}},
                      .numbers = {{"rows", 0}},
                      .constants = {{"beta", d_.beta}, {"temperature", d_.temperature}},
                      .integers = {{"ignore_index", d_.ignore_index}}};
      Step& step = of_chunk ? rows_ : takes("labels") ? count_ : finish_;
      step.emplace(*context_, recorded, names);
    }
  }

  // Returns true if rows need aligned copies, and whole copies of both weights fit in half of the
  // workspace limit.
  bool takes_aligned_copies() const {
    if (!need_aligned_copies(context_->machine(), product_type_, d_.products, widths()))
      return false;
    const int64_t limit = d_.max_workspace_bytes;
    const kernels::Count copies =
        (kernels::Count(d_.n_cols) + d_.n_target_cols + 2 * kMostPadding) * d_.n_classes *
        size_of(product_type_);
    return limit == 0 || copies <= kernels::Count(limit / 2);
  }

  std::array<int64_t, 2> widths() const { return {d_.n_cols, d_.n_target_cols}; }

  int32_t choice_of_products() const {
    const bool own = d_.products == LIGERDSL_PRODUCTS_AUTO &&
                     (aligned_copies_ || own_products_are_faster(context_->machine(), product_type_,
                                                                 d_.n_classes, widths()));
    return own ? LIGERDSL_PRODUCTS_KERNELS : d_.products;
  }

  std::vector<ProductKind> product_kinds() const {
    return head_products({.classes = d_.n_classes,
                          .cols = d_.n_cols,
                          .type = type_,
                          .product_type = product_type_,
                          .logits_type = DType::f32,
                          .adds_up_d_x = type_ != product_type_,
                          .with_d_x = d_.with_d_x != 0,
                          .with_d_weight = d_.d_weight_dtype != 0,
                          .d_weight_type = dtype_of(d_.d_weight_dtype)});
  }

  // Creates the steps that copy, convert, round or zero tensors. The copy of x for d^T x has zeros
  // in ignored rows.
  void make_conversions() {
    const bool zeros = d_.d_weight_dtype != 0 && d_.label_dtype != 0;
    const CountedX::Views views{LIGERDSL_VIEW(chunk.x_given), LIGERDSL_VIEW(chunk.x),
                                LIGERDSL_VIEW(chunk.labels)};
    const CountedX::Rows rows{d_.n_cols, dtype_of(d_.label_dtype, DType::i64), d_.ignore_index};
    const bool copies = product_type_ != type_ || aligned_copies_;
    if (zeros && !copies)
      counted_x_.emplace(*context_, views, rows, type_, d_.with_d_x && d_.in_place);
    if (copies) {
      const auto convert = [&](int64_t cols, int in, int out) {
        return convert_step(*context_, type_, product_type_, cols, in, out);
      };
      convert_weight_ =
          convert(d_.n_cols, LIGERDSL_VIEW(batch.weight_given), LIGERDSL_VIEW(batch.weight));
      convert_target_weight_ = convert(d_.n_target_cols, LIGERDSL_VIEW(batch.target_weight_given),
                                       LIGERDSL_VIEW(batch.target_weight));
      convert_x_ = zeros ? CountedX::convert(*context_, views, rows, type_, product_type_)
                         : convert(d_.n_cols, LIGERDSL_VIEW(chunk.x_given), LIGERDSL_VIEW(chunk.x));
      convert_target_x_ = convert(d_.n_target_cols, LIGERDSL_VIEW(chunk.target_x_given),
                                  LIGERDSL_VIEW(chunk.target_x));
      if (d_.with_d_x && product_type_ != type_)
        round_d_x_ = convert_step(*context_, DType::f32, type_, d_.n_cols, LIGERDSL_VIEW(chunk.d_x),
                                  LIGERDSL_VIEW(chunk.d_x_wanted));
    }
    if (d_.d_weight_dtype == 0) return;
    const DType wanted = dtype_of(d_.d_weight_dtype);
    if (wanted != DType::f32)
      round_d_weight_ =
          convert_step(*context_, DType::f32, wanted, d_.n_cols, LIGERDSL_VIEW(batch.d_weight),
                       LIGERDSL_VIEW(batch.d_weight_wanted));
    if (!d_.accumulate)
      zero_d_weight_ =
          zero_step(*context_, wanted, d_.n_cols, LIGERDSL_VIEW(batch.d_weight_wanted));
  }

  // Returns the workspace's copy of `given` for matmuls, or `given` if there is none.
  BoundTensor copy_of(const Call& call, const BoundTensor& given, size_t at) const {
    const int64_t cols = given.dims[1];
    return convert_x_ ? make_view(call.workspace + at, product_type_, given.dims[0], cols,
                                  chunks_.copy_stride(cols))
                      : given;
  }

  Views whole_batch(const Call& call, const LinearLayout& layout, int64_t rows) const {
    Views v{};
    v.batch.counts = make_vector(call.workspace + layout.counts, DType::f32, 4);
    v.batch.row_loss = make_vector(call.workspace + layout.row_loss, DType::f32, rows);
    v.batch.labels = call.tensors[op::k_labels];
    v.batch.d_loss = call.tensors[op::k_d_loss];
    v.batch.loss = call.tensors[op::k_loss];
    v.batch.weight_given = call.tensors[op::k_weight];
    v.batch.weight = copy_of(call, v.batch.weight_given, layout.weight);
    v.batch.target_weight_given = call.tensors[op::k_target_weight];
    v.batch.target_weight = copy_of(call, v.batch.target_weight_given, layout.target_weight);
    v.batch.d_weight_wanted = call.tensors[op::k_d_weight];
    v.batch.d_weight = layout.add_up_d_weight
                           ? make_view(call.workspace + layout.d_weight, DType::f32, d_.n_classes,
                                       d_.n_cols, d_.n_cols)
                           : v.batch.d_weight_wanted;
    return v;
  }

  // Copies x, with zeros in ignored rows, to d_x's memory or to the workspace. If d_x overwrites x,
  // x becomes the copy.
  void count_x(const Call& call, const LinearLayout& layout, int64_t rows, Views* v) const {
    if (!counted_x_) return;
    const BoundTensor place =
        d_.with_d_x ? v->chunk.d_x_wanted
                    : make_view(call.workspace + layout.x, type_, rows, d_.n_cols, d_.n_cols);
    v->chunk.x = place;
    counted_x_->run(view_table(*v), rows, call.stream);
  }

  void run_chunk(const Call& call, const LinearLayout& layout, int64_t first, int64_t count,
                 Views* views) const {
    Views& v = *views;
    std::byte* const memory = call.workspace;
    const auto multiply = [&](Product product, const BoundTensor& a, const BoundTensor& b, bool add,
                              const BoundTensor& c) {
      matmul_->multiply(product, matrix(a), matrix(b), add ? 1.0f : 0.0f, matrix(c),
                        memory + layout.products, call.stream);
    };
    const auto logits_at = [&](size_t at, DType type) {
      return make_view(memory + at, type, count, d_.n_classes, layout.logits_stride);
    };
    v.chunk.x_given = rows_of(call.tensors[op::k_x], first, count);
    v.chunk.x = copy_of(call, v.chunk.x_given, layout.x);
    v.chunk.target_x_given = rows_of(call.tensors[op::k_target_x], first, count);
    v.chunk.target_x = copy_of(call, v.chunk.target_x_given, layout.target_x);
    v.chunk.logits = logits_at(layout.logits, DType::f32);
    v.chunk.target_logits = logits_at(layout.target_logits, DType::f32);
    v.chunk.d_logits = logits_at(layout.d_logits, product_type_);
    v.chunk.labels = rows_of(v.batch.labels, first, count);
    v.chunk.row_loss = rows_of(v.batch.row_loss, first, count);
    v.chunk.d_x_wanted = rows_of(call.tensors[op::k_d_x], first, count);
    v.chunk.d_x = layout.add_up_d_x
                      ? make_view(memory + layout.d_x, DType::f32, count, d_.n_cols, d_.n_cols)
                      : v.chunk.d_x_wanted;

    if (convert_x_) convert_x_->run(view_table(v), nullptr, count, call.stream);
    count_x(call, layout, count, &v);
    if (convert_target_x_) convert_target_x_->run(view_table(v), nullptr, count, call.stream);
    multiply(Product::nt, v.chunk.x, v.batch.weight, false, v.chunk.logits);
    multiply(Product::nt, v.chunk.target_x, v.batch.target_weight, false, v.chunk.target_logits);
    const int64_t all_rows = call.sizes[op::dim_N];
    rows_->run(view_table(v), &all_rows, count, call.stream);
    if (d_.d_weight_dtype != 0)
      multiply(Product::tn, v.chunk.d_logits, v.chunk.x, d_.accumulate || first > 0,
               v.batch.d_weight);
    if (d_.with_d_x) multiply(Product::nn, v.chunk.d_logits, v.batch.weight, false, v.chunk.d_x);
    if (round_d_x_) round_d_x_->run(view_table(v), nullptr, count, call.stream);
  }

  // Writes the results of a call without rows.
  void without_rows(const Views& views, const Call& call) const {
    if (finish_) finish_->run(view_table(views), nullptr, 0, call.stream);
    if (zero_d_weight_) zero_d_weight_->run(view_table(views), nullptr, d_.n_classes, call.stream);
  }

  ContextRef context_;
  Desc d_;
  DType type_, product_type_;
  bool aligned_copies_;
  Products products_;
  std::shared_ptr<runtime::Matmul> matmul_;
  LinearChunks chunks_;
  Step count_, rows_, finish_;
  Step convert_weight_, convert_target_weight_, convert_x_, convert_target_x_, round_d_x_,
      round_d_weight_;
  Step zero_d_weight_;
  std::optional<CountedX> counted_x_;  // set if d^T x needs zeros that convert_x_ does not write
};

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const Desc& d) {
  check(d);
  return std::make_unique<FusedLinearJsd>(context, d);
}

}  // namespace ligerdsl::lib
