// Causal attention with rotary positions. Each key and value head serves heads / kv_heads query heads.
#pragma once

#include <memory>

#include "config.h"
#include "matmul.h"
#include "ops.h"

namespace train {

// The library's operation, or products with scores in memory.
enum class AttentionKind { fused, products };
const char* name_of(AttentionKind kind);
// Fused wherever the operation is possible.
AttentionKind default_attention(const ModelConfig& config);

class Attention {
 public:
  virtual ~Attention() = default;
  Attention(const Attention&) = delete;

  // What a layer keeps from forward to backward; empty where all of it is computed again.
  virtual Tensor make_kept() = 0;
  // qkv: [batch * context, qkv_width]; its queries and keys are turned in place. attended: [batch * context, width].
  void forward(int64_t batch, const Tensor& attended, const Tensor& qkv, const Tensor& kept);
  // attended, qkv and kept as forward left them.
  void backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended, const Tensor& attended, const Tensor& qkv,
                const Tensor& kept);

 protected:
  Attention(const ModelConfig& config, Ops& ops);
  // Of queries and keys that are turned.
  virtual void attend(int64_t batch, const Tensor& attended, const Tensor& qkv, const Tensor& kept) = 0;
  virtual void attend_backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended, const Tensor& attended,
                               const Tensor& qkv, const Tensor& kept) = 0;
  // qkv's queries, keys and values: [batch, context, heads, head_dim].
  Ops::Heads heads(int64_t batch, const Tensor& qkv) const;

  const ModelConfig config_;
  const double scale_;
  Ops& ops_;

 private:
  void rope(int64_t batch, const Tensor& qkv, bool inverse);

  Tensor cos_, sin_;
};

// The library's own operation: a layer keeps the logarithm of each query's sum, and no scores are in memory.
std::unique_ptr<Attention> make_fused_attention(const ModelConfig& config, int64_t largest_batch, Ops& ops);

// In plain products: scores, softmax, a sum of values. score_bytes: of the scores that are in memory at a time, less
// than twice of it in a backward, which makes them again; 0: of all, and layers keep their probabilities.
std::unique_ptr<Attention> make_product_attention(const ModelConfig& config, int64_t largest_batch, int64_t score_bytes,
                                                  Type type, Ops& ops, Matmul& matmul);

}  // namespace train
