// Attention by matmuls. Scores are computed block by block. A block has queries [q, q + n) of some
// sequences, with all keys that these queries may see. Without a memory limit, one block has all
// queries of all sequences.
#include <algorithm>

#include "attention.h"

namespace train {
namespace {

constexpr int64_t kAlign =
    64;  // queries per block are a multiple of this, so that rows of scores are aligned

// Returns the queries per block of one sequence, so that the block's scores fit in `bytes`. A long
// sequence has at least two blocks: the first one then needs only half of the keys.
int64_t queries_of(int64_t context, int64_t bytes_of_query, int64_t bytes) {
  const int64_t half = (context / 2 + kAlign - 1) / kAlign * kAlign, room = bytes / bytes_of_query;
  return std::clamp<int64_t>(room >= kAlign ? room / kAlign * kAlign : room, 1,
                             std::min(half, context));
}

class ProductAttention : public Attention {
 public:
  ProductAttention(const ModelConfig& config, int64_t largest_batch, int64_t score_bytes, Type type,
                   Ops& ops, Matmul& matmul);
  Tensor make_kept() override;

 private:
  struct Block {
    int64_t sequence, sequences, query, queries;  // first sequence and count; first query and count
    int64_t keys() const { return query + queries; }
  };
  void attend(int64_t batch, const Tensor& attended, const Tensor& qkv,
              const Tensor& kept) override;
  void attend_backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended,
                       const Tensor& attended, const Tensor& qkv, const Tensor& kept) override;
  template <class Body>
  void for_each_block(int64_t batch, Body body) const;
  Matrix of_heads(const Tensor& x, const Block& block, int64_t position, int64_t head, int64_t step,
                  bool transposed = false) const;
  Matrix of_scores(const Tensor& scores, const Block& block, int64_t group,
                   bool transposed = false) const;
  Tensor scores(const Tensor& memory, const Block& block) const;
  void make_probabilities(const Block& block, const Tensor& qkv, const Tensor& probabilities);

