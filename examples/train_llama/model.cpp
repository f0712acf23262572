#include "model.h"

#include <cmath>
#include <stdexcept>

#include "bf16.h"

namespace train {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw std::runtime_error(message);
}

ModelConfig checked(const ModelConfig& c) {
  require(c.layers > 0 && c.heads > 0 && c.kv_heads > 0 && c.width > 0 && c.ffn > 0 && c.context > 1,
          "the model needs positive sizes and a context of at least 2");
  require(c.width % c.heads == 0,
          "width " + std::to_string(c.width) + " is not a multiple of " + std::to_string(c.heads) + " heads");
  require(c.head_dim() % 2 == 0, "head width " + std::to_string(c.head_dim()) + " is odd; RoPE rotates pairs");
  require(c.heads % c.kv_heads == 0,
          std::to_string(c.heads) + " heads are not a multiple of " + std::to_string(c.kv_heads) + " kv heads");
  return c;
}

}  // namespace

Model::Model(const ModelConfig& config, int64_t largest_batch, Ops& ops, Matmul& matmul)
    : config_(checked(config)),
      layout_(config),
      ops_(ops),
      matmul_(matmul),
      type_(ops.on_gpu() ? Type::bf16 : Type::f32) {
  weights_ = ops.allocate(Type::f32, {layout_.total});
  gradients_ = ops.allocate(Type::f32, {layout_.total});
  if (type_ == Type::bf16) copy_ = ops.allocate(Type::bf16, {layout_.total});
  allocate(largest_batch);
  make_rope_tables();
}

void Model::allocate(int64_t batch) {
  const ModelConfig& c = config_;
  int64_t rows = batch * c.context;
  auto norm = [&] {
    return Norm{ops_.allocate(type_, {rows, c.width}), ops_.allocate(type_, {rows, c.width}),
                ops_.allocate(Type::f32, {rows})};
  };
  tokens_ = ops_.allocate(Type::i64, {rows});
  labels_ = ops_.allocate(Type::i64, {rows});
  loss_ = ops_.allocate(Type::f32, {1});
  branch_ = ops_.allocate(type_, {rows, c.width});
  logits_ = ops_.allocate(type_, {rows, c.vocab});
  for (int64_t i = 0; i < c.layers; ++i) {
    layers_.push_back({norm(), norm(), ops_.allocate(type_, {rows, c.qkv_width()}),
                       ops_.allocate(type_, {batch * c.heads, c.context, c.context}),
                       ops_.allocate(type_, {rows, c.width}), ops_.allocate(type_, {rows, 2 * c.ffn}),
                       ops_.allocate(type_, {rows, c.ffn})});
  }
  final_norm_ = norm();
  d_stream_ = ops_.allocate(type_, {rows, c.width});
  d_norm_ = ops_.allocate(type_, {rows, c.width});
  d_qkv_ = ops_.allocate(type_, {rows, c.qkv_width()});
  d_probabilities_ = ops_.allocate(type_, {batch * c.heads, c.context, c.context});
  d_attended_ = ops_.allocate(type_, {rows, c.width});
  d_activated_ = ops_.allocate(type_, {rows, c.ffn});
}

void Model::make_rope_tables() {
  int64_t width = config_.head_dim();
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

void Model::set_weights(std::span<const float> weights) {
  ops_.upload(weights_, weights.data());
  if (!copy_.data) return;
  std::vector<uint16_t> rounded(weights.size());
  for (size_t i = 0; i < rounded.size(); ++i) rounded[i] = to_bf16(weights[i]);
  ops_.upload(copy_, rounded.data());
}

std::vector<float> Model::seen_weights() {
  std::vector<float> weights(layout_.total);
  ops_.download(weights.data(), weights_);
  if (copy_.data) {
    for (float& w : weights) w = from_bf16(to_bf16(w));
  }
  return weights;
}

Tensor Model::parameter(const Tensor& flat, int index) const {
  const Parameter& p = layout_.all[index];
  return p.rows == 1 ? flat.view({p.cols}, p.offset) : flat.view({p.rows, p.cols}, p.offset);
}

// ---- Products
// -----------------------------------------------------------------------------------------------------------

void Model::linear(const Tensor& y, const Tensor& x, int index) {
  const Parameter& p = layout_.all[index];
  matmul_.multiply(rows_, p.rows, p.cols, 1, matrix(x), matrix(weight(index), true), 0, matrix(y));
}

void Model::linear_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, int index) {
  const Parameter& p = layout_.all[index];
  matmul_.multiply(p.rows, p.cols, rows_, 1, matrix(dy, true), matrix(x), 0, matrix(gradient(index)));
  matmul_.multiply(rows_, p.cols, p.rows, 1, matrix(dy), matrix(weight(index)), 0, matrix(dx));
}

