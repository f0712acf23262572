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
  // Forward, backward, clip, AdamW. Throws Diverged before AdamW when the loss or the gradients' norm is not finite: on
  // a GPU that answer is waited for.
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
  float next_loss();  // of the next step's batch, whose gradient is then there

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
