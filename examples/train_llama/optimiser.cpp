#include "optimiser.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace train {

Optimiser::Optimiser(Model& model, Ops& ops, const TrainConfig& config)
    : model_(model),
      ops_(ops),
      config_(config),
      m_(ops.allocate(Type::f32, {model.layout().total})),
      v_(ops.allocate(Type::f32, {model.layout().total})),
      clip_factor_(ops.allocate(Type::f32, {1})),
      nonfinite_(ops.allocate(Type::i32, {1})) {}

double Optimiser::learning_rate(int64_t step) const {
  if (step < config_.warmup) return config_.lr * (step + 1) / config_.warmup;
  double progress = static_cast<double>(step - config_.warmup) /
                    std::max<int64_t>(config_.steps - config_.warmup, 1);
  double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(progress, 1.0)));
  return config_.lr * (config_.final_lr + (1 - config_.final_lr) * cosine);
}

void Optimiser::gradient_norm(const Tensor& norm) {
  ops_.global_norm(norm, clip_factor_, model_.gradients(), config_.clip, nonfinite_);
}

void Optimiser::update(int64_t step) {
  const int64_t decayed = model_.layout().decayed, rest = model_.layout().total - decayed;
  auto update = [&](int64_t count, int64_t offset, double weight_decay) {
    auto part = [&](const Tensor& t) { return t.data ? t.view({count}, offset) : t; };
    ops_.adamw(part(model_.weights()), part(model_.weight_copy()), part(model_.gradients()),
               part(m_), part(v_), clip_factor_, nonfinite_,
               {learning_rate(step), config_.beta1, config_.beta2, config_.adam_eps, weight_decay,
                step + 1});
  };
  update(decayed, 0, config_.weight_decay);
  update(rest, decayed, 0);
}

}  // namespace train
