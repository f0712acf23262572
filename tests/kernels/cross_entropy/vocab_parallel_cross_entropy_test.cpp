#include "kernels/cross_entropy/vocab_parallel_cross_entropy.h"

#include <cmath>
#include <numeric>

#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "kernels/cross_entropy/vocab_parallel_cross_entropy_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::vocab_parallel_cross_entropy_test {
namespace {

double exact(double value) {
  return static_cast<float>(value);
}

// Logits of the whole vocabulary, and each shard's results.
struct Trial {
  DType type, label_type = i64, loss_type = f32, d_loss_type = f32;
  VocabParallelCase c;  // case of the first shard; options apply to all shards
  std::vector<int64_t> sizes;
  int64_t gap;
  bool with_d_loss = false, in_place = false;
  std::vector<int64_t> labels;
  Values logits;  // [n, total]
  // One tensor per shard.
  std::vector<Tensor> shards, partials, losses, gradients, errors;

  Trial(DType type, int64_t n, std::vector<int64_t> sizes, VocabParallelCase with = {},
        double spread = 1.0, int64_t gap = 0)
      : type(type), c(with), sizes(std::move(sizes)), gap(gap) {
    c.n = n;
    c.total_classes = std::accumulate(this->sizes.begin(), this->sizes.end(), int64_t{0});
    logits = Tensor(type, {n, c.total_classes})
                 .fill(Random(11).normals(n * c.total_classes, spread))
                 .values();
    Random random(12);
    for (int64_t i = 0; i < n; ++i)
      labels.push_back(i % 5 == 4 ? c.ignore_index : random.below(c.total_classes));
  }
  VocabParallelCase shard_case(size_t s) const {
    VocabParallelCase one = c;
    one.classes = sizes[s];
    one.first_class =
        std::accumulate(sizes.begin(), sizes.begin() + static_cast<int64_t>(s), int64_t{0});
    one.shard = static_cast<int64_t>(s);
    return one;
  }
  // Returns a shard's columns from rows of the whole vocabulary.
  Values columns_of(const Values& all, size_t s) const {
    const VocabParallelCase one = shard_case(s);
    Values out;
    for (int64_t i = 0; i < c.n; ++i) {
      const auto row = all.begin() + i * c.total_classes + one.first_class;
      out.insert(out.end(), row, row + one.classes);
    }
    return out;
  }
  Tensor label_tensor() const { return Tensor(label_type, {c.n}).fill(labels); }

