#include "trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace train {
namespace {

const char* describe(double x) {
  return std::isnan(x) ? "is not a number" : "is infinite";
}

}  // namespace

Trainer::Trainer(Model& model, Ops& ops, const TrainConfig& config, const Text& text)
    : model_(model), ops_(ops), config_(config), text_(text) {
  int64_t total = model.layout().total;
  m_ = ops.allocate(Type::f32, {total});
  v_ = ops.allocate(Type::f32, {total});
  loss_and_norm_ = ops.allocate(Type::f32, {2});
  clip_factor_ = ops.allocate(Type::f32, {1});
  model.set_weights(initial_weights(model.layout(), config.seed));
}

double Trainer::learning_rate(int64_t step) const {
  if (step < config_.warmup) return config_.lr * (step + 1) / config_.warmup;
  double progress = static_cast<double>(step - config_.warmup) / std::max<int64_t>(config_.steps - config_.warmup, 1);
  double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(progress, 1.0)));
  return config_.lr * (config_.final_lr + (1 - config_.final_lr) * cosine);
}

void Trainer::warm_up() {
  Batch batch = training_batch(text_, config_.batch, model_.config().context, config_.seed, done_);
  model_.gradient_step(batch.tokens, batch.labels, loss_and_norm_.view({1}));
  model_.loss(batch.tokens, batch.labels);
}

float Trainer::next_loss() {
  Batch batch = training_batch(text_, config_.batch, model_.config().context, config_.seed, done_);
  model_.gradient_step(batch.tokens, batch.labels, loss_and_norm_.view({1}));
  ops_.global_norm(loss_and_norm_.view({1}, 1), clip_factor_, model_.gradients(), config_.clip);
  float now[2];
  ops_.download(now, loss_and_norm_);
  for (int i : {0, 1}) {
    if (std::isfinite(now[i])) continue;
    throw Diverged(fmt::format("step {}: the {} {}; the step was not applied", done_ + 1,
                               i == 0 ? "loss" : "norm of the gradients", describe(now[i])));
  }
  return now[0];
}

void Trainer::verify() {
  next_loss();
}

void Trainer::step() {
  const float loss = next_loss();
  // Matrices with weight decay, then norm vectors without.
  int64_t decayed = model_.layout().decayed, rest = model_.layout().total - decayed;
  auto update = [&](int64_t count, int64_t offset, double weight_decay) {
    auto part = [&](const Tensor& t) { return t.data ? t.view({count}, offset) : t; };
    ops_.adamw(part(model_.weights()), part(model_.weight_copy()), part(model_.gradients()), part(m_), part(v_),
               clip_factor_,
               {learning_rate(done_), config_.beta1, config_.beta2, config_.adam_eps, weight_decay, done_ + 1});
  };
  update(decayed, 0, config_.weight_decay);
  update(rest, decayed, 0);
  history_.losses.push_back(loss);
  ++done_;
}

double Trainer::latest_bits() const {
  return history_.losses.back() / std::numbers::ln2;
}

double Trainer::held_out_bits(int64_t batches) {
  double nats = 0;
  for (int64_t i = 0; i < batches; ++i) {
    Batch batch = held_out_batch(text_, config_.batch, model_.config().context, i, batches);
    nats += model_.loss(batch.tokens, batch.labels) / batches;
  }
  if (!std::isfinite(nats)) throw Diverged(fmt::format("after step {} the held-out loss {}", done_, describe(nats)));
  return nats / std::numbers::ln2;
}

double Trainer::evaluate(int64_t batches) {
  const double bits = held_out_bits(batches);
  history_.held_out.push_back({done_, bits});
  return bits;
}

Checkpoint Trainer::checkpoint() {
  Checkpoint c{model_.config(), config_, text_.digest(), done_, {}, {}, {}, history_};
  for (auto [array, tensor] : {std::pair{&c.weights, &model_.weights()}, {&c.m, &m_}, {&c.v, &v_}}) {
    array->resize(tensor->size());
    ops_.download(array->data(), *tensor);
  }
  return c;
}

void Trainer::resume(const Checkpoint& c) {
  if (static_cast<int64_t>(c.weights.size()) != model_.layout().total) {
    throw std::runtime_error(fmt::format("the checkpoint has {} parameters, this program's layout of the model has {}",
                                         c.weights.size(), model_.layout().total));
  }
  model_.set_weights(c.weights);
  ops_.upload(m_, c.m.data());
  ops_.upload(v_, c.v.data());
  history_ = c.history;
  done_ = c.step;
}

}  // namespace train
