#include "model.h"

#include <stdexcept>

#include "bf16.h"

namespace train {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw std::runtime_error(message);
}

ModelConfig checked(const ModelConfig& c) {
  require(
      c.layers > 0 && c.heads > 0 && c.kv_heads > 0 && c.width > 0 && c.ffn > 0 && c.context > 1,
      "the model needs positive sizes and a context of at least 2");
  require(c.width % c.heads == 0, "width " + std::to_string(c.width) + " is not a multiple of " +
                                      std::to_string(c.heads) + " heads");
  require(c.head_dim() % 2 == 0, "width " + std::to_string(c.width) + " with " +
                                     std::to_string(c.heads) + " heads gives heads of width " +
                                     std::to_string(c.head_dim()) +
                                     "; expected an even number, because RoPE rotates pairs");
  require(c.heads % c.kv_heads == 0, std::to_string(c.heads) + " heads are not a multiple of " +
                                         std::to_string(c.kv_heads) + " kv heads");
  return c;
}

}  // namespace

Model::Model(const ModelConfig& config, int64_t largest_batch, Ops& ops, Matmul& matmul,
             AttentionKind attention, const MemoryPlan& memory)
    : config_(checked(config)),
      layout_(config),
      ops_(ops),
      matmul_(matmul),
      type_(ops.on_gpu() ? Type::bf16 : Type::f32),
      memory_(memory),
      attention_(attention == AttentionKind::fused
                     ? make_fused_attention(config, largest_batch, ops)
                     : make_product_attention(config, largest_batch, memory.score_bytes, type_, ops,
                                              matmul)) {
  weights_ = ops.allocate(Type::f32, {layout_.total});
  gradients_ = ops.allocate(Type::f32, {layout_.total});
  if (type_ == Type::bf16) copy_ = ops.allocate(Type::bf16, {layout_.total});
  allocate(largest_batch);
}