  void run_partials() {
    for (size_t s = 0; s < sizes.size(); ++s) {
      const VocabParallelCase one = shard_case(s);
      shards.push_back(Tensor::rows(type, c.n, one.classes, gap).fill(columns_of(logits, s)));
      partials.push_back(Tensor(f32, {c.n, c.columns()}));
      errors.push_back(Tensor(i64, {1}).fill(std::vector<int64_t>{0}));
      const kernels::VocabParallelPartialsOptions o{.classes = one.classes,
                                                    .type = type,
                                                    .label_type = label_type,
                                                    .smoothing = c.smoothing > 0};
      backend().run(kernels::vocab_parallel_partials(machine(), o), c.n,
                    Arguments()
                        .tensor("partials", partials[s])
                        .tensor("logits", shards[s])
                        .tensor("labels", label_tensor())
                        .tensor("error", errors[s])
                        .integer("ignore_index", c.ignore_index)
                        .integer("first_class", one.first_class)
                        .integer("total_classes", c.total_classes));
    }
  }
  // Returns the statistics that each rank has after an all-gather.
  Tensor gathered() const {
    Values all;
    for (const Tensor& one : partials) {
      const Values values = one.values();
      all.insert(all.end(), values.begin(), values.end());
    }
    return Tensor(f32, {static_cast<int64_t>(sizes.size()) * c.n, c.columns()}).fill(all);
  }
  // Returns the statistics that each rank has after all-reduces by maximum and sum.
  Tensor reduced() const {
    Values all(c.n * c.columns(), 0.0);
    for (int64_t i = 0; i < c.n; ++i) {
      double* to = &all[i * c.columns()];
      to[0] = -INFINITY;
      for (const Tensor& one : partials) to[0] = std::max(to[0], one.get(i * c.columns()));
      for (const Tensor& one : partials) {
        const auto part = [&](int64_t column) { return one.get(i * c.columns() + column); };
        to[1] += part(1) * std::exp(part(0) - to[0]);
        to[2] += part(2);
        if (c.columns() == 3) continue;
        to[3] += part(3) + part(4) * (part(0) - to[0]);
        to[4] += part(4);
      }
    }
    return Tensor(f32, {c.n, c.columns()}).fill(all);
  }
  void run_losses(const Tensor& all, bool with_gradient = true) {
    losses.clear();
    gradients.clear();
    const bool each = c.reduction == Reduce::none;
    if (with_d_loss && each) c.upstream = Random(5).normals(c.n);
    Tensor d_loss = Tensor(d_loss_type, {each ? c.n : 1});
    if (with_d_loss) c.upstream = d_loss.fill(c.upstream).values();
    for (size_t s = 0; s < sizes.size(); ++s) {
      const VocabParallelCase one = shard_case(s);
      losses.push_back(Tensor(loss_type, {each ? c.n : 1}));
      gradients.push_back(in_place ? shards[s] : Tensor::rows(type, c.n, one.classes, gap));
      const kernels::VocabParallelCrossEntropyOptions o{
          .classes = one.classes,
          .type = type,
          .label_type = label_type,
          .reduction = static_cast<kernels::Reduction>(c.reduction),
          .smoothing = c.smoothing > 0,
          .shard_smoothing = c.shard_smoothing,
          .loss_type = loss_type,
          .with_gradient = with_gradient,
          .with_d_loss = with_d_loss && with_gradient,
          .d_loss_type = d_loss_type};
      backend().run(kernels::vocab_parallel_cross_entropy(machine(), o), c.n,
                    Arguments()
                        .tensor("logits", shards[s])
                        .tensor("labels", label_tensor())
                        .tensor("partials", all)
                        .tensor("loss", losses[s])
                        .tensor("d_logits", gradients[s])
                        .tensor("d_loss", d_loss)
                        .tensor("error", errors[s])
                        .integer("ignore_index", c.ignore_index)
                        .integer("first_class", one.first_class)
                        .integer("total_classes", c.total_classes)
                        .integer("shards", all.size() / std::max<int64_t>(c.n * c.columns(), 1))
                        .integer("shard", one.shard)
                        .number("label_smoothing", one.share())
                        .number("smoothing_of_class", one.share() / one.smoothed()));
    }
  }
  void run() {
    run_partials();
    run_losses(gathered());
  }
  std::string describe() const {
    return std::string(name(type)) + " n=" + std::to_string(c.n) +
           " v=" + std::to_string(c.total_classes) + " in " + std::to_string(sizes.size()) +
           " shards of " + std::to_string(sizes[0]) + ".. reduction " +
           std::to_string(static_cast<int>(c.reduction)) + " smoothing " +
           std::to_string(c.smoothing);
  }
  // Compares each shard's results with the reference, computed from float64 statistics.
  void expect_right(bool with_gradient = true) {
    Values exact_partials;
    for (size_t s = 0; s < sizes.size(); ++s) {
      const Values more =
          vocab_parallel_partials_reference(columns_of(logits, s), labels, shard_case(s));
      exact_partials.insert(exact_partials.end(), more.begin(), more.end());
    }
    for (size_t s = 0; s < sizes.size(); ++s) {
      const auto right =
          vocab_parallel_reference(exact_partials, columns_of(logits, s), labels, shard_case(s));
      EXPECT_TRUE(loss_type == f32 ? close_loss(losses[s].values(), right.loss)
                                   : close(losses[s].values(), right.loss, gate_e(loss_type)))
          << "loss of shard " << s;
      if (with_gradient) {
        EXPECT_TRUE(close(gradients[s].values(), right.d_logits, gate_e(type)))
            << "d_logits of shard " << s;
      }
      for (const Tensor& t : {losses[s], gradients[s], shards[s], partials[s], errors[s]})
        EXPECT_TRUE(t.untouched_outside());
    }
  }
  // Compares with the formulas of the whole vocabulary, which do not depend on shards.
  void expect_as_one() const {
    CrossEntropyCase whole{.n = c.n,
                           .classes = c.total_classes,
                           .ignore_index = c.ignore_index,
                           .smoothing = c.share(),
                           .reduction = c.reduction,
                           .upstream = c.upstream};
    const CrossEntropyResult right = cross_entropy_reference(logits, labels, whole);
    for (size_t s = 0; s < sizes.size(); ++s) {
      EXPECT_TRUE(loss_type == f32 ? close_loss(losses[s].values(), right.loss)
                                   : close(losses[s].values(), right.loss, gate_e(loss_type)))
          << "loss of shard " << s;
      EXPECT_TRUE(close(gradients[s].values(), columns_of(right.d_logits, s), gate_e(type)))
          << "shard " << s;
      EXPECT_TRUE(losses[s].same_bits(losses[0])) << "shard " << s;
    }
  }
  void check() {
    SCOPED_TRACE(describe());
    run();
    expect_right();
    if (!c.shard_smoothing) expect_as_one();
    for (const Tensor& error : errors) EXPECT_EQ(error.get_integer(0), 0);
  }
};

TEST(VocabParallelCrossEntropy, ShardsTypesAndStrides) {
  int64_t number = 0;
  const std::vector<std::vector<int64_t>> all{
      {1},           {41},           {1, 1},
      {64, 64},      {40, 1, 23},    {1023, 4097},
      {4096, 12000}, {16032, 16032}, {8, 16, 24, 32, 40, 48, 56, 64}};
  for (const std::vector<int64_t>& sizes : all) {
    if (5 * std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) > backend().budget()) continue;
    for (DType type : kFloats) Trial(type, 5, sizes, {}, 2.0, gap_of(number++)).check();
  }
}

