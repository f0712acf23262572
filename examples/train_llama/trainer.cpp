#include "trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace train {

Trainer::Trainer(Model& model, Ops& ops, const TrainConfig& config, const Text& text)
    : model_(model), ops_(ops), config_(config), text_(text) {
  int64_t total = model.layout().total;
  m_ = ops.allocate(Type::f32, {total});
  v_ = ops.allocate(Type::f32, {total});
  losses_ = ops.allocate(Type::f32, {std::max<int64_t>(config.steps, 1)});
  norm_ = ops.allocate(Type::f32, {1});
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
  model_.gradient_step(batch.tokens, batch.labels, losses_.view({1}));
  model_.loss(batch.tokens, batch.labels);
}

void Trainer::step() {
  Batch batch = training_batch(text_, config_.batch, model_.config().context, config_.seed, done_);
  model_.gradient_step(batch.tokens, batch.labels, losses_.view({1}, done_));
  ops_.global_norm(norm_, clip_factor_, model_.gradients(), config_.clip);
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
  ++done_;
}

double Trainer::training_bits(int64_t step) {
  float loss = 0;
  ops_.download(&loss, losses_.view({1}, step));
  return loss / std::numbers::ln2;
}

double Trainer::held_out_bits(int64_t batches) {
  double nats = 0;
  for (int64_t i = 0; i < batches; ++i) {
    Batch batch = held_out_batch(text_, config_.batch, model_.config().context, i, batches);
    nats += model_.loss(batch.tokens, batch.labels) / batches;
  }
  return nats / std::numbers::ln2;
}

Checkpoint Trainer::checkpoint() {
  Checkpoint c{model_.config(), done_, {}, {}, {}};
  for (auto [array, tensor] : {std::pair{&c.weights, &model_.weights()}, {&c.m, &m_}, {&c.v, &v_}}) {
    array->resize(tensor->size());
    ops_.download(array->data(), *tensor);
  }
  return c;
}

void Trainer::resume(const Checkpoint& c) {
  model_.set_weights(c.weights);
  ops_.upload(m_, c.m.data());
  ops_.upload(v_, c.v.data());
  done_ = c.step;
}

}  // namespace train
