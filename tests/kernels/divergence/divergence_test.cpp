#include "kernels/divergence/divergence.h"

#include <cmath>
#include <limits>

#include "kernels/divergence/divergence_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::divergence_test {
namespace {

using kernels::Divergence;
using kernels::Reduction;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
const std::vector<Divergence> kKinds{Divergence::kl, Divergence::forward_kl, Divergence::reverse_kl,
                                     Divergence::jsd, Divergence::tvd};
const std::vector<Reduction> kReductions{Reduction::none, Reduction::mean, Reduction::sum,
                                         Reduction::batchmean};

const char* name_of(Divergence kind) {
  return std::vector<const char*>{"kl", "forward_kl", "reverse_kl", "jsd",
                                  "tvd"}[static_cast<size_t>(kind)];
}

// Returns rows of log-probabilities, or of probabilities.
Values distribution(int64_t n, int64_t cols, uint64_t seed, bool logarithms) {
  Values x = Random(seed).normals(n * cols, 2.0);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < cols; ++j) sum += std::exp(x[i * cols + j]);
    for (int64_t j = 0; j < cols; ++j) {
      double& value = x[i * cols + j];
      value = logarithms ? value - std::log(sum) : std::exp(value) / sum;
    }
  }
  return x;
}

struct Trial {
  kernels::DivergenceOptions o;
  int64_t n;
  float beta = 0.3f, eps = 1e-10f;
  MetaValues config;  // replaces the heuristic's configuration
  std::vector<int64_t> labels;
  int64_t label_stride = 1;
  Values upstream{1.0};
  Tensor input, target, loss, d_input;

  Trial(Divergence kind, DType type, DType target_type, int64_t n, int64_t cols, int64_t gap = 0)
      : o{.cols = cols,
          .type = type,
          .target_type = target_type,
          .kind = kind,
          .with_gradient = true},
        n(n) {
    const bool raw = kind == Divergence::tvd;
    input = Tensor::rows(type, n, cols, gap).fill(distribution(n, cols, 1, !raw));
    target = Tensor::rows(target_type, n, cols, gap)
                 .fill(distribution(n, cols, 2, !raw && kind != Divergence::kl));
    d_input = Tensor::rows(type, n, cols, gap);
  }
  // Ignores every third row.
  Trial& ignoring() {
    o.has_labels = true;
    for (int64_t i = 0; i < n; ++i) labels.push_back(i % 3 == 1 ? -7 : i);
    return *this;
  }
  Trial& reduced(Reduction reduction) {
    o.reduction = reduction;
    return *this;
  }
  Trial& upstreamed() {
    o.with_d_loss = true;
    upstream = o.reduction == Reduction::none ? Random(5).normals(n * o.cols) : Values{-1.5};
    return *this;
  }
  void run(const Tensor& gradient) {
    const bool each = o.reduction == Reduction::none;
    loss = each ? Tensor::rows(o.loss_type, n, o.cols, 8) : Tensor(o.loss_type, {1});
    Tensor d_loss = each ? Tensor(o.d_loss_type, {n, o.cols}) : Tensor(o.d_loss_type, {1});
    if (o.with_d_loss) d_loss.fill(upstream), upstream = d_loss.values();
    Tensor label_tensor(o.label_type, {n}, {label_stride});
    if (o.has_labels) label_tensor.fill(labels);
    const auto& kernel = kernels::divergence_kernel;
    backend().run(kernel.build(machine(), o, kernel.chosen(machine(), o, config)), n,
                  Arguments()
                      .tensor("input", input)
                      .tensor("target", target)
                      .tensor("labels", label_tensor)
                      .tensor("d_loss", d_loss)
                      .tensor("loss", loss)
                      .tensor("d_input", gradient)
                      .integer("ignore_index", -7)
                      .number("beta", beta)
                      .number("eps", eps));
  }
  DivergenceCase reference_case() const {
    DivergenceCase c{.n = n,
                     .cols = o.cols,
                     .reduction = static_cast<DivergenceReduce>(o.reduction),
                     .beta = beta,
                     .eps = eps,
                     .labels = labels,
                     .ignore_index = -7,
                     .upstream = upstream};
    c.kind = o.kind == Divergence::kl    ? DivergenceKind::kl
             : o.kind == Divergence::tvd ? DivergenceKind::tvd
                                         : DivergenceKind::jsd;
    if (o.kind == Divergence::forward_kl) c.beta = 0;
    if (o.kind == Divergence::reverse_kl) c.beta = 1;
    return c;
  }
  void check() {
    SCOPED_TRACE(std::string(name_of(o.kind)) + " " + name(o.type) + " " + name(o.target_type) +
                 " n=" + std::to_string(n) + " cols=" + std::to_string(o.cols) + " reduction " +
                 std::to_string(static_cast<int>(o.reduction)) + (o.has_labels ? " labels" : ""));
    run(d_input);
    const DivergenceResult right =
        divergence_reference(input.values(), target.values(), reference_case());
    EXPECT_TRUE(o.loss_type == f32 ? close_loss(loss.values(), right.loss)
                                   : close(loss.values(), right.loss, gate_e(o.loss_type)))
        << "loss";
    EXPECT_TRUE(close(d_input.values(), right.d_input, gate_p(o.type))) << "d_input";
    for (const Tensor& t : {loss, d_input}) EXPECT_TRUE(t.untouched_outside());
  }
};

