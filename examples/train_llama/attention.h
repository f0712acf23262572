// Causal attention with rotary position embedding. Each key and value head is shared by heads /
// kv_heads query heads.
#pragma once

#include <memory>

#include "config.h"
#include "matmul.h"
#include "ops.h"

namespace train {

// fused: the library's operation. `products`: matmuls with scores in memory.
enum class AttentionKind { fused, products };
const char* name_of(AttentionKind kind);
// Returns `fused` if the library's operation supports the configuration, else `products`.
AttentionKind default_attention(const ModelConfig& config);

class Attention {
 public:
  virtual ~Attention() = default;
  Attention(const Attention&) = delete;

  // Allocates the memory in which a layer saves what its backward pass needs. Returns an empty
  // tensor if the backward pass recomputes everything.
  virtual Tensor make_kept() = 0;
  // qkv: [batch * context, qkv_width]; rotates its queries and keys in place. attended: [batch *
  // context, width].
  void forward(int64_t batch, const Tensor& attended, const Tensor& qkv, const Tensor& kept);
  // attended, qkv and kept must hold what the forward pass stored there.
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

// Uses the library's operation. A layer saves the lse of each query and stores no scores.
std::unique_ptr<Attention> make_fused_attention(const ModelConfig& config, int64_t largest_batch,
                                                Ops& ops);

// Uses matmuls: scores, softmax, weighted values. score_bytes limits the scores in memory. The
// backward pass recomputes them and also holds their gradient, within twice the limit. If
// score_bytes is 0, there is no limit, and layers save their probabilities.
std::unique_ptr<Attention> make_product_attention(const ModelConfig& config, int64_t largest_batch,
                                                  int64_t score_bytes, Type type, Ops& ops,
                                                  Matmul& matmul);

}  // namespace train
