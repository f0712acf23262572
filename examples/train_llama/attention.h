// Causal attention in plain matrix products: scores, softmax, a sum of values. Rotary positions are part of it.
//
// Each key and value head serves heads / kv_heads query heads. Scores are made for a block at a time: some sequences,
// and some of their queries with all keys that these may see. Without a limit of memory one block is everything.
#pragma once

#include "config.h"
#include "matmul.h"
#include "ops.h"

namespace train {

class Attention {
 public:
  // score_bytes: of one block's scores, less than twice of it in a backward; 0: callers keep the probabilities.
  Attention(const ModelConfig& config, int64_t largest_batch, int64_t score_bytes, Type type, Ops& ops, Matmul& matmul);

  // Probabilities for the caller to keep from forward to backward; empty where they are computed again.
  Tensor make_probabilities();
  // qkv: [batch * context, qkv_width]; its queries and keys are turned in place. attended: [batch * context, width].
  void forward(int64_t batch, const Tensor& attended, const Tensor& qkv, const Tensor& probabilities);
  // qkv as forward left it.
  void backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended, const Tensor& qkv,
                const Tensor& probabilities);

 private:
  struct Block {
    int64_t sequence, sequences, query, queries;  // the first ones, and how many
    int64_t keys() const { return query + queries; }
  };
  template <class Body>
  void for_each_block(int64_t batch, Body body) const;
  Matrix heads(const Tensor& x, const Block& block, int64_t position, int64_t head, int64_t step,
               bool transposed = false) const;
  Matrix matrices(const Tensor& scores, const Block& block, int64_t group, bool transposed = false) const;
  Tensor scores(const Tensor& memory, const Block& block) const;
  void make_rope_tables();
  void rope(int64_t batch, const Tensor& qkv, bool inverse);
  void attend(const Block& block, const Tensor& qkv, const Tensor& probabilities);

  const ModelConfig config_;
  const int64_t batch_;
  const Type type_;
  const bool keep_;
  const double scale_;
  const int64_t group_;  // query heads of a key head
  Ops& ops_;
  Matmul& matmul_;
  int64_t sequences_, queries_;  // of a block
  Tensor cos_, sin_, scores_, d_scores_;
};

}  // namespace train
