#include <algorithm>
#include <cmath>
#include <functional>

#include "check_table.h"

namespace train {
namespace {

using oracle::Array;

const Ops::LossSettings kEveryOption{
    .smoothing = 0.1, .lse_square_scale = 1e-2, .softcap = 20, .ignored = 3, .temperature = 2};

// The scalar and index results of both losses.
struct Results {
  Results(CheckTable& t, const CheckTable::Ids& labels)
      : labels(labels),
        entropy(t.f32({static_cast<int64_t>(labels.values.size())})),
        loss(t.f32({1})),
        z_loss(t.f32({1})),
        accuracy(t.f32({1})),
        predictions(t.ops.allocate(Type::i64, {static_cast<int64_t>(labels.values.size())})) {}

  // A predicted class must have the highest logit within the logits' errors. The accuracy must
  // match the predictions.
  void add(CheckTable& t, const oracle::Loss& expected, const Array& logits, Gate scalar, Gate logit,
           Gate entropies) const {
    t.add("loss", loss, {expected.loss}, scalar);
    t.add("z_loss", z_loss, {expected.z_loss}, scalar);
    t.add("entropy", entropy, expected.entropy, entropies);
    Array found, highest;
    double hits = 0, counted = 0;
    const Array predicted = fetch(t.ops, predictions);
    for (size_t r = 0; r < predicted.size(); ++r) {
      auto of = [&](double label) { return label < 0 ? 0 : logits.at(r * t.c.vocab + static_cast<int64_t>(label)); };
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
  auto logits = t.random({rows, vocab}, t.type, 0, 3), weights = t.random({vocab}, Type::f32, 1, 0.1),
       d_entropy = t.random({rows}, Type::f32, 0, 1.0 / static_cast<double>(rows));
  auto labels = t.random_ids(rows, vocab);
  hit_some(t, labels, oracle::cross_entropy(logits.values, labels.values, vocab).predictions);
  Tensor dlogits = t.like(logits.tensor), lse = t.f32({rows}), counts = t.f32({4});
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
  // Smoothing and hits make whole rows nearly cancel, so errors are relative to the largest of all
  // rows.
  t.add("d_logits", dlogits, expected.dlogits, t.elementwise);
  t.variant("");
  t.ops.target_counts(counts, labels.tensor, weights.tensor, kEveryOption.ignored);
  t.add("counts", counts, oracle::target_counts(labels.values, settings), {2e-6, 0}, 1);

  t.variant("the model's");
  t.ops.cross_entropy(
      {.logits = logits.tensor, .labels = labels.tensor, .loss = results.loss, .d_logits = logits.tensor});
  expected = oracle::cross_entropy(logits.values, labels.values, vocab);
  t.add("loss", results.loss, {expected.loss}, t.f32_scalar);
  t.add("d_logits", logits.tensor, expected.dlogits, t.elementwise, vocab);
  t.variant("");

  auto upstream = t.random({1}, Type::f32, 3, 0.1);
  Array scaled = fetch(t.ops, logits.tensor);
  for (double& d : scaled) d *= upstream.values[0];
  t.ops.cross_entropy_backward(logits.tensor, upstream.tensor);
  t.add("d_logits", logits.tensor, scaled, t.elementwise, vocab);
}

// Two shards of the logits' columns; their statistics are contiguous, as after an all-gather.
void vocab_parallel_cross_entropy(CheckTable& t) {
  const int64_t rows = t.rows, vocab = t.c.vocab, widths[] = {vocab / 2 + 3, vocab - vocab / 2 - 3};
  auto logits = t.random({rows, vocab}, t.type, 0, 3);
  auto labels = t.random_ids(rows, vocab);
  Tensor d_logits = t.like(logits.tensor), loss = t.f32({1}), partials = t.f32({2 * rows, 5});
  oracle::LossSettings settings;
  settings.smoothing = kEveryOption.smoothing;
  settings.ignored = kEveryOption.ignored;
  const oracle::Loss expected = oracle::cross_entropy(logits.values, labels.values, vocab, settings);
  const auto columns = [&](const Tensor& of, int64_t first, int64_t width) {
    return of.strided({rows, width}, {vocab, 1}, first);
  };
  const auto shard = [&](int64_t s) {
    return Ops::Shard{.logits = columns(logits.tensor, s * widths[0], widths[s]),
                      .labels = labels.tensor,
                      .first = s * widths[0],
                      .total = vocab,
                      .ignored = settings.ignored,
                      .smoothing = settings.smoothing};
  };
  for (int64_t s = 0; s < 2; ++s) {
    const Tensor own = partials.view({rows, 5}, s * rows * 5);
    t.ops.shard_partials(own, shard(s));
    t.add("partials", own,
          oracle::shard_partials(logits.values, labels.values, vocab, s * widths[0], widths[s], settings.ignored),
          t.f32_elementwise);
  }
  for (int64_t s = 0; s < 2; ++s) {
    t.ops.shard_cross_entropy(loss, columns(d_logits, s * widths[0], widths[s]), partials, shard(s));
    t.add("loss", loss, {expected.loss}, t.f32_scalar);
  }
  t.add("d_logits", d_logits, expected.dlogits, t.elementwise);
}

// The library chooses cuBLASLt or CBLAS. In bf16 the rounding of logits causes most of the error.
void fused_linear_cross_entropy(CheckTable& t) {
  const int64_t rows = std::min<int64_t>(t.rows, 1024), vocab = t.c.vocab, width = t.c.width;
  auto x = t.random({rows, width}), w = t.random({vocab, width}, t.type, 0, 1 / std::sqrt(width)),
       b = t.random({vocab}), weights = t.random({vocab}, Type::f32, 1, 0.1),
       d_entropy = t.random({rows}, Type::f32, 0, 1.0 / static_cast<double>(rows));
  auto labels = t.random_ids(rows, vocab);
  const oracle::LossSettings settings = every_option(weights.values, d_entropy.values);
  auto expect = [&] { return oracle::linear_cross_entropy(x.values, w.values, b.values, labels.values, settings); };
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
  const Gate scalar = bf16 ? Gate{2e-3, 0} : t.f32_scalar, entropies = bf16 ? Gate{2e-3, 0} : t.f32_elementwise;
  results.add(t, expected.loss, expected.logits, scalar, t.elementwise, entropies);
  t.add("lse", call.lse, expected.loss.lse, entropies);
  const auto add_gradients = [&] {
    t.add("d_x", dx, expected.dx, gradient);
    t.add("d_weight", dw, expected.dw, gradient);
    t.add("d_bias", db, expected.db, gradient);
  };
  add_gradients();
  const float one = 1;
  const Tensor d_loss = t.f32({1});
  t.ops.upload(d_loss, &one);
  t.ops.fused_linear_cross_entropy_backward(call, d_loss);
  add_gradients();
}

// The teacher is half as wide.
void fused_linear_jsd(CheckTable& t) {
  const int64_t rows = std::min<int64_t>(t.rows, 1024), vocab = t.c.vocab, width = t.c.width, half = width / 2;
  auto x = t.random({rows, width}), w = t.random({vocab, width}, t.type, 0, 1 / std::sqrt(width)),
       y = t.random({rows, half}), u = t.random({vocab, half}, t.type, 0, 1 / std::sqrt(half));
  Tensor loss = t.f32({1}), dx = t.like(x.tensor), dw = t.f32({vocab, width});
  constexpr double beta = 0.25, temperature = 2;
  t.ops.fused_linear_jsd({.x = x.tensor,
                          .weight = w.tensor,
                          .target_x = y.tensor,
                          .target_weight = u.tensor,
                          .loss = loss,
                          .d_x = dx,
                          .d_weight = dw,
                          .beta = beta,
                          .temperature = temperature});
  const oracle::LinearJsd expected =
      oracle::linear_jsd(x.values, w.values, y.values, u.values, rows, vocab, beta, temperature);
  const bool bf16 = t.type == Type::bf16;
  const Gate gradient = bf16 ? Gate{6e-3, 0, true} : Gate{1e-5, 0, true};
  t.add("loss", loss, {expected.loss}, bf16 ? Gate{2e-3, 0} : Gate{1e-5, 0});
  t.add("d_x", dx, expected.dx, gradient);
  t.add("d_weight", dw, expected.dw, gradient);
}

void divergence(CheckTable& t, const CheckTable::Data& target, const std::function<void(const Ops::Divergence&)>& call,
                const std::function<oracle::Divergence(double, double)>& formula) {
  const double rows = static_cast<double>(t.rows);
  auto input = t.random({t.rows, t.c.vocab}, t.type, -3, 1);
  Tensor loss = t.f32({1}), d_input = t.like(input.tensor);
  double total = 0;
  Array gradient;
  for (size_t i = 0; i < input.values.size(); ++i) {
    const oracle::Divergence d = formula(input.values[i], target.values[i]);
    total += d.value / rows;
    gradient.push_back(d.slope / rows);
  }
  call({.input = input.tensor, .target = target.tensor, .loss = loss, .d_input = d_input});
  t.add("loss", loss, {total}, t.f32_scalar);
  t.add("d_input", d_input, gradient, t.probability);
}

void divergences(CheckTable& t) {
  const auto target = [&](double mean, double deviation) {
    return t.random({t.rows, t.c.vocab}, t.type, mean, deviation);
  };
  divergence(
      t, target(0.5, 0.05), [&](const auto& d) { t.ops.kl_div(d); }, oracle::kl_div);
  divergence(
      t, target(-3, 1), [&](const auto& d) { t.ops.tvd(d); }, oracle::tvd);
  divergence(
      t, target(-3, 1), [&](const auto& d) { t.ops.jsd(d, 0.25); },
      [](double x, double y) { return oracle::jsd(x, y, 0.25); });
}

}  // namespace

void check_losses(CheckTable& t) {
  divergences(t);
  cross_entropy(t);
  vocab_parallel_cross_entropy(t);
  fused_linear_cross_entropy(t);
  fused_linear_jsd(t);
}

}  // namespace train
