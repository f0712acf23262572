// Rotary position embedding, and attention by the library's operation.
#include "attention.h"

#include <cmath>

namespace train {
namespace {

constexpr int64_t kMostHeadDim = 256;  // largest head_dim of the library's operation

}  // namespace

const char* name_of(AttentionKind kind) {
  return kind == AttentionKind::fused ? "fused" : "products";
}

AttentionKind default_attention(const ModelConfig& config) {
  return config.head_dim() <= kMostHeadDim ? AttentionKind::fused : AttentionKind::products;
}

Attention::Attention(const ModelConfig& c, Ops& ops)
    : config_(c), scale_(1 / std::sqrt(static_cast<double>(c.head_dim()))), ops_(ops) {
  const int64_t width = c.head_dim();
  std::vector<float> cosines(c.context * width), sines(cosines.size());
  for (size_t i = 0; i < cosines.size(); ++i) {
    int64_t position = i / width, pair = i % width % (width / 2);
    double angle = position * std::pow(c.rope_base, -2.0 * pair / width);
    cosines[i] = static_cast<float>(std::cos(angle));
    sines[i] = static_cast<float>(std::sin(angle));
  }
  cos_ = ops.allocate(Type::f32, {c.context, width});
  sin_ = ops.allocate(Type::f32, {c.context, width});
  ops.upload(cos_, cosines.data());
  ops.upload(sin_, sines.data());
}

Ops::Heads Attention::heads(int64_t batch, const Tensor& qkv) const {
  const int64_t width = config_.head_dim(), row = config_.qkv_width();
  auto part = [&](int64_t first, int64_t count) {
    return qkv.strided({batch, config_.context, count, width},
                       {config_.context * row, row, width, 1}, first * width);
  };
  const int64_t keys = config_.heads, values = keys + config_.kv_heads;
  return {part(0, config_.heads), part(keys, config_.kv_heads), part(values, config_.kv_heads)};
}

void Attention::rope(int64_t batch, const Tensor& qkv, bool inverse) {
  const Ops::Heads turned = heads(batch, qkv);
  ops_.rope(turned.q, turned.k, cos_, sin_, inverse);
}

void Attention::forward(int64_t batch, const Tensor& attended, const Tensor& qkv,
                        const Tensor& kept) {
  rope(batch, qkv, false);
  attend(batch, attended, qkv, kept);
}

void Attention::backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended,
                         const Tensor& attended, const Tensor& qkv, const Tensor& kept) {
  attend_backward(batch, d_qkv, d_attended, attended, qkv, kept);
  rope(batch, d_qkv, true);
}

namespace {

class FusedAttention : public Attention {
 public:
  FusedAttention(const ModelConfig& config, int64_t largest_batch, Ops& ops)
      : Attention(config, ops), largest_batch_(largest_batch) {}

  Tensor make_kept() override {
    return ops_.allocate(Type::f32, {largest_batch_, config_.heads, config_.context});
  }

 private:
  void attend(int64_t batch, const Tensor& attended, const Tensor& qkv,
              const Tensor& kept) override {
    ops_.attention(outputs(batch, attended), kept.rows(batch), heads(batch, qkv), scale_);
  }

  void attend_backward(int64_t batch, const Tensor& d_qkv, const Tensor& d_attended,
                       const Tensor& attended, const Tensor& qkv, const Tensor& kept) override {
    ops_.attention_backward(heads(batch, d_qkv), outputs(batch, d_attended),
                            outputs(batch, attended), kept.rows(batch), heads(batch, qkv), scale_);
  }

  Tensor outputs(int64_t batch, const Tensor& attended) const {
    return attended.view({batch, config_.context, config_.heads, config_.head_dim()});
  }

  const int64_t largest_batch_;
};

}  // namespace

std::unique_ptr<Attention> make_fused_attention(const ModelConfig& config, int64_t largest_batch,
                                                Ops& ops) {
  return std::make_unique<FusedAttention>(config, largest_batch, ops);
}

}  // namespace train
