#include "attention.h"

#include <algorithm>
#include <cmath>

namespace train {
namespace {

constexpr int64_t kAlign = 64;  // queries of a block: rows of scores begin where wide loads may

// Queries of one sequence whose scores are at most so many bytes. At least two blocks of a long sequence: the first has
// half the keys.
int64_t queries_of(int64_t context, int64_t bytes_of_query, int64_t bytes) {
  const int64_t half = (context / 2 + kAlign - 1) / kAlign * kAlign, room = bytes / bytes_of_query;
  return std::clamp<int64_t>(room >= kAlign ? room / kAlign * kAlign : room, 1, std::min(half, context));
}

}  // namespace

Attention::Attention(const ModelConfig& c, int64_t largest_batch, int64_t score_bytes, Type type, Ops& ops,
                     Matmul& matmul)
    : config_(c),
      batch_(largest_batch),
      type_(type),
      keep_(score_bytes == 0),
      scale_(1 / std::sqrt(static_cast<double>(c.head_dim()))),
      group_(c.heads / c.kv_heads),
      ops_(ops),
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
  make_rope_tables();
}

Tensor Attention::make_probabilities() {
  return keep_ ? ops_.allocate(type_, {batch_ * config_.heads, config_.context, config_.context}) : Tensor();
}

// The last queries of a sequence come first: their gradient of keys and values is set, that of earlier ones is added.
template <class Body>
void Attention::for_each_block(int64_t batch, Body body) const {
  for (int64_t s = 0; s < batch; s += sequences_) {
    for (int64_t q = (config_.context - 1) / queries_ * queries_; q >= 0; q -= queries_) {
      body(Block{s, std::min(sequences_, batch - s), q, std::min(queries_, config_.context - q)});
    }
  }
}

// Matrices of head_dim columns, one for each sequence of the block and every `step`-th head of x from `head` on; row 0
// is that of `position`.
Matrix Attention::heads(const Tensor& x, const Block& b, int64_t position, int64_t head, int64_t step,
                        bool transposed) const {
  const int64_t row = x.shape[1], width = config_.head_dim();
  return {x.view({1}, (b.sequence * config_.context + position) * row + head * width).data,
          type_,
          row,
          transposed,
          config_.context * row,
          step * width};
}

// Query heads g, g + group, ... meet key heads 0, 1, ... in one batch: [queries, keys] for each.
Matrix Attention::matrices(const Tensor& scores, const Block& b, int64_t g, bool transposed) const {
  const int64_t size = b.queries * b.keys();
  return {scores.view({1}, g * size).data, type_, b.keys(), transposed, config_.heads * size, group_ * size};
}

Tensor Attention::scores(const Tensor& memory, const Block& b) const {
  return memory.view({b.sequences * config_.heads, b.queries, b.keys()});
}

void Attention::make_rope_tables() {
  const int64_t width = config_.head_dim();
  std::vector<float> cosines(config_.context * width), sines(cosines.size());
  for (size_t i = 0; i < cosines.size(); ++i) {
    int64_t position = i / width, pair = i % width % (width / 2);
    double angle = position * std::pow(config_.rope_base, -2.0 * pair / width);
    cosines[i] = static_cast<float>(std::cos(angle));
    sines[i] = static_cast<float>(std::sin(angle));
  }
  cos_ = ops_.allocate(Type::f32, {config_.context, width});
  sin_ = ops_.allocate(Type::f32, {config_.context, width});
  ops_.upload(cos_, cosines.data());
  ops_.upload(sin_, sines.data());
}

void Attention::rope(int64_t batch, const Tensor& qkv, bool inverse) {
  const int64_t width = config_.head_dim(), row = config_.qkv_width();
  auto positions = [&](int64_t first_head, int64_t heads) {
    return qkv.strided({batch, config_.context, heads, width}, {config_.context * row, row, width, 1},
                       first_head * width);
  };
  ops_.rope(positions(0, config_.heads), positions(config_.heads, config_.kv_heads), cos_, sin_, inverse);
}

void Attention::attend(const Block& b, const Tensor& qkv, const Tensor& probabilities) {
  const Matrix keys = heads(qkv, b, 0, config_.heads, 1, true);
  for (int64_t g = 0; g < group_; ++g) {
    matmul_.multiply_batch(b.sequences, config_.kv_heads, b.queries, b.keys(), config_.head_dim(), 1,
                           heads(qkv, b, b.query, g, group_), keys, 0, matrices(probabilities, b, g));
  }
  ops_.causal_softmax(scores(probabilities, b), scale_);
}

void Attention::forward(int64_t batch, const Tensor& attended, const Tensor& qkv, const Tensor& probabilities) {
  const Tensor& p = keep_ ? probabilities : scores_;
  rope(batch, qkv, false);
  for_each_block(batch, [&](const Block& b) {
    attend(b, qkv, p);
    const Matrix values = heads(qkv, b, 0, config_.heads + config_.kv_heads, 1);
    for (int64_t g = 0; g < group_; ++g) {
      matmul_.multiply_batch(b.sequences, config_.kv_heads, b.queries, config_.head_dim(), b.keys(), 1,
                             matrices(p, b, g), values, 0, heads(attended, b, b.query, g, group_));
    }
  });
}

void Attention::backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended, const Tensor& qkv,
                         const Tensor& probabilities) {
  const Tensor &p = keep_ ? probabilities : scores_, &dp = d_scores_;
  const int64_t d = config_.head_dim(), nq = config_.heads, nk = config_.kv_heads;
  for_each_block(batch, [&](const Block& b) {
    if (!keep_) attend(b, qkv, p);
    const int64_t queries = b.queries, keys = b.keys();
    auto added = [&](int64_t g) { return g > 0 || keys < config_.context ? 1.0f : 0.0f; };
    for (int64_t g = 0; g < group_; ++g) {
      const Matrix d_out = heads(d_attended, b, b.query, g, group_);
      matmul_.multiply_batch(b.sequences, nk, queries, keys, d, 1, d_out, heads(qkv, b, 0, nq + nk, 1, true), 0,
                             matrices(dp, b, g));
      matmul_.multiply_batch(b.sequences, nk, keys, d, queries, 1, matrices(p, b, g, true), d_out, added(g),
                             heads(d_qkv, b, 0, nq + nk, 1));
    }
    ops_.causal_softmax_backward(scores(dp, b), scores(p, b), scale_);
    for (int64_t g = 0; g < group_; ++g) {
      matmul_.multiply_batch(b.sequences, nk, queries, d, keys, 1, matrices(dp, b, g), heads(qkv, b, 0, nq, 1), 0,
                             heads(d_qkv, b, b.query, g, group_));
      matmul_.multiply_batch(b.sequences, nk, keys, d, queries, 1, matrices(dp, b, g, true),
                             heads(qkv, b, b.query, g, group_), added(g), heads(d_qkv, b, 0, nq, 1));
    }
  });
  rope(batch, d_qkv, true);
}

}  // namespace train
