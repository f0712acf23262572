// What a training run is made of: the model's shape and the optimiser's settings.
#pragma once

#include <cstdint>

namespace train {

struct ModelConfig {
  int64_t layers = 4;
  int64_t heads = 4;     // query heads
  int64_t kv_heads = 2;  // key and value heads; each serves heads / kv_heads query heads
  int64_t width = 128;   // of the residual stream
  int64_t ffn = 384;     // of the gated feed-forward
  int64_t context = 128;
  int64_t vocab = 256;  // tokens are bytes
  double rope_base = 10000;
  double norm_eps = 1e-5;
  bool tied = false;  // the head's weight is the embedding

  int64_t head_dim() const { return width / heads; }
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim(); }
  bool operator==(const ModelConfig&) const = default;
};

// What a step keeps in memory, and what it computes again instead.
struct MemoryPlan {
  // A layer keeps its input alone and is computed again in the backward; the head and its loss are one operation, which
  // never has all logits.
  bool recompute = false;
  // Of attention in products at a time, which its backward computes again; 0: every layer keeps its own.
  int64_t score_bytes = 0;
};

struct TrainConfig {
  int64_t batch = 8;  // sequences of `context` tokens per step
  int64_t steps = 1000;
  int64_t warmup = 50;
  double lr = 3e-3;
  double final_lr = 0.05;  // fraction of lr at the last step; cosine in between
  double beta1 = 0.9, beta2 = 0.95, adam_eps = 1e-8;
  double weight_decay = 0.1;  // matrices only
  double clip = 1.0;          // largest global gradient norm
  uint64_t seed = 1;
};

}  // namespace train