// One [context, head_dim] matrix per sequence and every `stride_in_heads`-th head of x, from `first_head` on.
Matrix Model::heads(const Tensor& x, int64_t first_head, int64_t stride_in_heads, bool transposed) const {
  int64_t row = x.shape[1], width = config_.head_dim();
  return {x.view({1}, first_head * width).data, type_, row, transposed, config_.context * row, stride_in_heads * width};
}

// ---- Attention
// ------------------------------------------------------------------------------------------------------------

Tensor Model::positions(const Tensor& qkv, int64_t first_head, int64_t heads) const {
  int64_t width = config_.head_dim(), row = config_.qkv_width();
  return qkv.strided({batch_, config_.context, heads, width}, {config_.context * row, row, width, 1},
                     first_head * width);
}

void Model::rope(const Tensor& qkv, bool inverse) {
  ops_.rope(positions(qkv, 0, config_.heads), positions(qkv, config_.heads, config_.kv_heads), cos_, sin_, inverse);
}

// Each key and value head serves `group` query heads; query heads g, g + group, ... meet key heads 0, 1, ... in one
// batch.
void Model::attention(const Layer& layer) {
  const int64_t t = config_.context, d = config_.head_dim(), nq = config_.heads, nk = config_.kv_heads, group = nq / nk;
  Tensor scores = layer.probabilities.rows(batch_ * nq);
  auto matrices = [&](int64_t g) {
    return Matrix{scores.view({1}, g * t * t).data, type_, t, false, nq * t * t, group * t * t};
  };
  Matrix keys = heads(layer.qkv, nq, 1, true), values = heads(layer.qkv, nq + nk, 1);
  for (int64_t g = 0; g < group; ++g) {
    matmul_.multiply_batch(batch_, nk, t, t, d, 1, heads(layer.qkv, g, group), keys, 0, matrices(g));
  }
  ops_.causal_softmax(scores, 1 / std::sqrt(static_cast<double>(d)));
  for (int64_t g = 0; g < group; ++g) {
    matmul_.multiply_batch(batch_, nk, t, d, t, 1, matrices(g), values, 0, heads(layer.attended, g, group));
  }
}

void Model::attention_backward(const Layer& layer, const Tensor& d_attended) {
  const int64_t t = config_.context, d = config_.head_dim(), nq = config_.heads, nk = config_.kv_heads, group = nq / nk;
  auto matrices = [&](const Tensor& x, int64_t g, bool transposed) {
    return Matrix{x.view({1}, g * t * t).data, type_, t, transposed, nq * t * t, group * t * t};
  };
  const Tensor& p = layer.probabilities;
  const Tensor& dp = d_probabilities_;
  for (int64_t g = 0; g < group; ++g) {
    Matrix dout = heads(d_attended, g, group);
    matmul_.multiply_batch(batch_, nk, t, t, d, 1, dout, heads(layer.qkv, nq + nk, 1, true), 0, matrices(dp, g, false));
    matmul_.multiply_batch(batch_, nk, t, d, t, 1, matrices(p, g, true), dout, g > 0, heads(d_qkv_, nq + nk, 1));
  }
  ops_.causal_softmax_backward(dp.rows(batch_ * nq), p.rows(batch_ * nq), 1 / std::sqrt(static_cast<double>(d)));
  for (int64_t g = 0; g < group; ++g) {
    Matrix queries = heads(layer.qkv, g, group), dqueries = heads(d_qkv_, g, group);
    matmul_.multiply_batch(batch_, nk, t, d, t, 1, matrices(dp, g, false), heads(layer.qkv, nq, 1), 0, dqueries);
    matmul_.multiply_batch(batch_, nk, t, d, t, 1, matrices(dp, g, true), queries, g > 0, heads(d_qkv_, nq, 1));
  }
}

// ---- The whole model
// ------------------------------------------------------------------------------------------------------

