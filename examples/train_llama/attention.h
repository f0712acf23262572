// Causal attention with rotary positions. Each key and value head serves heads / kv_heads query
// heads.
#pragma once

#include <memory>

#include "config.h"
#include "matmul.h"
#include "ops.h"

namespace train {

// The library's operation, or matmuls with scores in memory.
enum class AttentionKind { fused, products };
const char* name_of(AttentionKind kind);
// Returns `fused` if the library's operation supports the configuration.
AttentionKind default_attention(const ModelConfig& config);

class Attention {
 public:
  virtual ~Attention() = default;
  Attention(const Attention&) = delete;

  // Returns the activations that a layer saves for the backward pass, or an empty tensor if it
  // recomputes all.
  virtual Tensor make_kept() = 0;
  // qkv: [batch * context, qkv_width]; rotates its queries and keys in place. attended: [batch *
  // context, width].
  void forward(int64_t batch, const Tensor& attended, const Tensor& qkv, const Tensor& kept);
  // attended, qkv and kept must be unchanged since the forward pass.
  void backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended,
                const Tensor& attended, const Tensor& qkv, const Tensor& kept);

 protected:
  Attention(const ModelConfig& config, Ops& ops);
  // Applies attention to rotated queries and keys.
  virtual void attend(int64_t batch, const Tensor& attended, const Tensor& qkv,
                      const Tensor& kept) = 0;
  virtual void attend_backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended,
                               const Tensor& attended, const Tensor& qkv, const Tensor& kept) = 0;
  // Returns queries, keys and values of qkv as [batch, context, heads, head_dim].
  Ops::Heads heads(int64_t batch, const Tensor& qkv) const;

  const ModelConfig config_;
  const double scale_;
  Ops& ops_;

 private:
  void rope(int64_t batch, const Tensor& qkv, bool inverse);

  Tensor cos_, sin_;
};

// Uses the library's operation: a layer saves the lse of each query, and stores no scores.
std::unique_ptr<Attention> make_fused_attention(const ModelConfig& config, int64_t largest_batch,
                                                Ops& ops);

// Uses matmuls: scores, softmax, weighted values. score_bytes limits the scores in memory; a
// backward pass recomputes them and needs less than twice the limit. If score_bytes is 0, there is
// no limit, and layers save their probabilities.
std::unique_ptr<Attention> make_product_attention(const ModelConfig& config, int64_t largest_batch,
                                                  int64_t score_bytes, Type type, Ops& ops,
                                                  Matmul& matmul);

}  // namespace train
