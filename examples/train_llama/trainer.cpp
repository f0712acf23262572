#include "trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace train {
namespace {

const char* describe(double x) {
  return std::isnan(x) ? "is not a number" : "is infinite";
}

}  // namespace

Trainer::Trainer(Model& model, Ops& ops, const TrainConfig& config, const Text& text)
    : model_(model),
      ops_(ops),
      config_(config),
      text_(text),
      optimiser_(model, ops, config),
      loss_and_norm_(ops.allocate(Type::f32, {2})) {
  model.set_weights(initial_weights(model.layout(), config.seed));
}

void Trainer::warm_up() {
  Batch batch = training_batch(text_, config_.batch, model_.config().context, config_.seed, done_);
  model_.gradient_step(batch.tokens, batch.labels, loss_and_norm_.view({1}));
  model_.loss(batch.tokens, batch.labels);
}

void Trainer::start_gradient() {
  Batch batch = training_batch(text_, config_.batch, model_.config().context, config_.seed, done_);
  model_.gradient_step(batch.tokens, batch.labels, loss_and_norm_.view({1}));
  optimiser_.gradient_norm(loss_and_norm_.view({1}, 1));
}

float Trainer::loss_of_step() {
  float now[2];
  ops_.download(now, loss_and_norm_);
  if (!std::isfinite(now[1]))
    throw Diverged(fmt::format("step {}: the norm of the gradients {}; the step was not applied",
                               done_ + 1, describe(now[1])));
  if (!std::isfinite(now[0]))
    throw Diverged(fmt::format("step {}: the loss {}", done_ + 1, describe(now[0])));
  return now[0];
}

void Trainer::verify() {
  start_gradient();
  loss_of_step();
}

void Trainer::step() {
  start_gradient();
  optimiser_.update(done_);
  history_.losses.push_back(loss_of_step());
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
  if (!std::isfinite(nats))
    throw Diverged(fmt::format("after step {} the held-out loss {}", done_, describe(nats)));
  return nats / std::numbers::ln2;
}

double Trainer::evaluate(int64_t batches) {
  const double bits = held_out_bits(batches);
  history_.held_out.push_back({done_, bits});
  return bits;
}

Checkpoint Trainer::checkpoint() {
  Checkpoint c{model_.config(), config_, text_.digest(), done_, {}, {}, {}, history_};
  for (auto [array, tensor] : {std::pair{&c.weights, &model_.weights()},
                               {&c.m, &optimiser_.m()},
                               {&c.v, &optimiser_.v()}}) {
    array->resize(tensor->size());
    ops_.download(array->data(), *tensor);
  }
  return c;
}

void Trainer::resume(const Checkpoint& c) {
  if (static_cast<int64_t>(c.weights.size()) != model_.layout().total) {
    throw std::runtime_error(fmt::format(
        "the checkpoint has {} parameters, but this program's layout of the model has {}",
        c.weights.size(), model_.layout().total));
  }
  model_.set_weights(c.weights);
  ops_.upload(optimiser_.m(), c.m.data());
  ops_.upload(optimiser_.v(), c.v.data());
  history_ = c.history;
  done_ = c.step;
}

}  // namespace train
