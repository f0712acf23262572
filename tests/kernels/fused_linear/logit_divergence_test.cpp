#include "kernels/fused_linear/logit_divergence.h"

#include <cmath>
#include <limits>

#include "kernels/divergence/divergence_reference.h"
#include "kernels/fused_linear/logit_divergence_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::logit_divergence_test {
namespace {

using kernels::Divergence;
using kernels::Reduction;

const std::vector<Divergence> kKinds{Divergence::forward_kl, Divergence::reverse_kl,
                                     Divergence::jsd};

struct Trial {
  kernels::LogitDivergenceOptions o;
  int64_t n;
  float beta = 0.3f, temperature = 1;
  int64_t label_stride = 1;
  MetaValues config;  // replaces the heuristic's configuration
  std::vector<int64_t> labels;
  Values upstream{1.0};
  Tensor logits, target, loss, before, d_logits;

  Trial(Divergence kind, DType type, int64_t n, int64_t cols, int64_t gap = 0, double spread = 2)
      : o{.classes = cols, .type = type, .kind = kind, .with_gradient = true}, n(n) {
    logits = random_rows(type, n, cols, 1, gap, spread);
    target = random_rows(type, n, cols, 2, gap, spread);
    d_logits = Tensor::rows(type, n, cols, gap);
  }
  // Uses f32 logits with a 16-bit gradient.
  Trial& with_f32_logits(double spread) {
    o.f32_logits = true;
    logits = random_rows(f32, n, o.classes, 1, 0, spread);
    target = random_rows(f32, n, o.classes, 2, 0, spread);
    return *this;
  }
  Trial& ignoring() {
    o.has_labels = true;
    for (int64_t i = 0; i < n; ++i) labels.push_back(i % 3 == 1 ? -7 : i);
    return *this;
  }
  Trial& upstreamed() {
    o.with_d_loss = true;
    upstream = {-1.5};
    return *this;
  }
  Trial& tempered(float by) {
    o.tempered = true;
    temperature = by;
    return *this;
  }
  void run() {
    before = logits.clone();
    loss = Tensor(o.loss_type, {1});
    Tensor label_tensor(o.label_type, {n}, {label_stride});
    if (o.has_labels) label_tensor.fill(labels);
    const auto& kernel = kernels::logit_divergence_kernel;
    backend().run(kernel.build(machine(), o, kernel.chosen(machine(), o, config)), n,
                  Arguments()
                      .tensor("logits", logits)
                      .tensor("target_logits", target)
                      .tensor("d_logits", d_logits)
                      .tensor("labels", label_tensor)
                      .tensor("d_loss", Tensor(o.d_loss_type, {1}).fill(upstream))
                      .tensor("loss", loss)
                      .integer("ignore_index", -7)
                      .integer("rows", n)
                      .number("beta", beta)
                      .number("temperature", temperature));
  }
  LogitDivergenceResult expected() const {
    const DivergenceCase c{.kind = DivergenceKind::jsd,
                           .n = n,
                           .cols = o.classes,
                           .reduction = static_cast<DivergenceReduce>(o.reduction),
                           .beta = o.kind == Divergence::forward_kl   ? 0
                                   : o.kind == Divergence::reverse_kl ? 1
                                                                      : beta,
                           .labels = labels,
                           .ignore_index = -7,
                           .upstream = upstream};
    return logit_divergence_reference(before.values(), target.values(), c, temperature);
  }
  void check() {
    SCOPED_TRACE(std::string(name(o.type)) + " kind " + std::to_string(static_cast<int>(o.kind)) +
                 " n=" + std::to_string(n) + " cols=" + std::to_string(o.classes) + " reduction " +
                 std::to_string(static_cast<int>(o.reduction)) + (o.has_labels ? " labels" : ""));
    run();
    const LogitDivergenceResult right = expected();
    if (o.with_loss) {
      EXPECT_TRUE(close_loss(loss.values(), {right.loss}, o.loss_type == f32 ? 5e-6 : 8e-3))
          << "loss";
    }
    if (o.with_gradient) {
      EXPECT_TRUE(close_normwise((o.in_place() ? logits : d_logits).values(), right.d_logits,
                                 o.type == f32   ? 5e-6
                                 : o.type == f16 ? 1e-3
                                                 : 4e-3))
          << "gradient";
    }
    if (!o.with_gradient || !o.in_place()) {
      EXPECT_TRUE(logits.same_bits(before));
    }
    for (const Tensor& t : {loss, logits, target, d_logits}) EXPECT_TRUE(t.untouched_outside());
  }
};

TEST(LogitDivergence, WidthsAndTypes) {
  int64_t number = 0;
  for (int64_t cols : affordable({1, 3, 41, 256, 1271, 8192, 9000, 32000}, 3)) {
    for (Divergence kind : kKinds) {
      for (DType type : kFloats) {
        if (cols == 41 || cols == 9000 || type == kFloats[cols % 3])
          Trial(kind, type, 3, cols, gap_of(number++)).check();
      }
    }
  }
}

TEST(LogitDivergence, F32LogitsGiveA16BitGradient) {
  for (Divergence kind : kKinds)
    for (DType type : {bf16, f16})
      for (int64_t cols : affordable({41, 256, 9000}, 3))
        Trial(kind, type, 3, cols, gap_of(cols)).ignoring().upstreamed().with_f32_logits(2).check();
}

TEST(LogitDivergence, ReductionsLabelsAndUpstream) {
  for (Divergence kind : kKinds) {
    for (Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::batchmean}) {
      for (int64_t cols : {130, 9000}) {
        Trial plain(kind, f32, 4, cols);
        plain.o.reduction = reduction;
        plain.check();
        Trial full = Trial(kind, bf16, 4, cols).ignoring().upstreamed().tempered(2);
        full.o.reduction = reduction;
        full.o.label_type = i32;
        full.o.loss_type = full.o.d_loss_type = bf16;
        full.label_stride = 2;
        full.check();
      }
    }
  }
}