TEST(Divergence, WidthsAndTypes) {
  int64_t number = 0;
  for (int64_t cols : affordable({1, 3, 41, 256, 1271, 4096, 9000, 32000}, 3)) {
    for (Divergence kind : kKinds) {
      for (DType type : kFloats) {
        // All dtypes at some widths, one dtype at the others.
        if (cols == 41 || cols == 9000 || type == kFloats[cols % 3])
          Trial(kind, type, type, 3, cols, gap_of(number++)).check();
      }
    }
  }
  for (Divergence kind : kKinds) Trial(kind, bf16, bf16, 401, 24).check();
}

TEST(Divergence, ReductionsAndLabels) {
  for (Divergence kind : kKinds) {
    for (Reduction reduction : kReductions) {
      Trial(kind, f32, f32, 5, 130).reduced(reduction).check();
      Trial(kind, bf16, bf16, 7, 33).reduced(reduction).ignoring().upstreamed().check();
      Trial narrow = Trial(kind, f32, bf16, 7, 64).reduced(reduction).ignoring();
      narrow.o.label_type = i32;
      narrow.o.loss_type = bf16;
      narrow.o.d_loss_type = f16;
      narrow.upstreamed().check();
    }
  }
}

// Includes programs with several rows, which load their labels as one tile.
TEST(Divergence, LabelsOfAnyStride) {
  for (Divergence kind : {Divergence::jsd, Divergence::tvd}) {
    for (int64_t cols : {8, 2310}) {
      Trial run = Trial(kind, bf16, bf16, 37, cols).ignoring();
      run.label_stride = 4;
      run.check();
    }
  }
}

// Each program has several tiles; the last program has fewer.
TEST(Divergence, SeveralTilesPerProgram) {
  for (Divergence kind : kKinds) {
    for (Reduction reduction : {Reduction::none, Reduction::batchmean}) {
      for (const char* stages : {"1", "2"}) {
        Trial run = Trial(kind, bf16, bf16, 3, 2310).reduced(reduction).ignoring().upstreamed();
        run.config = {{"rows", "1"},
                      {"num_warps", "1"},
                      {"vectors", "1"},
                      {"tiles", "4"},
                      {"stages", stages}};
        run.check();
      }
    }
  }
}

TEST(Divergence, MixedTypes) {
  for (const auto& [kind, type, target] : combinations(kKinds, kFloats, kFloats))
    Trial(kind, type, target, 4, 520, 8).check();
}

TEST(Divergence, Weights) {
  for (float beta : {1e-3f, 0.1f, 0.5f, 0.9f, 0.999f}) {
    for (DType type : kFloats) {
      Trial run(Divergence::jsd, type, type, 4, 333);
      run.beta = beta;
      run.check();
    }
  }
}

// If both rows are nearly the same, the logarithms nearly cancel. Their small difference is the
// whole gradient.
TEST(Divergence, JsdOfNearlyEqualRows) {
  for (float difference : {1e-1f, 1e-3f, 1e-5f}) {
    Trial run(Divergence::jsd, f32, f32, 4, 300);
    Values near = run.input.values();
    const Values noise = Random(9).normals(near.size(), difference);
    for (size_t i = 0; i < near.size(); ++i) near[i] += noise[i];
    run.target.fill(near);
    run.check();
  }
}

