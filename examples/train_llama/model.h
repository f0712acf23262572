// A Llama-style language model: weights, activations, forward and backward on the training device.
//
//   stream = embedding[tokens]
//   per layer:  stream += out(attention(rope(qkv(norm(stream)))));  stream += down(swiglu(gate_up(norm(stream))))
//   loss = mean cross-entropy of head(norm(stream))
//
// Every residual sum happens inside the norm that follows it (add_rms_norm), and in the backward inside that norm's
// gradient, so that the stream is read and written once per half layer. Softmax, RoPE, SwiGLU's gradient and the
// gradient of the logits overwrite their input.
#pragma once

#include <span>

#include "matmul.h"
#include "ops.h"
#include "parameters.h"

namespace train {

class Model {
 public:
  // On a GPU activations and the weights that products read are bf16; master weights and gradients are f32 everywhere.
  Model(const ModelConfig& config, int64_t largest_batch, Ops& ops, Matmul& matmul);

  const ModelConfig& config() const { return config_; }
  const ParameterLayout& layout() const { return layout_; }
  const Tensor& weights() const { return weights_; }      // f32 masters
  const Tensor& weight_copy() const { return copy_; }     // bf16 on a GPU, empty on a CPU
  const Tensor& gradients() const { return gradients_; }  // f32
  void set_weights(std::span<const float> weights);
  // The weights as products and kernels see them: rounded to bf16 on a GPU.
  std::vector<float> seen_weights();

  // Gradients of the mean loss of tokens.size() / context sequences; the loss goes to one f32 element on the device.
  void gradient_step(std::span<const int64_t> tokens, std::span<const int64_t> labels, const Tensor& loss);
  double loss(std::span<const int64_t> tokens, std::span<const int64_t> labels);
  // Logits after `position` of one sequence of config.context tokens.
  std::vector<float> next_logits(std::span<const int64_t> tokens, int64_t position);

 private:
  struct Norm {
    Tensor sum, y, rstd;  // sum: the stream at this point
  };
  struct Layer {
    Norm attention_norm, ffn_norm;
    Tensor qkv, probabilities, attended, gate_up, activated;
  };

  Tensor parameter(const Tensor& flat, int index) const;
  Tensor weight(int index) const { return parameter(copy_.data ? copy_ : weights_, index); }
  Tensor gradient(int index) const { return parameter(gradients_, index); }
  Tensor positions(const Tensor& qkv, int64_t first_head, int64_t heads) const;  // [batch, context, heads, head_dim]
  Matrix heads(const Tensor& x, int64_t first_head, int64_t stride_in_heads, bool transposed = false) const;

  void allocate(int64_t batch);
  void make_rope_tables();
  void linear(const Tensor& y, const Tensor& x, int index);
  void linear_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, int index);
  void norm_backward(const Tensor& dy, const Norm& norm, int index);
  void rope(const Tensor& qkv, bool inverse);
  void attention(const Layer& layer);
  void attention_backward(const Layer& layer, const Tensor& d_attended);
  void forward(std::span<const int64_t> tokens);
  void backward();

  const ModelConfig config_;
  const ParameterLayout layout_;
  Ops& ops_;
  Matmul& matmul_;
  const Type type_;
  int64_t batch_ = 0, rows_ = 0;  // of the current step

  Tensor weights_, copy_, gradients_;
  Tensor tokens_, labels_, cos_, sin_, branch_, logits_, loss_;
  std::vector<Layer> layers_;
  Norm final_norm_;
  Tensor d_stream_, d_norm_, d_qkv_, d_probabilities_, d_attended_, d_activated_;
};

}  // namespace train