TEST(VocabParallelCrossEntropy, WideShards) {
  for (int64_t v : affordable({20003, 32064, 128256}, 3)) {
    for (DType type : {bf16, f32})
      Trial(type, 3, {v, 8}, {.smoothing = v < 30000 ? exact(0.1) : 0}, 1.0, 8).check();
  }
}

TEST(VocabParallelCrossEntropy, ManyRows) {
  Trial(f32, std::min<int64_t>(2500, backend().budget() / 64), {20, 21},
        {.reduction = Reduce::mean})
      .check();
}

TEST(VocabParallelCrossEntropy, ReductionsAndUpstreamGradients) {
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    for (double smoothing : {0.0, exact(0.1)}) {
      for (DType type : kFloats) {
        Trial run(type, 9, {30, 17},
                  {.smoothing = smoothing, .reduction = reduction, .upstream = {3.0}});
        run.with_d_loss = true;
        if (type == bf16) run.label_type = i32, run.loss_type = bf16, run.d_loss_type = f16;
        run.check();
      }
    }
  }
}

TEST(VocabParallelCrossEntropy, Smoothing) {
  for (bool shard : {false, true}) {
    for (bool others : {false, true}) {
      for (const auto& sizes : {std::vector<int64_t>{37, 20, 64}, {5000, 12000}}) {
        if (6 * std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) > backend().budget())
          continue;
        for (DType type : kFloats) {
          const VocabParallelCase c{
              .smoothing = exact(0.2), .shard_smoothing = shard, .smooth_others = others};
          Trial(type, 6, sizes, c, 2.0, type == bf16 ? 3 : 0).check();
        }
      }
    }
  }
  Trial(f32, 6, {12, 9}, {.smoothing = 1}).check();
}

// Statistics merged by all-reduces give the same results as one shard.
TEST(VocabParallelCrossEntropy, AllReduced) {
  for (double smoothing : {0.0, exact(0.1)}) {
    for (double spread : {1.0, 1e4}) {
      Trial run(f32, 6, {37, 20, 64}, {.smoothing = smoothing}, spread);
      run.run_partials();
      run.run_losses(run.reduced());
      SCOPED_TRACE(run.describe());
      run.expect_as_one();
    }
  }
}

