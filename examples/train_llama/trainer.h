// Trains the model step by step.
#pragma once

#include "checkpoint.h"
#include "optimiser.h"
#include "text.h"

namespace train {

class Trainer {
 public:
  Trainer(Model& model, Ops& ops, const TrainConfig& config, const Text& text);

  int64_t done() const { return done_; }
  // Compiles all kernels or loads them from the cache. It computes one gradient and one held-out
  // loss, and discards them.
  void warm_up();
  // Runs one step: forward, backward, clip, AdamW. Throws Diverged if the loss or the gradients'
  // norm is not finite. If the norm is not finite, the device itself skips AdamW. So the host can
  // enqueue the whole step before it waits for the loss.
  void step();
  // Throws Diverged if the next step's loss or gradient norm would not be finite. Only a state that
  // passes should be saved.
  void verify();
  double latest_bits() const;  // bits per byte of the last step's batch
  // Returns bits per byte on `batches` batches of held-out text. Throws Diverged if it is not
  // finite.
  double held_out_bits(int64_t batches);
  // Returns held_out_bits, and appends it to the history.
  double evaluate(int64_t batches);
  const History& history() const { return history_; }

  Checkpoint checkpoint();
  void resume(const Checkpoint& checkpoint);

 private:
  void start_gradient();  // computes loss, gradient and gradient norm of the next step's batch
  float loss_of_step();   // waits for the loss; throws Diverged if it or the norm is not finite

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
