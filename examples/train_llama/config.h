// Configuration of a training run: the model's shape and the optimiser's settings.
#pragma once

#include <cstdint>

namespace train {

struct ModelConfig {
  int64_t layers = 4;
  int64_t heads = 4;     // query heads
  int64_t kv_heads = 2;  // key and value heads; each serves heads / kv_heads query heads
  int64_t width = 128;   // columns of the residual stream (hidden size)
  int64_t ffn = 384;     // columns of the gated feed-forward layer
  int64_t context = 128;
  int64_t vocab = 256;  // tokens are bytes
  double rope_base = 10000;
  double norm_eps = 1e-5;
  bool tied = false;  // the lm_head shares the embedding's weight

  int64_t head_dim() const { return width / heads; }
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim(); }
  bool operator==(const ModelConfig&) const = default;
};

// Choices between keeping activations in memory and recomputing them.
struct MemoryPlan {
  // Layers keep only their input, and the backward pass recomputes them. The lm_head and its loss
  // are then one operation, which never stores all logits.
  bool recompute = false;
  // Largest number of bytes of attention scores in memory; the backward pass recomputes scores. If
  // 0, every layer keeps its scores.
  int64_t score_bytes = 0;
};

struct TrainConfig {
  int64_t batch = 8;  // sequences of `context` tokens per step
  int64_t steps = 1000;
  int64_t warmup = 50;
  double lr = 3e-3;
  double final_lr = 0.05;  // fraction of lr at the last step, after a cosine decay
  double beta1 = 0.9, beta2 = 0.95, adam_eps = 1e-8;
  double weight_decay = 0.1;  // matrices only
  double clip = 1.0;          // largest global gradient norm
  uint64_t seed = 1;
};

}  // namespace train