TEST(VocabParallelCrossEntropy, LossAloneReadsNoLogits) {
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    Trial run(bf16, 7, {300, 20}, {.smoothing = exact(0.1), .reduction = reduction});
    run.run_partials();
    const Tensor all = run.gathered();
    for (Tensor& shard : run.shards) shard.fill(Values(shard.size(), NAN));
    run.run_losses(all, false);
    run.expect_right(false);
  }
}

TEST(VocabParallelCrossEntropy, LargeLogits) {
  for (double spread : {10.0, 1e4}) {
    Trial(f32, 7, {500, 300}, {}, spread).check();
    Trial(f32, 7, {500, 300}, {.smoothing = exact(0.1)}, spread).check();
  }
  // An offset common to all logits, or to those of a shard, must not reduce accuracy.
  for (double offset : {0.0, 30.0}) {
    for (double smoothing : {0.0, exact(0.1)}) {
      Trial shifted(f32, 4, {300, 200}, {.smoothing = smoothing});
      for (size_t i = 0; i < shifted.logits.size(); ++i)
        shifted.logits[i] = exact(shifted.logits[i] + 1e4 + (i % 500 < 300 ? offset : 0));
      shifted.check();
    }
  }
}

// Some shards, also a label's shard, have no finite logit. One label's logit is -inf.
TEST(VocabParallelCrossEntropy, InfiniteLogits) {
  Trial run(f32, 4, {6, 20, 9});
  run.labels = {1, 30, 8, 27};
  for (int64_t j = 0; j < 6; ++j) {
    if (j != 1) run.logits[j] = -INFINITY;
    run.logits[35 + j] = -INFINITY;
    if (j % 2) run.logits[70 + j] = -INFINITY;
  }
  run.logits[70 + 8] = -INFINITY;
  for (int64_t j = 0; j < 26; ++j) run.logits[105 + j] = -INFINITY;
  run.check();
  EXPECT_EQ(run.losses[1].get(2), INFINITY);
  Trial none(f32, 1, {6, 20});
  none.labels = {3};
  std::fill(none.logits.begin(), none.logits.end(), -INFINITY);
  none.run();
  EXPECT_TRUE(std::isnan(none.losses[0].get(0)));
}

TEST(VocabParallelCrossEntropy, NaNSpreadsToAllShards) {
  for (int64_t v : affordable({20, 20000}, 2)) {
    Trial run(f32, 2, {v, 9});
    run.labels = {v + 3, 2};
    run.logits[4] = NAN;
    run.run();
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_TRUE(std::isnan(run.losses[s].get(0)) && std::isnan(run.gradients[s].get(1)));
      EXPECT_FALSE(std::isnan(run.losses[s].get(1)) ||
                   std::isnan(run.gradients[s].get(run.sizes[s])));
    }
  }
}

// The label's gradient p_y - 1 is only as exact as p_y, whichever shard has the other classes.
TEST(VocabParallelCrossEntropy, ConfidentRowsKeepTheTargetsDigits) {
  for (int64_t v : affordable({64, 20000}, 3)) {
    Trial run(f32, 3, {v, 40});
    run.labels = {5, v + 9, 7};
    run.logits[5] = 20.0;
    run.logits[v + 40 + v + 9] = exact(17.3);
    run.logits[2 * (v + 40) + 7] = exact(1000.7);
    run.check();
    const CrossEntropyCase whole{.n = 3, .classes = v + 40, .reduction = Reduce::none};
    const Values right = cross_entropy_reference(run.logits, run.labels, whole).d_logits;
    for (int64_t i = 0; i < 3; ++i) {
      const bool second = run.labels[i] >= v;
      const int64_t at = second ? i * 40 + run.labels[i] - v : i * v + run.labels[i];
      EXPECT_NEAR(run.gradients[second].get(at), right[i * (v + 40) + run.labels[i]],
                  4 * 0x1p-24 * backend().summation_slack())
          << "row " << i;
    }
  }
}

