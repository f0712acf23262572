// Tests labels, ignored rows, infinite and NaN logits, and ties.
#include "tests/kernels/cross_entropy/cross_entropy_trial.h"

namespace ligerdsl::test::cross_entropy_labels_test {
namespace {

using kernels::CrossEntropyOptions;
using Trial = CrossEntropyTrial;

// Labels with a stride, as in a column of a table, give the same bits.
TEST(CrossEntropy, LabelsOfAnyStride) {
  for (DType label_type : {i64, i32}) {
    for (Reduce reduction : {Reduce::none, Reduce::mean}) {
      for (int64_t v : affordable({41, 33000}, 7)) {
        const CrossEntropyCase c{.weight = class_weights(v), .reduction = reduction};
        Trial near(bf16, 7, v, c), strided(bf16, 7, v, c);
        for (Trial* run : {&near, &strided}) run->o.label_type = label_type;
        strided.label_stride = 3;
        near.run();
        strided.check();
        EXPECT_TRUE(strided.d_logits.same_bits(near.d_logits));
        EXPECT_TRUE(strided.loss.same_bits(near.loss));
      }
    }
  }
  Trial counted_at_the_end(f32, 2050, 5);
  counted_at_the_end.o.with_gradient = false;
  counted_at_the_end.label_stride = 2;
  counted_at_the_end.run();
  const auto expected = cross_entropy_reference(counted_at_the_end.logits.values(),
                                                counted_at_the_end.labels, counted_at_the_end.c);
  EXPECT_TRUE(close_loss(counted_at_the_end.loss.values(), expected.loss));
}

TEST(CrossEntropy, LabelsOfBothWidths) {
  Trial wide(f32, 8, 30), narrow(f32, 8, 30);
  narrow.o.label_type = i32;
  wide.run();
  narrow.run();
  EXPECT_TRUE(narrow.d_logits.same_bits(wide.d_logits) && narrow.loss.same_bits(wide.loss));
}

TEST(CrossEntropy, LabelsOutOfRange) {
  for (int64_t v : affordable({30, 20000}, 8)) {
    for (int64_t bad : {v, int64_t{-1}, int64_t{1} << 40, INT64_MIN, INT64_MAX}) {
      Trial run(f32, 8, v, {.reduction = Reduce::none});
      run.labels[2] = run.labels[5] = bad;
      run.run();
      EXPECT_EQ(kernels::kErrorBase - run.error.get_integer(0), 2) << "the first bad row";
      const auto expected = cross_entropy_reference(run.logits.values(), run.labels, run.c);
      EXPECT_TRUE(close_loss(run.loss.values(), expected.loss));
      EXPECT_TRUE(close(run.d_logits.values(), expected.d_logits, gate_e(f32)));
      EXPECT_TRUE(run.d_logits.untouched_outside());
    }
  }
  Trial mean(f32, 8, 30, {.weight = class_weights(30)});
  mean.labels[3] = 30;
  mean.run();
  EXPECT_TRUE(std::isnan(mean.loss.get(0)));
  EXPECT_EQ(kernels::kErrorBase - mean.error.get_integer(0), 3);
}

TEST(CrossEntropy, IgnoredRows) {
  for (int64_t index : {int64_t{0}, int64_t{2}, int64_t{-100}, int64_t{-123}}) {
    Trial(f32, 10, 5, {.ignore_index = index}).check();
  }
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    Trial all(f32, 6, 40, {.lse_square = exact(1e-3), .reduction = reduction});
    for (int64_t& label : all.labels) label = -100;
    all.logits.set(3, NAN);  // ignored rows are not read
    all.run();
    for (double value : all.loss.values()) EXPECT_EQ(value, 0.0);
    for (double value : all.accuracy.values()) EXPECT_EQ(value, 0.0);
    for (double value : all.d_logits.values()) EXPECT_EQ(value, 0.0);
  }
  Trial one(f32, 6, 40);
  for (int64_t i = 0; i < 5; ++i) one.labels[i] = -100;
  one.labels[5] = 39;
  one.check();
}

TEST(CrossEntropy, InfiniteLogits) {
  for (int64_t v : affordable({20, 20000}, 4)) {
    Trial run(f32, 4, v, {.reduction = Reduce::none});
    run.labels = {1, 1, 2, 3};
    for (int64_t j = 0; j < v; ++j) {
      if (j % 3 == 0) run.logits.set(j, -INFINITY);
      if (j != 1) run.logits.set(v + j, -INFINITY);
    }
    run.logits.set(2 * v + 2, -INFINITY);  // the label's logit: the loss is infinite
    run.check();
    EXPECT_NEAR(run.loss.get(1), 0.0, kGateLoss);
    EXPECT_EQ(run.loss.get(2), INFINITY);
    EXPECT_EQ(run.d_logits.get(0), 0.0);
  }
}

// Labels are at the borders of blocks. The last block lacks one column, is full, or has one column.
TEST(CrossEntropy, LabelsAtTheBordersOfBlocks) {
  for (int64_t v : affordable({16383, 16384, 16385, 24576}, 7)) {
    Trial run(f32, 7, v, {.smoothing = 0.1, .softcap = 20, .reduction = Reduce::none});
    run.labels = {0, 4095, 4096, 8191, 8192, 16382, v - 1};
    run.check();
  }
}

// A row with NaN has a NaN loss; its prediction is some class.
TEST(CrossEntropy, RowsOfNaNPredictAClass) {
  for (int64_t v : affordable({20, 20000}, 2)) {
    Trial run(f32, 2, v, {.reduction = Reduce::none});
    run.labels = {3, 5};
    for (int64_t j = 0; j < v; ++j) run.logits.set(j, NAN);
    run.logits.set(v + 17, NAN);
    run.run();
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(std::isnan(run.loss.get(i))) << i;
      EXPECT_TRUE(std::isnan(run.d_logits.get(i * v + 7))) << i;
      EXPECT_GE(run.predictions.get_integer(i), 0);
      EXPECT_LT(run.predictions.get_integer(i), v);
    }
  }
}

