// Vocabulary-parallel cross-entropy.
#include <cmath>

#include "execute.h"

namespace ligerdsl::test::execute_vocab_parallel_test {
namespace {

// Two shards of a five-class vocabulary with equal logits, as columns of one tensor. The second
// label is ignored, and the third is not a class.
TEST_F(Execute, VocabParallelCrossEntropy) {
  Owned logits(LIGERDSL_F32, {3, 5}), labels(LIGERDSL_I64, {3}), partials(LIGERDSL_F32, {2, 3, 3}),
      loss(LIGERDSL_F32, {3}), d(LIGERDSL_F32, {3, 5});
  std::fill_n(logits.floats(), 15, 2.0f);
  labels.storage = {3, -100, 5};
  const int64_t first[] = {0, 2}, width[] = {2, 3};
  const auto columns = [&](Owned& of, int s) {
    return Tensor(of.floats() + first[s], {LIGERDSL_CPU, 0}, LIGERDSL_F32, {3, width[s]}, {5, 1});
  };
  for (int s = 0; s < 2; ++s) {
    VocabParallelCrossEntropyPartialsDesc desc = vocab_parallel_cross_entropy_partials_desc();
    desc.first_class = first[s];
    desc.total_classes = 5;
    VocabParallelCrossEntropyPartialsArgs args = vocab_parallel_cross_entropy_partials_args();
    const Tensor x = columns(logits, s),
                 own(partials.floats() + 9 * s, {LIGERDSL_CPU, 0}, LIGERDSL_F32, {3, 3});
    args.logits = x;
    args.labels = labels;
    args.partials = own;
    vocab_parallel_cross_entropy_partials(context_, desc, args);
    expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_LABEL,
                   {"out of bounds", "row 2"});
  }
  const float statistics[] = {2, 2, 0, 0, 0, 0};
  for (int i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(partials.floats()[i], statistics[i]) << i;
  EXPECT_FLOAT_EQ(partials.floats()[10], 2) << "the label's power is not among the others";
  EXPECT_FLOAT_EQ(partials.floats()[11], 2);
  for (int s = 0; s < 2; ++s) {
    VocabParallelCrossEntropyDesc desc = vocab_parallel_cross_entropy_desc();
    desc.first_class = first[s];
    desc.total_classes = 5;
    VocabParallelCrossEntropyArgs args = vocab_parallel_cross_entropy_args();
    const Tensor x = columns(logits, s), d_x = columns(d, s);
    args.logits = x;
    args.labels = labels;
    args.partials = partials;
    args.loss = loss;
    args.d_logits = d_x;
    vocab_parallel_cross_entropy(context_, desc, args);
    expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_LABEL,
                   {"out of bounds", "row 2"});
    EXPECT_FLOAT_EQ(loss.floats()[0], std::log(5.0f));
    EXPECT_EQ(loss.floats()[1], 0);
    EXPECT_TRUE(std::isnan(loss.floats()[2]));
  }
  for (int j = 0; j < 5; ++j) {
    EXPECT_NEAR(d.floats()[j], j == 3 ? -0.8f : 0.2f, 1e-6f) << j;
    EXPECT_EQ(d.floats()[5 + j], 0) << j;
    EXPECT_TRUE(std::isnan(d.floats()[10 + j])) << j;
  }
}

// Without the size of the vocabulary, a shard assumes that larger labels belong to later shards.
TEST_F(Execute, LabelsOfLaterShardsAreAccepted) {
  Owned logits(LIGERDSL_F32, {3, 2}), labels(LIGERDSL_I64, {3}), partials(LIGERDSL_F32, {3, 3});
  labels.storage = {1, 4, -1};
  VocabParallelCrossEntropyPartialsArgs args = vocab_parallel_cross_entropy_partials_args();
  args.logits = logits;
  args.labels = labels;
  args.partials = partials;
  vocab_parallel_cross_entropy_partials(context_, vocab_parallel_cross_entropy_partials_desc(),
                                        args);
  expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_LABEL,
                 {"label out of bounds in row 2", "total_classes"});
  const float statistics[] = {0, 1, 0, 0, 2, 0};
  for (int i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(partials.floats()[i], statistics[i]) << i;

  // The loss over several shards needs the size of the vocabulary.
  Owned both(LIGERDSL_F32, {2, 3, 3}), loss(LIGERDSL_F32, {3});
  VocabParallelCrossEntropyDesc desc = vocab_parallel_cross_entropy_desc();
  VocabParallelCrossEntropyArgs of_all = vocab_parallel_cross_entropy_args();
  of_all.logits = logits;
  of_all.labels = labels;
  of_all.partials = both;
  of_all.loss = loss;
  expect_failure(ligerdsl_vocab_parallel_cross_entropy(context_.get(), &desc, &of_all, nullptr),
                 LIGERDSL_INVALID_ARGUMENT, {"`total_classes`", "2 shards, got 0"});
}

TEST_F(Execute, VocabularyShardsAreChecked) {
  Owned x(LIGERDSL_F32, {4, 8}), labels(LIGERDSL_I64, {4}), three(LIGERDSL_F32, {2, 4, 3}),
      five(LIGERDSL_F32, {4, 5}), odd(LIGERDSL_F32, {6, 3}), loss(LIGERDSL_F32, {4}),
      upstream(LIGERDSL_F32, {4}), one(LIGERDSL_F32, {1}), column(LIGERDSL_F32, {4, 1});
  VocabParallelCrossEntropyPartialsDesc first = vocab_parallel_cross_entropy_partials_desc();
  VocabParallelCrossEntropyPartialsArgs statistics = vocab_parallel_cross_entropy_partials_args();
  const auto first_refused = [&](ligerdsl_status_t status,
                                 std::initializer_list<const char*> words) {
    expect_failure(ligerdsl_vocab_parallel_cross_entropy_partials(context_.get(), &first,
                                                                  &statistics, nullptr),
                   status, words);
  };
  statistics.logits = x;
  statistics.labels = labels;
  statistics.partials = five;
  first_refused(LIGERDSL_INVALID_SHAPE,
                {"`partials`", "rows of 3 numbers without `with_smoothing`", "got 5"});
  first.first_class = 16;
  first.total_classes = 20;
  first_refused(LIGERDSL_INVALID_ARGUMENT, {"`total_classes`", "16 + 8", "got 20"});
  first.first_class = -1;
  first_refused(LIGERDSL_INVALID_ARGUMENT, {"`first_class`", "got -1"});

  VocabParallelCrossEntropyDesc desc = vocab_parallel_cross_entropy_desc();
  VocabParallelCrossEntropyArgs args = vocab_parallel_cross_entropy_args();
  const auto refused = [&](ligerdsl_status_t status, std::initializer_list<const char*> words) {
    expect_failure(ligerdsl_vocab_parallel_cross_entropy(context_.get(), &desc, &args, nullptr),
                   status, words);
  };
  args.logits = x;
  args.labels = labels;
  args.partials = three;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`without_loss`", "expected 0 without d_logits"});
  args.loss = one;
  refused(LIGERDSL_INVALID_SHAPE, {"`loss`", "expected 4 elements", "got 1"});
  args.loss = loss;
  args.d_loss = upstream;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`with_d_loss`", "expected 0 without d_logits"});
  args.d_loss = nullptr;
  args.partials = odd;
  refused(LIGERDSL_INVALID_SHAPE, {"`partials`", "the same number of rows as labels, 4,", "got 6"});
  args.partials = five;
  refused(LIGERDSL_INVALID_SHAPE,
          {"`partials`", "rows of 3 numbers without `label_smoothing`", "got 5"});
  desc.label_smoothing = 0.1f;
  args.partials = three;
  refused(LIGERDSL_INVALID_SHAPE,
          {"`partials`", "rows of 5 numbers with `label_smoothing`", "got 3"});
  args.partials = five;
  desc.shard_smoothing = 1;
  desc.shard = 1;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`shard`", "expected 0 to 0", "got 1"});
  desc.shard = 0;
  desc.total_classes = 16;
  refused(LIGERDSL_INVALID_ARGUMENT,
          {"`partials`", "which `shard_smoothing` needs", "got 4 rows, those of one shard"});
  desc.total_classes = 0;
  const Tensor shared(labels.storage.data(), {LIGERDSL_CPU, 0}, LIGERDSL_F32, {4});
  args.loss = shared;
  refused(LIGERDSL_INVALID_ALIAS, {"`loss`", "`labels`"});
  args.loss = loss;
  desc.smooth_others = 1;
  desc.n_classes = 0;
  args.logits = column;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`smooth_others`", "a single class"});
  desc.reduction = LIGERDSL_REDUCTION_BATCHMEAN;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`reduction`", "got 3"});
}

}  // namespace
}  // namespace ligerdsl::test::execute_vocab_parallel_test