  const int64_t batch_;
  const Type type_;
  const bool keep_;
  const int64_t group_;  // query heads per key head
  Matmul& matmul_;
  int64_t sequences_, queries_;  // per block
  Tensor scores_, d_scores_;
};

ProductAttention::ProductAttention(const ModelConfig& c, int64_t largest_batch, int64_t score_bytes,
                                   Type type, Ops& ops, Matmul& matmul)
    : Attention(c, ops),
      batch_(largest_batch),
      type_(type),
      keep_(score_bytes == 0),
      group_(c.heads / c.kv_heads),
      matmul_(matmul),
      sequences_(largest_batch),
      queries_(c.context) {
  if (!keep_) {
    const int64_t bytes_of_query = c.heads * c.context * size_of(type);
    queries_ = queries_of(c.context, bytes_of_query, score_bytes);
    sequences_ = std::clamp<int64_t>(score_bytes / (bytes_of_query * queries_), 1, largest_batch);
    scores_ = ops.allocate(type, {sequences_ * c.heads, queries_, c.context});
  }
  d_scores_ = ops.allocate(type, {sequences_ * c.heads, queries_, c.context});
}

Tensor ProductAttention::make_kept() {
  return keep_ ? ops_.allocate(type_, {batch_ * config_.heads, config_.context, config_.context})
               : Tensor();
}

// Calls body for a sequence's last queries first. They see all keys, so they overwrite the
// gradients of keys and values; blocks of earlier queries add to them.
template <class Body>
void ProductAttention::for_each_block(int64_t batch, Body body) const {
  for (int64_t s = 0; s < batch; s += sequences_) {
    for (int64_t q = (config_.context - 1) / queries_ * queries_; q >= 0; q -= queries_) {
      body(Block{s, std::min(sequences_, batch - s), q, std::min(queries_, config_.context - q)});
    }
  }
}

// Returns a batch of matrices with head_dim columns. It has one matrix for each sequence of the
// block and for heads head, head + step, ... of x. Row 0 is the token at `position`.
Matrix ProductAttention::of_heads(const Tensor& x, const Block& b, int64_t position, int64_t head,
                                  int64_t step, bool transposed) const {
  const int64_t row = x.shape[1], width = config_.head_dim();
  return {x.view({1}, (b.sequence * config_.context + position) * row + head * width).data,
          type_,
          row,
          transposed,
          config_.context * row,
          step * width};
}

// Returns a batch of score matrices [queries, keys] for query heads g, g + group, ..., which belong
// to key heads 0, 1, ...
Matrix ProductAttention::of_scores(const Tensor& scores, const Block& b, int64_t g,
                                   bool transposed) const {
  const int64_t size = b.queries * b.keys();
  return {scores.view({1}, g * size).data,
          type_,
          b.keys(),
          transposed,
          config_.heads * size,
          group_ * size};
}

Tensor ProductAttention::scores(const Tensor& memory, const Block& b) const {
  return memory.view({b.sequences * config_.heads, b.queries, b.keys()});
}

void ProductAttention::make_probabilities(const Block& b, const Tensor& qkv,
                                          const Tensor& probabilities) {
  const Matrix keys = of_heads(qkv, b, 0, config_.heads, 1, true);
  for (int64_t g = 0; g < group_; ++g) {
    matmul_.multiply_batch(b.sequences, config_.kv_heads, b.queries, b.keys(), config_.head_dim(),
                           1, of_heads(qkv, b, b.query, g, group_), keys, 0,
                           of_scores(probabilities, b, g));
  }
  ops_.causal_softmax(scores(probabilities, b), scale_);
}

void ProductAttention::attend(int64_t batch, const Tensor& attended, const Tensor& qkv,
                              const Tensor& kept) {
  const Tensor& p = keep_ ? kept : scores_;
  for_each_block(batch, [&](const Block& b) {
    make_probabilities(b, qkv, p);
    const Matrix values = of_heads(qkv, b, 0, config_.heads + config_.kv_heads, 1);
    for (int64_t g = 0; g < group_; ++g) {
      matmul_.multiply_batch(b.sequences, config_.kv_heads, b.queries, config_.head_dim(), b.keys(),
                             1, of_scores(p, b, g), values, 0,
                             of_heads(attended, b, b.query, g, group_));
    }
  });
}

void ProductAttention::attend_backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended,
                                       const Tensor&, const Tensor& qkv, const Tensor& kept) {
  const Tensor &p = keep_ ? kept : scores_, &dp = d_scores_;
  const int64_t d = config_.head_dim(), nq = config_.heads, nk = config_.kv_heads;
  for_each_block(batch, [&](const Block& b) {
    if (!keep_) make_probabilities(b, qkv, p);
    const int64_t queries = b.queries, keys = b.keys();
    auto added = [&](int64_t g) { return g > 0 || keys < config_.context ? 1.0f : 0.0f; };
    for (int64_t g = 0; g < group_; ++g) {
      const Matrix d_out = of_heads(d_attended, b, b.query, g, group_);
      matmul_.multiply_batch(b.sequences, nk, queries, keys, d, 1, d_out,
                             of_heads(qkv, b, 0, nq + nk, 1, true), 0, of_scores(dp, b, g));
      matmul_.multiply_batch(b.sequences, nk, keys, d, queries, 1, of_scores(p, b, g, true), d_out,
                             added(g), of_heads(d_qkv, b, 0, nq + nk, 1));
    }
    ops_.causal_softmax_backward(scores(dp, b), scores(p, b), scale_);
    for (int64_t g = 0; g < group_; ++g) {
      matmul_.multiply_batch(b.sequences, nk, queries, d, keys, 1, of_scores(dp, b, g),
                             of_heads(qkv, b, 0, nq, 1), 0, of_heads(d_qkv, b, b.query, g, group_));
      matmul_.multiply_batch(b.sequences, nk, keys, d, queries, 1, of_scores(dp, b, g, true),
                             of_heads(qkv, b, b.query, g, group_), added(g),
                             of_heads(d_qkv, b, 0, nq, 1));
    }
  });
}

}  // namespace

std::unique_ptr<Attention> make_product_attention(const ModelConfig& config, int64_t largest_batch,
                                                  int64_t score_bytes, Type type, Ops& ops,
                                                  Matmul& matmul) {
  return std::make_unique<ProductAttention>(config, largest_batch, score_bytes, type, ops, matmul);
}

}  // namespace train