void Model::allocate(int64_t batch) {
  const ModelConfig& c = config_;
  const int64_t rows = batch * c.context;
  auto matrix = [&](int64_t cols) { return ops_.allocate(type_, {rows, cols}); };
  auto norm = [&] {
    return Norm{matrix(c.width), matrix(c.width), ops_.allocate(Type::f32, {rows})};
  };
  auto layer = [&] {
    return Layer{.attention_norm = norm(),
                 .ffn_norm = norm(),
                 .qkv = matrix(c.qkv_width()),
                 .attention_kept = attention_->make_kept(),
                 .attended = matrix(c.width),
                 .gate_up = matrix(2 * c.ffn),
                 .activated = matrix(c.ffn)};
  };
  tokens_ = ops_.allocate(Type::i64, {rows});
  labels_ = ops_.allocate(Type::i64, {rows});
  loss_ = ops_.allocate(Type::f32, {1});
  branch_ = matrix(c.width);
  logits_ = ops_.allocate(type_, {memory_.recompute ? 1 : rows, c.vocab});
  layers_.push_back(layer());
  for (int64_t i = 1; i < c.layers; ++i) {
    layers_.push_back(memory_.recompute ? layers_[0] : layer());
    if (memory_.recompute) layers_.back().attention_norm.sum = matrix(c.width);
  }
  final_norm_ = norm();
  d_stream_ = matrix(c.width);
  d_qkv_ = matrix(c.qkv_width());
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

void Model::linear(const Tensor& y, const Tensor& x, int index) {
  const Parameter& p = layout_.all[index];
  matmul_.multiply(rows_, p.rows, p.cols, 1, matrix(x), matrix(weight(index), true), 0, matrix(y));
}

// dx may be x.
void Model::linear_backward(const Tensor& dy, const Tensor& x, int index, const Tensor& dx) {
  const Parameter& p = layout_.all[index];
  matmul_.multiply(p.rows, p.cols, rows_, 1, matrix(dy, true), matrix(x), 0,
                   matrix(gradient(index)));
  matmul_.multiply(rows_, p.cols, p.rows, 1, matrix(dy), matrix(weight(index)), 0, matrix(dx));
}

// Computes n.sum = stream + branch_ and n.y = norm(n.sum).
void Model::norm(const Norm& n, const Tensor& stream, int index) {
  auto r = [&](const Tensor& t) { return t.rows(rows_); };
  ops_.add_rms_norm(r(n.y), r(n.sum), r(n.rstd), r(branch_), r(stream), weight(index),
                    config_.norm_eps);
}

// Computes a layer up to `activated`, the input of the down projection. The layer's input is the
// previous stream plus branch_; if `again`, that sum is already saved. Recomputed layers share
// memory for everything except that sum.
void Model::forward_layer(size_t i, bool again) {
  auto r = [&](const Tensor& t) { return t.rows(rows_); };
  const Layer& layer = layers_[i];
  const ParameterLayout::Layer& index = layout_.layers[i];
  const Norm& first = layer.attention_norm;
  if (again || i == 0) {
    ops_.rms_norm(r(first.y), r(first.rstd), r(first.sum), weight(index.attention_norm),
                  config_.norm_eps);
  } else {
    norm(first, layers_[i - 1].ffn_norm.sum, index.attention_norm);
  }
  linear(layer.qkv, first.y, index.qkv);
  attention_->forward(batch_, layer.attended, layer.qkv, layer.attention_kept);
  linear(branch_, layer.attended, index.out);
  norm(layer.ffn_norm, first.sum, index.ffn_norm);
  const Tensor gate_up = r(layer.gate_up), activated = r(layer.activated);
  if (!matmul_.swiglu(activated, gate_up, r(layer.ffn_norm.y), weight(index.gate_up))) {
    linear(gate_up, layer.ffn_norm.y, index.gate_up);
    ops_.swiglu(activated, {.gate_up = gate_up});
  }
}

// Runs all layers up to the lm_head.
void Model::forward(std::span<const int64_t> tokens) {
  rows_ = static_cast<int64_t>(tokens.size());
  batch_ = rows_ / config_.context;
  require(rows_ > 0 && rows_ % config_.context == 0 && rows_ <= tokens_.shape[0],
          "a step takes 1 to " + std::to_string(tokens_.shape[0] / config_.context) +
              " whole sequences");
  ops_.upload(tokens_.rows(rows_), tokens.data());
  ops_.embedding(layers_[0].attention_norm.sum.rows(rows_), weight(layout_.embedding),
                 tokens_.rows(rows_));
  for (size_t i = 0; i < layers_.size(); ++i) {
    forward_layer(i, false);
    linear(branch_, layers_[i].activated, layout_.layers[i].down);
  }
  norm(final_norm_, layers_.back().ffn_norm.sum, layout_.final_norm);
}

// Computes the loss. If with_gradient, the gradient of final_norm_.y overwrites final_norm_.y.
void Model::head(std::span<const int64_t> labels, const Tensor& loss, bool with_gradient) {
  ops_.upload(labels_.rows(rows_), labels.data());
  const Tensor x = final_norm_.y.rows(rows_), none;
  if (memory_.recompute) {
    return ops_.fused_linear_cross_entropy(
        {.x = x,
         .weight = weight(layout_.head),
         .labels = labels_.rows(rows_),
         .loss = loss,
         .d_x = with_gradient ? x : none,
         .d_weight = with_gradient ? gradient(layout_.head) : none});
  }
  const Tensor logits = logits_.rows(rows_);
  linear(logits, x, layout_.head);
  ops_.cross_entropy({.logits = logits,
                      .labels = labels_.rows(rows_),
                      .loss = loss,
                      .d_logits = with_gradient ? logits : none});
  if (with_gradient) linear_backward(logits, x, layout_.head);
}

// Adds the gradient through the norm to d_stream_. d_stream_ then is the gradient of the norm's
// input.
void Model::norm_backward(const Tensor& dy, const Norm& norm, int index) {
  auto r = [&](const Tensor& t) { return t.rows(rows_); };
  ops_.add_rms_norm_backward(r(d_stream_), gradient(index), r(dy), r(d_stream_), r(norm.sum),
                             weight(index), r(norm.rstd));
}

// Computes all gradients from the gradient of final_norm_.y, which head() stored in final_norm_.y.
void Model::backward() {
  auto r = [&](const Tensor& t) { return t.rows(rows_); };
  ops_.rms_norm_backward(r(d_stream_), gradient(layout_.final_norm), r(final_norm_.y),
                         r(final_norm_.sum), weight(layout_.final_norm), r(final_norm_.rstd));
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    const ParameterLayout::Layer& index = layout_.layers[i];
    if (memory_.recompute && i + 1 < layers_.size())
      forward_layer(i, true);  // the last layer's activations are still in memory
    linear_backward(d_stream_, layer.activated, index.down);
    const Ops::Gated gated{.gate_up = r(layer.gate_up)};
    ops_.swiglu_backward(gated, r(layer.activated), gated);
    linear_backward(layer.gate_up, layer.ffn_norm.y, index.gate_up);
    norm_backward(layer.ffn_norm.y, layer.ffn_norm, index.ffn_norm);

    linear_backward(d_stream_, layer.attended, index.out, branch_);
    attention_->backward(batch_, d_qkv_, branch_, layer.attended, layer.qkv, layer.attention_kept);
    linear_backward(d_qkv_, layer.attention_norm.y, index.qkv);
    norm_backward(layer.attention_norm.y, layer.attention_norm, index.attention_norm);
  }
  ops_.embedding_backward(gradient(layout_.embedding), r(d_stream_), r(tokens_), {}, config_.tied);
}

void Model::gradient_step(std::span<const int64_t> tokens, std::span<const int64_t> labels,
                          const Tensor& loss) {
  forward(tokens);
  head(labels, loss, true);
  backward();
}

double Model::loss(std::span<const int64_t> tokens, std::span<const int64_t> labels) {
  forward(tokens);
  head(labels, loss_, false);
  float value = 0;
  ops_.download(&value, loss_);
  return value;
}

std::vector<float> Model::next_logits(std::span<const int64_t> tokens, int64_t position) {
  forward(tokens);
  const Tensor row = logits_.view({1, config_.vocab});
  matmul_.multiply(1, config_.vocab, config_.width, 1,
                   matrix(final_norm_.y.view({1, config_.width}, position * config_.width)),
                   matrix(weight(layout_.head), true), 0, matrix(row));
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