TEST(LogitDivergence, LossOrGradientAlone) {
  for (Divergence kind : kKinds) {
    for (int64_t cols : {100, 9000}) {
      Trial loss(kind, f32, 3, cols), gradient(kind, f32, 3, cols);
      loss.o.with_gradient = false;
      loss.check();
      gradient.o.with_loss = false;
      gradient.check();
    }
  }
}

// Blocks of other sizes, with a narrow last block.
TEST(LogitDivergence, Blocks) {
  for (Divergence kind : kKinds) {
    for (DType type : {f32, bf16}) {
      for (const char* vectors : {"1", "2"}) {
        Trial run = Trial(kind, type, 2, 2310, 2).ignoring().tempered(0.7f);
        run.config = {{"keep", "shared"}, {"num_warps", "2"}, {"vectors", vectors}};
        run.check();
      }
    }
  }
}

// Uses a loss scale, so that f16 can represent the gradients.
TEST(LogitDivergence, Weights) {
  for (float beta : {1e-3f, 0.1f, 0.5f, 0.999f}) {
    for (DType type : kFloats) {
      Trial run(Divergence::jsd, type, 4, 333);
      run.beta = beta;
      run.upstreamed().upstream = {4096};
      run.check();
    }
  }
}

// Large logits lose no accuracy beyond their own rounding; identical rows have zero divergence.
TEST(LogitDivergence, FarAndEqualRows) {
  for (Divergence kind : kKinds) {
    for (int64_t cols : {300, 9000}) {
      Trial equal(kind, f32, 3, cols);
      equal.target.fill(equal.logits.values());
      equal.run();
      EXPECT_NEAR(equal.loss.get(0), 0, 1e-6);
      for (double d : equal.logits.values()) ASSERT_NEAR(d, 0, 1e-7);
      for (DType type : {bf16, f32}) {
        // f32 uses a smaller spread: if the largest probability of a row is 1 - p, the relative
        // error of the row's gradient grows by 1 / p.
        Trial peaked(kind, type, 3, cols, 0, type == f32 ? 3 : 8);
        peaked.check();
      }
    }
  }
}

// Some classes have logits of -inf in both rows. For JSD, others have them in one of the rows.
TEST(LogitDivergence, ImpossibleClasses) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (Divergence kind : kKinds) {
    for (int64_t cols : {70, 9000}) {
      Trial run(kind, f32, 2, cols);
      Values x = run.logits.values(), y = run.target.values();
      for (size_t i = 0; i < x.size(); i += 7) x[i] = y[i] = -kInfinite;
      if (kind == Divergence::jsd)
        for (size_t i = 3; i < x.size(); i += 7) (i % 2 ? x : y)[i] = -kInfinite;
      run.logits.fill(x);
      run.target.fill(y);
      run.check();
    }
  }
}

// A NaN changes only the results of its row.
TEST(LogitDivergence, NanStaysInItsRow) {
  for (Divergence kind : kKinds) {
    for (bool in_target : {false, true}) {
      Trial run(kind, f32, 3, 60);
      (in_target ? run.target : run.logits).set(75, std::numeric_limits<double>::quiet_NaN());
      run.run();
      EXPECT_TRUE(std::isnan(run.loss.get(0)));
      for (int64_t j = 0; j < 60; ++j) {
        EXPECT_TRUE(std::isnan(run.logits.get(60 + j)));
        EXPECT_TRUE(std::isfinite(run.logits.get(j)) && std::isfinite(run.logits.get(120 + j)));
      }
    }
  }
}

TEST(LogitDivergence, NothingCounts) {
  for (Divergence kind : kKinds) {
    Trial run(kind, f32, 3, 9000);
    run.o.has_labels = true;
    run.labels = {-7, -7, -7};
    run.run();
    EXPECT_EQ(run.loss.get(0), 0);
    for (double d : run.logits.values()) ASSERT_EQ(d, 0);
  }
}

}  // namespace
}  // namespace ligerdsl::test::logit_divergence_test
