// The optimiser around the model: one step at a time.
#pragma once

#include "checkpoint.h"
#include "optimiser.h"
#include "text.h"

namespace train {

class Trainer {
 public:
  Trainer(Model& model, Ops& ops, const TrainConfig& config, const Text& text);

  int64_t done() const { return done_; }
  // One gradient and one held-out loss, thrown away: compiles the kernels, or finds them in the cache.
  void warm_up();
  // Forward, backward, clip, AdamW. Throws Diverged when the loss or the gradients' norm is not finite. With such a norm the device
  // leaves AdamW out, so that the host waits for the loss only when all of the step is under way.
  void step();
  // Throws Diverged when the next step could not be done: what a state that is worth saving must pass.
  void verify();
  double latest_bits() const;  // bits per byte of the last step's batch
  // Bits per byte on `batches` batches of held-out text. Throws Diverged when it is not finite.
  double held_out_bits(int64_t batches);
  // The same, and a point of the history.
  double evaluate(int64_t batches);
  const History& history() const { return history_; }

  Checkpoint checkpoint();
  void resume(const Checkpoint& checkpoint);

 private:
  void start_gradient();  // of the next step's batch: its loss, its gradient, and the gradient's norm
  float loss_of_step();   // waits for it; throws Diverged

  Model& model_;
  Ops& ops_;
  const TrainConfig config_;
  const Text& text_;
  Optimiser optimiser_;
  Tensor loss_and_norm_;
  History history_;
  int64_t done_ = 0;
};

}  // namespace train