TEST(CrossEntropy, TiesGoToTheLowestIndex) {
  for (int64_t v : affordable({50, 20000}, 2)) {
    Trial run(f32, 2, v, {.reduction = Reduce::none});
    run.labels = {3, v - 1};
    for (int64_t j = 0; j < v; ++j)
      run.logits.set(j, 1.0), run.logits.set(v + j, j == v - 1 || j == 20 ? 5.0 : 0.0);
    run.check();
    EXPECT_EQ(run.predictions.get_integer(0), 0);
    EXPECT_EQ(run.predictions.get_integer(1), 20);
  }
}

// The label's gradient p_y - 1 is only as exact as p_y, whose f32 spacing near 1 is 2^-24.
TEST(CrossEntropy, ConfidentRowsKeepTheTargetsDigits) {
  for (int64_t v : affordable({64, 20000}, 3)) {
    Trial run(f32, 3, v, {.reduction = Reduce::none});
    run.labels = {5, 9, 7};
    run.logits.set(5, 20.0);
    run.logits.set(v + 9, 17.3);
    run.logits.set(2 * v + 7, 1000.7);
    run.run();
    const Values expected =
        cross_entropy_reference(run.logits.values(), run.labels, run.c).d_logits;
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t at = i * v + run.labels[i];
      EXPECT_NEAR(run.d_logits.get(at), expected[at], 4 * 0x1p-24 * backend().summation_slack())
          << "row " << i;
    }
  }
}

TEST(CrossEntropy, LossTypeAndRepeat) {
  Trial run(bf16, 6, 100), again(bf16, 6, 100);
  for (Trial* r : {&run, &again}) {
    r->o.loss_type = bf16;
    r->make_outputs();
    r->run();
  }
  EXPECT_TRUE(run.loss.same_bits(again.loss) && run.d_logits.same_bits(again.d_logits));
  const auto expected = cross_entropy_reference(run.logits.values(), run.labels, run.c);
  EXPECT_TRUE(close(run.loss.values(), expected.loss, gate_e(bf16)));
}

TEST(CrossEntropy, NoRows) {
  Trial run(f32, 0, 10);
  run.run();
  EXPECT_EQ(run.loss.get(0), 0.0);
  EXPECT_EQ(run.accuracy.get(0), 0.0);
}

}  // namespace
}  // namespace ligerdsl::test::cross_entropy_labels_test
