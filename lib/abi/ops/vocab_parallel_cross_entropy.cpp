// Cross-entropy over a sharded vocabulary: two operations. Between the two, the caller's ranks
// exchange the statistics of their shards.
#include "kernels/cross_entropy/vocab_parallel_cross_entropy.h"

#include <algorithm>
#include <limits>

#include "lib/abi/ops/cross_entropy_options.h"

namespace ligerdsl::lib {

namespace {

// Returns the number of classes of the whole vocabulary. If the descriptor does not give it, the
// shard is assumed to be the last one. Fails if the shard exceeds it.
template <class Desc>
int64_t total_classes(const Desc& d) {
  const int64_t end = d.first_class + d.n_classes;  // no overflow: both are at most 2^52
  if (d.total_classes == 0) return end;
  if (end > d.total_classes)
    fail(Status::invalid_argument,
         "`total_classes`: expected at least first_class + n_classes = " +
             std::to_string(d.first_class) + " + " + std::to_string(d.n_classes) +
             ", or 0 if the shard is the last one, got " + std::to_string(d.total_classes));
  return d.total_classes;
}

// Kernels report labels >= `classes`.
template <class Desc>
OperationPlan::Bindings bindings_of(const Desc& d, int64_t classes) {
  OperationPlan::Bindings bindings;
  bindings.integers = {
      {"ignore_index", d.ignore_index}, {"first_class", d.first_class}, {"total_classes", classes}};
  return bindings;
}

void check_columns(const Call& call, int symbol, bool smoothing, const char* field) {
  const int64_t expected = kernels::partial_columns(smoothing), got = call.sizes[symbol];
  if (got == expected) return;
  fail(Status::invalid_shape, "`partials`: expected rows of " + std::to_string(expected) +
                                  " numbers with" + (smoothing ? " `" : "out `") + field +
                                  "`, got " + std::to_string(got));
}

// Returns the number of shards whose statistics are in `partials`.
int64_t shards_of(const Call& call) {
  const int64_t rows = call.sizes[vocab_parallel_cross_entropy::dim_N];
  return rows == 0 ? 0 : call.sizes[vocab_parallel_cross_entropy::dim_M] / rows;
}

// Returns the formulas' smoothing factor a, with K = classes.
double smoothing_share(const ligerdsl_vocab_parallel_cross_entropy_desc_t& d, int64_t classes) {
  if (!d.smooth_others || d.label_smoothing == 0) return d.label_smoothing;
  if (classes < 2)
    fail(Status::invalid_argument,
         "`smooth_others`: expected 0 with a single class, got 1; label smoothing over other "
         "classes needs at least 2 classes");
  return double{d.label_smoothing} * static_cast<double>(classes) /
         static_cast<double>(classes - 1);
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_vocab_parallel_cross_entropy_partials_desc_t& d) {
  namespace op = vocab_parallel_cross_entropy_partials;
  const kernels::VocabParallelPartialsOptions options{.classes = d.n_classes,
                                                      .type = dtype_of(d.dtype),
                                                      .label_type = dtype_of(d.label_dtype),
                                                      .smoothing = d.with_smoothing != 0};
  // Without total_classes a label after the shard may belong to a later shard.
  const int64_t classes =
      d.total_classes == 0 ? std::numeric_limits<int64_t>::max() : total_classes(d);
  OperationPlan::Bindings bindings = bindings_of(d, classes);
  bindings.rows = [smoothing = options.smoothing](const Call& call) {
    check_columns(call, op::dim_C, smoothing, "with_smoothing");
    return call.sizes[op::dim_N];
  };
  return plan_of(context, op::info(), d,
                 configured(context, kernels::vocab_parallel_partials_kernel, options),
                 std::move(bindings));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_vocab_parallel_cross_entropy_desc_t& d) {
  namespace op = vocab_parallel_cross_entropy;
  const bool with_gradient = d.with_d_logits != 0, with_loss = d.without_loss == 0;
  if (!with_loss && !with_gradient)
    fail(Status::invalid_argument,
         "`without_loss`: expected 0 without d_logits, got 1; pass loss, d_logits or both");
  check_upstream("with_d_loss", d.with_d_loss, with_gradient, "d_logits");
  const kernels::VocabParallelCrossEntropyOptions options{.classes = d.n_classes,
                                                          .type = dtype_of(d.dtype),
                                                          .label_type = dtype_of(d.label_dtype),
                                                          .reduction = reduction_of(d.reduction),
                                                          .smoothing = d.label_smoothing != 0,
                                                          .shard_smoothing = d.shard_smoothing != 0,
                                                          .with_loss = with_loss,
                                                          .loss_type = dtype_of(d.loss_dtype),
                                                          .with_gradient = with_gradient,
                                                          .with_d_loss = d.with_d_loss != 0,
                                                          .d_loss_type = dtype_of(d.d_loss_dtype)};
  OperationPlan::Bindings bindings = bindings_of(d, total_classes(d));
  const int64_t smoothed = d.shard_smoothing ? d.n_classes : total_classes(d);
  const double share = smoothing_share(d, smoothed);
  bindings.numbers = {{"label_smoothing", share},
                      {"smoothing_of_class", share / static_cast<double>(smoothed)}};
  bindings.integers.emplace_back("shard", d.shard);
  bindings.integers_of_call = {{"shards", shards_of}};
  bindings.rows = [per_row = d.reduction == LIGERDSL_REDUCTION_NONE, smoothing = options.smoothing,
                   whole_given = d.total_classes != 0,
                   own = options.smoothing && options.shard_smoothing ? d.shard : 0,
                   alone = options.smoothing && options.shard_smoothing &&
                           d.n_classes < total_classes(d)](const Call& call) {
    const int64_t rows = call.sizes[op::dim_N], partials = call.sizes[op::dim_M];
    check_reduced(call, op::dim_L, "loss", per_row, rows);
    check_reduced(call, op::dim_G, "d_loss", per_row, rows);
    check_columns(call, op::dim_C, smoothing, "label_smoothing");
    if (rows == 0 ? partials != 0 : partials == 0 || partials % rows != 0)
      fail(Status::invalid_shape, "`partials`: expected the same number of rows as labels, " +
                                      std::to_string(rows) + ", for each shard, got " +
                                      std::to_string(partials) + " rows in all");
    if (!whole_given && rows > 0 && partials > rows)
      fail(Status::invalid_argument,
           "`total_classes`: expected the number of classes of the whole vocabulary, because "
           "partials has the rows of " +
               std::to_string(partials / rows) + " shards, got 0");
    if (alone && rows > 0 && partials == rows)
      fail(Status::invalid_argument,
           "`partials`: expected the rows of all shards, which `shard_smoothing` needs, got " +
               std::to_string(rows) + " rows, those of one shard");
    if (own > 0 && rows > 0 && own >= partials / rows)
      fail(Status::invalid_argument,
           "`shard`: expected 0 to " + std::to_string(partials / rows - 1) +
               ", the shards whose partials are passed, got " + std::to_string(own));
    return rows;
  };
  return plan_of(context, op::info(), d,
                 configured(context, kernels::vocab_parallel_cross_entropy_kernel, options),
                 std::move(bindings));
}

}  // namespace ligerdsl::lib