// Cases: probabilities of 0 in one row or in both, and the same probability in both.
TEST(Divergence, ZeroProbabilities) {
  for (Divergence kind :
       {Divergence::kl, Divergence::forward_kl, Divergence::reverse_kl, Divergence::jsd}) {
    for (DType type : kFloats) {
      Trial run(kind, type, type, 3, 70);
      Values x = run.input.values(), y = run.target.values();
      const double none = kind == Divergence::kl ? 0 : -kInfinite;
      for (size_t i = 0; i < x.size(); ++i) {
        const bool both = i % 7 == 3;
        // A one-sided divergence is infinite if only the probability in its denominator is 0.
        if (both || (i % 7 == 1 && kind != Divergence::reverse_kl)) y[i] = none;
        if (both || (i % 7 == 2 && (kind == Divergence::reverse_kl || kind == Divergence::jsd)))
          x[i] = -kInfinite;
      }
      run.input.fill(x);
      run.target.fill(y);
      run.check();
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] == -kInfinite && kind != Divergence::forward_kl) {
          EXPECT_EQ(run.d_input.get(i), 0) << i;
        }
      }
    }
  }
  Trial tie(Divergence::tvd, bf16, bf16, 3, 70);
  tie.target = tie.input.clone();
  tie.check();
  for (double value : tie.d_input.values()) EXPECT_EQ(value, 0);
  Trial infinite(Divergence::forward_kl, f32, f32, 1, 8);
  infinite.input.set(3, -kInfinite);
  infinite.run(infinite.d_input);
  EXPECT_EQ(infinite.loss.get(0), kInfinite);
}

// Results follow the formula even if inputs are not probabilities.
TEST(Divergence, ValuesThatAreNotProbabilities) {
  for (Divergence kind : kKinds) {
    for (DType type : kFloats) {
      Trial run = Trial(kind, type, type, 3, 70).reduced(Reduction::none);
      const bool logarithms = kind != Divergence::tvd;
      Values x = run.input.values(), y = run.target.values();
      for (size_t i = 0; i < x.size(); i += 3) {
        x[i] = logarithms ? 1.5 : -0.25 - static_cast<double>(i % 4);  // above 1, or negative
        y[i] = kind == Divergence::kl ? (i % 2 ? -0.5 : 3.0) : logarithms ? 0.75 : 2.5;
      }
      run.input.fill(x);
      run.target.fill(y);
      run.check();
    }
  }
}

TEST(Divergence, NaNSpreads) {
  for (Divergence kind : kKinds) {
    for (bool second : {false, true}) {
      Trial run = Trial(kind, f32, f32, 2, 40).reduced(Reduction::none);
      (second ? run.target : run.input).set(43, std::nan(""));
      run.run(run.d_input);
      for (int64_t i = 0; i < 80; ++i)
        EXPECT_EQ(std::isnan(run.loss.get(i)), i == 43) << name_of(kind) << " " << i;
    }
  }
}

// An ignored row may hold anything. If no row counts, the loss is 0.
TEST(Divergence, IgnoredRows) {
  for (Divergence kind : kKinds) {
    for (Reduction reduction : kReductions) {
      Trial run = Trial(kind, bf16, f32, 4, 65).reduced(reduction).ignoring();
      for (int64_t j = 0; j < 65; ++j) run.input.set(65 + j, j % 2 ? kInfinite : std::nan(""));
      run.run(run.d_input);
      for (double value : run.loss.values()) EXPECT_TRUE(std::isfinite(value)) << name_of(kind);
      for (int64_t j = 0; j < 65; ++j) EXPECT_EQ(run.d_input.get(65 + j), 0) << name_of(kind);
      run.labels.assign(4, -7);
      run.run(run.d_input);
      for (double value : run.loss.values()) EXPECT_EQ(value, 0) << name_of(kind);
      for (double value : run.d_input.values()) EXPECT_EQ(value, 0) << name_of(kind);
    }
  }
}

TEST(Divergence, NoRows) {
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::batchmean}) {
    Trial run = Trial(Divergence::jsd, f32, f32, 0, 64).reduced(reduction);
    run.run(run.d_input);
    EXPECT_EQ(run.loss.get(0), 0);
  }
}

TEST(Divergence, InPlaceAndPartsAreBitEqual) {
  for (Divergence kind : kKinds) {
    for (DType type : kFloats) {
      Trial run(kind, type, f32, 5, 332, 8);
      run.run(run.d_input);
      const Tensor loss = run.loss;
      Trial over(kind, type, f32, 5, 332, 8);
      over.run(over.input);
      EXPECT_TRUE(over.input.same_bits(run.d_input)) << name_of(kind);
      EXPECT_TRUE(over.loss.same_bits(loss)) << name_of(kind);
      Trial alone(kind, type, f32, 5, 332, 8);
      alone.o.with_loss = false;
      alone.run(alone.d_input);
      EXPECT_TRUE(alone.d_input.same_bits(run.d_input)) << name_of(kind);
      Trial value(kind, type, f32, 5, 332, 8);
      value.o.with_gradient = false;
      value.run(value.d_input);
      EXPECT_TRUE(value.loss.same_bits(loss)) << name_of(kind);
    }
  }
}

TEST(Divergence, AlignedRowsTakeVectors) {
  expect_aligned([] {
    for (Divergence kind : kKinds) Trial(kind, bf16, bf16, 3, 512).reduced(Reduction::none).check();
  });
}

}  // namespace
}  // namespace ligerdsl::test::divergence_test