void Model::forward(std::span<const int64_t> tokens) {
  rows_ = static_cast<int64_t>(tokens.size());
  batch_ = rows_ / config_.context;
  require(rows_ > 0 && rows_ % config_.context == 0 && rows_ <= tokens_.shape[0],
          "a step takes 1 to " + std::to_string(tokens_.shape[0] / config_.context) + " whole sequences");
  ops_.upload(tokens_.rows(rows_), tokens.data());
  auto r = [&](const Tensor& t) { return t.rows(rows_); };
  // stream += branch and its norm; the first layer has no branch yet.
  auto norm = [&](const Norm& n, const Tensor& stream, bool has_branch, int index) {
    if (has_branch) {
      ops_.add_rms_norm(r(n.y), r(n.sum), r(n.rstd), r(branch_), r(stream), weight(index), config_.norm_eps);
    } else {
      ops_.rms_norm(r(n.y), r(n.rstd), r(stream), weight(index), config_.norm_eps);
    }
  };

  Tensor stream = layers_[0].attention_norm.sum;
  ops_.embedding(r(stream), weight(layout_.embedding), r(tokens_));
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const ParameterLayout::Layer& index = layout_.layers[i];
    norm(layer.attention_norm, stream, i > 0, index.attention_norm);
    linear(layer.qkv, layer.attention_norm.y, index.qkv);
    rope(layer.qkv, false);
    attention(layer);
    linear(branch_, layer.attended, index.out);
    norm(layer.ffn_norm, layer.attention_norm.sum, true, index.ffn_norm);
    linear(layer.gate_up, layer.ffn_norm.y, index.gate_up);
    ops_.swiglu(r(layer.activated), {.gate_up = r(layer.gate_up)});
    linear(branch_, layer.activated, index.down);
    stream = layer.ffn_norm.sum;
  }
  norm(final_norm_, stream, true, layout_.final_norm);
  linear(logits_, final_norm_.y, layout_.head);
}

// d_stream, the gradient of the stream after this norm's branch, becomes that before the norm.
void Model::norm_backward(const Tensor& dy, const Norm& norm, int index) {
  auto r = [&](const Tensor& t) { return t.rows(rows_); };
  ops_.add_rms_norm_backward(r(d_stream_), gradient(index), r(dy), r(d_stream_), r(norm.sum), weight(index),
                             r(norm.rstd));
}

// From the gradient of the logits, which stands where the logits stood.
void Model::backward() {
  auto r = [&](const Tensor& t) { return t.rows(rows_); };
  linear_backward(d_norm_, logits_, final_norm_.y, layout_.head);
  ops_.rms_norm_backward(r(d_stream_), gradient(layout_.final_norm), r(d_norm_), r(final_norm_.sum),
                         weight(layout_.final_norm), r(final_norm_.rstd));
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    const ParameterLayout::Layer& index = layout_.layers[i];
    linear_backward(d_activated_, d_stream_, layer.activated, index.down);
    const Ops::Gated gated{.gate_up = r(layer.gate_up)};
    ops_.swiglu_backward(gated, r(d_activated_), gated);
    linear_backward(d_norm_, layer.gate_up, layer.ffn_norm.y, index.gate_up);
    norm_backward(d_norm_, layer.ffn_norm, index.ffn_norm);

    linear_backward(d_attended_, d_stream_, layer.attended, index.out);
    attention_backward(layer, d_attended_);
    rope(d_qkv_, true);
    linear_backward(d_norm_, d_qkv_, layer.attention_norm.y, index.qkv);
    norm_backward(d_norm_, layer.attention_norm, index.attention_norm);
  }
  ops_.embedding_backward(gradient(layout_.embedding), r(d_stream_), r(tokens_));
}

void Model::gradient_step(std::span<const int64_t> tokens, std::span<const int64_t> labels, const Tensor& loss) {
  forward(tokens);
  ops_.upload(labels_.rows(rows_), labels.data());
  Tensor logits = logits_.rows(rows_);
  ops_.cross_entropy({.logits = logits, .labels = labels_.rows(rows_), .loss = loss, .d_logits = logits});
  backward();
}

double Model::loss(std::span<const int64_t> tokens, std::span<const int64_t> labels) {
  forward(tokens);
  ops_.upload(labels_.rows(rows_), labels.data());
  ops_.cross_entropy({.logits = logits_.rows(rows_), .labels = labels_.rows(rows_), .loss = loss_});
  float value = 0;
  ops_.download(&value, loss_);
  return value;
}

std::vector<float> Model::next_logits(std::span<const int64_t> tokens, int64_t position) {
  forward(tokens);
  Tensor row = logits_.view({config_.vocab}, position * config_.vocab);
  std::vector<float> out(config_.vocab);
  if (type_ == Type::f32) {
    ops_.download(out.data(), row);
  } else {
    std::vector<uint16_t> rounded(config_.vocab);
    ops_.download(rounded.data(), row);
    for (size_t i = 0; i < out.size(); ++i) out[i] = from_bf16(rounded[i]);
  }
  return out;
}

}  // namespace train