TEST(VocabParallelCrossEntropy, InPlaceIsBitEqual) {
  for (int64_t v : affordable({300, 20000}, 6)) {
    for (DType type : kFloats) {
      for (double smoothing : {0.0, exact(0.1)}) {
        Trial separate(type, 6, {v, 40}, {.smoothing = smoothing}, 1.0, 8),
            over(type, 6, {v, 40}, {.smoothing = smoothing}, 1.0, 8);
        over.in_place = true;
        separate.run();
        over.run();
        for (size_t s = 0; s < 2; ++s) {
          EXPECT_TRUE(over.shards[s].same_bits(separate.gradients[s])) << separate.describe();
          EXPECT_TRUE(over.losses[s].same_bits(separate.losses[s]));
          EXPECT_EQ(separate.shards[s].values(), separate.columns_of(separate.logits, s))
              << "logits were written";
        }
      }
    }
  }
}

// Rows that begin and end at each element of a 16-byte vector.
TEST(VocabParallelCrossEntropy, UnalignedRows) {
  for (DType type : kFloats) {
    for (int64_t v : affordable({1, 5, 13, 1019, 20003}, 3)) {
      for (int64_t gap : {0, 1, 3}) {
        Trial run(type, 3, {v, 7}, {.smoothing = gap == 1 ? exact(0.1) : 0}, 1.0, gap);
        run.labels = {0, v - 1, v / 2};
        run.check();
      }
    }
  }
}

// In both operations, every shard reports a label that no shard owns. The label's row is NaN in all
// shards.
TEST(VocabParallelCrossEntropy, LabelsOutOfRange) {
  for (int64_t v : affordable({30, 20000}, 8)) {
    for (int64_t bad : {v + 10, int64_t{-1}, int64_t{1} << 40, INT64_MIN, INT64_MAX}) {
      Trial run(f32, 8, {v, 10});
      run.labels[2] = run.labels[5] = bad;
      run.run_partials();
      for (size_t s = 0; s < 2; ++s) {
        EXPECT_EQ(kernels::kErrorBase - run.errors[s].get_integer(0), 2) << "the first bad row";
        EXPECT_TRUE(std::isnan(run.partials[s].get(2 * run.c.columns())));
        run.errors[s].fill(std::vector<int64_t>{0});
      }
      run.run_losses(run.gathered());
      run.expect_right();
      for (size_t s = 0; s < 2; ++s)
        EXPECT_EQ(kernels::kErrorBase - run.errors[s].get_integer(0), 2);
    }
  }
}

TEST(VocabParallelCrossEntropy, IgnoredRows) {
  for (int64_t index : {int64_t{0}, int64_t{2}, int64_t{-100}, int64_t{-123}})
    Trial(f32, 10, {5, 3}, {.ignore_index = index}).check();
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    Trial all(f32, 6, {40, 8}, {.smoothing = exact(0.1), .reduction = reduction});
    for (int64_t& label : all.labels) label = -100;
    all.logits[3] = NAN;  // ignored rows are not read
    all.run();
    for (size_t s = 0; s < 2; ++s) {
      for (double value : all.losses[s].values()) EXPECT_EQ(value, 0.0);
      for (double value : all.partials[s].values()) EXPECT_EQ(value, 0.0);
      for (double value : all.gradients[s].values()) EXPECT_EQ(value, 0.0);
    }
  }
}

TEST(VocabParallelCrossEntropy, AlignedRowsTakeVectors) {
  expect_aligned([] {
    for (int64_t v : affordable({512, 16032}, 3))
      Trial(bf16, 3, {v, 64}, {.smoothing = exact(0.1)}).check();
  });
}

TEST(VocabParallelCrossEntropy, NoRows) {
  for (Reduce reduction : {Reduce::mean, Reduce::sum}) {
    Trial run(f32, 0, {10, 4}, {.reduction = reduction});
    run.run();
    EXPECT_EQ(run.losses[1].get(0), 0.0);
  }
}

}  // namespace
}  // namespace ligerdsl::test::vocab_parallel_cross_entropy_test
