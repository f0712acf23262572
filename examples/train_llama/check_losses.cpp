#include <algorithm>
#include <cmath>

#include "check_table.h"

namespace train {
namespace {

using oracle::Array;

const Ops::LossSettings kEveryOption{
    .smoothing = 0.1, .lse_square_scale = 1e-2, .softcap = 20, .ignored = 3, .temperature = 2};

// Results of cross-entropy and of fused linear cross-entropy, except lse and gradients.
struct Results {
  Results(CheckTable& t, const CheckTable::Ids& labels)
      : labels(labels),
        entropy(t.f32({static_cast<int64_t>(labels.values.size())})),
        loss(t.f32({1})),
        z_loss(t.f32({1})),
        accuracy(t.f32({1})),
        predictions(t.ops.allocate(Type::i64, {static_cast<int64_t>(labels.values.size())})) {}

  // Ties may be broken differently: the predicted class's logit is compared with the highest logit.
  // The accuracy must match the predictions.
  void add(CheckTable& t, const oracle::Loss& expected, const Array& logits, Gate scalar,
           Gate logit, Gate entropies) const {
    t.add("loss", loss, {expected.loss}, scalar);
    t.add("z_loss", z_loss, {expected.z_loss}, scalar);
    t.add("entropy", entropy, expected.entropy, entropies);
    Array found, highest;
    double hits = 0, counted = 0;
    const Array predicted = fetch(t.ops, predictions);
    for (size_t r = 0; r < predicted.size(); ++r) {
      auto of = [&](double label) {
        return label < 0 ? 0 : logits.at(r * t.c.vocab + static_cast<int64_t>(label));
      };
      found.push_back(of(predicted[r]));
      highest.push_back(of(expected.predictions[r]));
      counted += expected.predictions[r] >= 0;
      hits += predicted[r] == labels.values[r];
    }
    t.add("predictions", std::to_string(predicted.size()), found, highest, logit);
    t.add("accuracy", accuracy, {hits / counted}, t.f32_scalar);
  }

  const CheckTable::Ids& labels;
  Tensor entropy, loss, z_loss, accuracy, predictions;
};

oracle::LossSettings every_option(const Array& weights, const Array& d_entropy) {
  return {kEveryOption.smoothing,
          kEveryOption.lse_square_scale,
          kEveryOption.softcap,
          kEveryOption.ignored,
          weights,
          kEveryOption.temperature,
          d_entropy};
}

// Every third label becomes the predicted class, so that the accuracy is above chance.
void hit_some(CheckTable& t, CheckTable::Ids& labels, const Array& predictions) {
  for (size_t r = 0; r < predictions.size(); r += 3) {
    if (predictions[r] >= 0) labels.values[r] = static_cast<int64_t>(predictions[r]);
  }
  t.ops.upload(labels.tensor, labels.values.data());
}

void cross_entropy(CheckTable& t) {
  const int64_t rows = t.rows, vocab = t.c.vocab;
  auto logits = t.random({rows, vocab}, t.type, 0, 3),
       weights = t.random({vocab}, Type::f32, 1, 0.1),
       d_entropy = t.random({rows}, Type::f32, 0, 1.0 / static_cast<double>(rows));
  auto labels = t.random_ids(rows, vocab);
  hit_some(t, labels, oracle::cross_entropy(logits.values, labels.values, vocab).predictions);
  Tensor dlogits = t.like(logits.tensor), lse = t.f32({rows});
  Results results(t, labels);

  t.variant("every option");
  const oracle::LossSettings settings = every_option(weights.values, d_entropy.values);
  t.ops.cross_entropy({.logits = logits.tensor,
                       .labels = labels.tensor,
                       .loss = results.loss,
                       .d_logits = dlogits,
                       .class_weight = weights.tensor,
                       .z_loss = results.z_loss,
                       .accuracy = results.accuracy,
                       .predictions = results.predictions,
                       .lse = lse,
                       .entropy = results.entropy,
                       .d_entropy = d_entropy.tensor,
                       .settings = kEveryOption});
  oracle::Loss expected = oracle::cross_entropy(logits.values, labels.values, vocab, settings);
  results.add(t, expected, logits.values, t.f32_scalar, t.exact, t.f32_elementwise);
  t.add("lse", lse, expected.lse, t.f32_elementwise);
  // Errors are relative to the largest element of all rows, not to that of each row.
  t.add("d_logits", dlogits, expected.dlogits, t.elementwise);
  t.variant("");

  t.variant("the model's");
  t.ops.cross_entropy({.logits = logits.tensor,
                       .labels = labels.tensor,
                       .loss = results.loss,
                       .d_logits = logits.tensor});
  expected = oracle::cross_entropy(logits.values, labels.values, vocab);
  t.add("loss", results.loss, {expected.loss}, t.f32_scalar);
  t.add("d_logits", logits.tensor, expected.dlogits, t.elementwise, vocab);
  t.variant("");
}

// The operation may call cuBLASLt on a GPU, and CBLAS on a CPU. In bf16 the rounding of logits
// causes most of the error.
void fused_linear_cross_entropy(CheckTable& t) {
  const int64_t rows = std::min<int64_t>(t.rows, 1024), vocab = t.c.vocab, width = t.c.width;
  auto x = t.random({rows, width}), w = t.random({vocab, width}, t.type, 0, 1 / std::sqrt(width)),
       b = t.random({vocab}), weights = t.random({vocab}, Type::f32, 1, 0.1),
       d_entropy = t.random({rows}, Type::f32, 0, 1.0 / static_cast<double>(rows));
  auto labels = t.random_ids(rows, vocab);
  const oracle::LossSettings settings = every_option(weights.values, d_entropy.values);
  auto expect = [&] {
    return oracle::linear_cross_entropy(x.values, w.values, b.values, labels.values, settings);
  };
  hit_some(t, labels, expect().loss.predictions);
  Tensor dx = t.like(x.tensor), dw = t.f32({vocab, width}), db = t.f32({vocab});
  Results results(t, labels);
  const Ops::FusedLinearCrossEntropy call{.x = x.tensor,
                                          .weight = w.tensor,
                                          .bias = b.tensor,
                                          .labels = labels.tensor,
                                          .loss = results.loss,
                                          .d_x = dx,
                                          .d_weight = dw,
                                          .d_bias = db,
                                          .class_weight = weights.tensor,
                                          .z_loss = results.z_loss,
                                          .accuracy = results.accuracy,
                                          .predictions = results.predictions,
                                          .entropy = results.entropy,
                                          .d_entropy = d_entropy.tensor,
                                          .lse = t.f32({rows}),
                                          .settings = kEveryOption};
  t.ops.fused_linear_cross_entropy(call);
  const oracle::LinearLoss expected = expect();
  const bool bf16 = t.type == Type::bf16;
  const Gate gradient = bf16 ? Gate{6e-3, 0, true} : Gate{1e-5, 0, true};
  const Gate scalar = bf16 ? Gate{2e-3, 0} : t.f32_scalar,
             entropies = bf16 ? Gate{2e-3, 0} : t.f32_elementwise;
  results.add(t, expected.loss, expected.logits, scalar, t.elementwise, entropies);
  t.add("lse", call.lse, expected.loss.lse, entropies);
  t.add("d_x", dx, expected.dx, gradient);
  t.add("d_weight", dw, expected.dw, gradient);
  t.add("d_bias", db, expected.db, gradient);
}

}  // namespace

void check_losses(CheckTable& t) {
  cross_entropy(t);
  fused_linear_cross_entropy(t);
}

}  // namespace train
