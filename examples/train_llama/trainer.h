// The optimiser around the model: one step at a time, losses kept on the device until somebody asks.
#pragma once

#include "checkpoint.h"
#include "model.h"
#include "text.h"

namespace train {

class Trainer {
 public:
  Trainer(Model& model, Ops& ops, const TrainConfig& config, const Text& text);

  int64_t done() const { return done_; }
  double learning_rate(int64_t step) const;  // linear warm-up, then cosine
  // One gradient and one held-out loss, thrown away: compiles the kernels, or finds them in the cache.
  void warm_up();
  // Forward, backward, clip, AdamW. Does not wait for a GPU.
  void step();
  // Bits per byte of the training batch at a step done by this run. Waits for the device.
  double training_bits(int64_t step);
  // Bits per byte on `batches` batches of held-out text.
  double held_out_bits(int64_t batches);

  Checkpoint checkpoint();
  void resume(const Checkpoint& checkpoint);

 private:
  Model& model_;
  Ops& ops_;
  const TrainConfig config_;
  const Text& text_;
  Tensor m_, v_, losses_, norm_, clip_factor_;
  int64_t done_ = 0;
};

}  // namespace train
