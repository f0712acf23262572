// A call of cross_entropy with all results, checked against the reference.
#pragma once

#include "kernels/core/softcap.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "kernels/cross_entropy/cross_entropy_totals.h"
#include "tests/kernels/class_weights.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test {

struct CrossEntropyTrial {
  kernels::CrossEntropyOptions o;
  CrossEntropyCase c;
  std::vector<int64_t> labels;
  int64_t first_row = 0;
  int64_t label_stride = 1;
  Tensor logits, label_tensor, bias, weight, d_loss, d_entropy, loss, z_loss, accuracy, predictions,
      lse, entropy, d_logits, error;

  // Requests all results. Every fifth row is ignored.
  CrossEntropyTrial(DType type, int64_t n, int64_t classes, CrossEntropyCase with = {},
                    double spread = 1.0, int64_t gap = 0)
      : c(with) {
    c.n = n;
    c.classes = classes;
    o.classes = classes;
    o.type = type;
    o.reduction = static_cast<kernels::Reduction>(c.reduction);
    o.has_weight = !c.weight.empty();
    o.smoothing = c.smoothing > 0;
    o.lse_square = c.lse_square > 0;
    o.softcap = c.softcap > 0;
    o.quick_softcap = o.softcap && kernels::allows_quick_softcap(c.softcap, o.classes);
    o.tempered = c.temperature > 0;
    o.with_entropy = o.with_d_entropy = !c.d_entropy.empty();
    o.with_z_loss = o.with_accuracy = o.with_predictions = o.with_lse = o.with_gradient = true;
    logits = random_rows(type, n, classes, 11, gap, spread);
    Random random(12);
    for (int64_t i = 0; i < n; ++i)
      labels.push_back(i % 5 == 4 ? c.ignore_index : random.below(classes));
    make_outputs(gap);
  }
  void make_outputs(int64_t gap = 0) {
    const Sizes reduced{c.reduction == Reduce::none ? c.n : 1};
    loss = Tensor(o.loss_type, reduced);
    z_loss = Tensor(o.loss_type, reduced);
    accuracy = Tensor(f32, reduced);
    predictions = Tensor(i64, {c.n});
    lse = Tensor(f32, {c.n});
    entropy = Tensor(f32, {c.n});
    d_entropy = Tensor(f32, {c.n});
    if (o.with_d_entropy) d_entropy.fill(c.d_entropy);
    d_logits = Tensor::rows(o.type, c.n, c.classes, gap);
    error = Tensor(i64, {1}).fill(std::vector<int64_t>{0});
    bias = random_vector(o.bias_type, c.classes, 14);
    weight = Tensor(o.weight_type, {c.classes});
    if (o.has_weight) weight.fill(c.weight);
    c.upstream.resize(o.with_d_loss && c.reduction == Reduce::none ? c.n : 1,
                      c.upstream.empty() ? 1.0 : c.upstream[0]);
    d_loss = Tensor(o.d_loss_type, {static_cast<int64_t>(c.upstream.size())}).fill(c.upstream);
  }
  void run(const Tensor& gradient) {
    run(kernels::cross_entropy_kernel.heuristic(machine(), o), machine(), gradient);
  }
  void run(const kernels::CrossEntropyConfig& config, const kernels::Machine& of,
           const Tensor& gradient) {
    label_tensor = Tensor(o.label_type, {c.n}, {label_stride}).fill(labels);
    backend().run(kernels::cross_entropy_kernel.build(of, o, config), c.n,
                  Arguments()
                      .tensor("logits", logits)
                      .tensor("labels", label_tensor)
                      .tensor("bias", bias)
                      .tensor("weight", weight)
                      .tensor("loss", loss)
                      .tensor("z_loss", z_loss)
                      .tensor("accuracy", accuracy)
                      .tensor("predictions", predictions)
                      .tensor("lse", lse)
                      .tensor("entropy", entropy)
                      .tensor("d_entropy", d_entropy)
                      .tensor("d_logits", gradient)
                      .tensor("d_loss", d_loss)
                      .tensor("error", error)
                      .integer("ignore_index", c.ignore_index)
                      .integer("first_row", first_row)
                      .number("label_smoothing", c.smoothing)
                      .number("lse_square_scale", c.lse_square)
                      .number("softcap", c.softcap)
                      .number("temperature", c.temperature));
  }
  void run() { run(d_logits); }
  std::string describe() const {
    return std::string(name(o.type)) + " n=" + std::to_string(c.n) +
           " v=" + std::to_string(c.classes) + " reduction " +
           std::to_string(static_cast<int>(c.reduction)) + " smoothing " +
           std::to_string(c.smoothing) + " z " + std::to_string(c.lse_square) + " cap " +
           std::to_string(c.softcap) + (o.has_weight ? " weighted" : "");
  }
  void check() {
    SCOPED_TRACE(describe());
    run();
    const auto expected = cross_entropy_reference(logits.values(), labels, c);
    EXPECT_TRUE(close_loss(loss.values(), expected.loss)) << "loss";
    EXPECT_TRUE(close_loss(z_loss.values(), expected.z_loss)) << "z_loss";
    EXPECT_TRUE(close_loss(accuracy.values(), expected.accuracy)) << "accuracy";
    EXPECT_TRUE(close_loss(lse.values(), expected.lse)) << "lse";
    if (o.with_entropy) {
      EXPECT_TRUE(close_loss(entropy.values(), expected.entropy)) << "entropy";
    }
    EXPECT_EQ(predictions.values(), expected.predictions);
    EXPECT_TRUE(close(d_logits.values(), expected.d_logits, gate_e(o.type))) << "d_logits";
    EXPECT_EQ(error.get_integer(0), 0);
    for (const Tensor& t :
         {loss, z_loss, accuracy, predictions, lse, entropy, d_logits, logits, error}) {
      EXPECT_TRUE(t.untouched_outside());
    }
  }
};

inline std::vector<CrossEntropyCase> option_cases(int64_t classes) {
  return {{.smoothing = exact(0.1)},
          {.softcap = 30},
          {.softcap = 1e5},  // effectively no cap
          {.lse_square = exact(1e-4)},
          {.weight = class_weights(classes)},
          {.smoothing = exact(0.1), .weight = class_weights(classes)},
          {.ignore_index = 2},
          {.ignore_index = 0,
           .smoothing = exact(0.2),
           .lse_square = exact(1e-3),
           .softcap = 4,
           .weight = class_weights(classes)}};
}

}  // namespace ligerdsl::test
