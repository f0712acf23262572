// AdamW over the whole model: moments, learning rate, clipping.
#pragma once

#include "model.h"

namespace train {

class Optimiser {
 public:
  Optimiser(Model& model, Ops& ops, const TrainConfig& config);

  double learning_rate(int64_t step) const;  // linear warm-up, then cosine decay
  // Writes the norm of all gradients to `norm`, one f32 on the device. The next update clips the
  // gradients to the norm config.clip, or is skipped if the norm is not finite.
  void gradient_norm(const Tensor& norm);
  // Updates matrices with weight decay, then norm vectors without it. `step` counts from 0.
  void update(int64_t step);
  const Tensor& m() const { return m_; }
  const Tensor& v() const { return v_; }

 private:
  Model& model_;
  Ops& ops_;
  const TrainConfig config_;
  Tensor m_, v_, clip_factor_, nonfinite_;
};

}  // namespace train
