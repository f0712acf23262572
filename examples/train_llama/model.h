// A Llama-style language model: weights, activations, forward and backward on the training device.
//
//   stream = embedding[tokens]
//   per layer:  stream += out(attention(rope(qkv(norm(stream)))))
//               stream += down(swiglu(gate_up(norm(stream))))
//   loss = mean cross-entropy of head(norm(stream))
//
// Every residual sum is fused with the norm that follows it (add_rms_norm), and its backward with
// that norm's gradient. So each half layer reads and writes the stream once. RoPE, the gradient of
// SwiGLU and the gradient of the logits overwrite their inputs. The gradient of a matmul's input
// overwrites the input, except the output of attention, which the gradient of attention reads.
#pragma once

#include <span>

#include "attention.h"
#include "parameters.h"

namespace train {

class Model {
 public:
  // On a GPU, activations and weights of matmuls are bf16. Master weights and gradients are always
  // f32.
  Model(const ModelConfig& config, int64_t largest_batch, Ops& ops, Matmul& matmul,
        AttentionKind attention, const MemoryPlan& memory = {});

  const ModelConfig& config() const { return config_; }
  const ParameterLayout& layout() const { return layout_; }
  const Tensor& weights() const { return weights_; }      // f32 masters
  const Tensor& weight_copy() const { return copy_; }     // bf16 on a GPU, empty on a CPU
  const Tensor& gradients() const { return gradients_; }  // f32
  void set_weights(std::span<const float> weights);
  // Returns the weights as the kernels read them: on a GPU, rounded to bf16.
  std::vector<float> seen_weights();

  // Computes the gradients of the mean loss over tokens.size() / context sequences. Writes the loss
  // to `loss`, one f32 on the device.
  void gradient_step(std::span<const int64_t> tokens, std::span<const int64_t> labels,
                     const Tensor& loss);
  double loss(std::span<const int64_t> tokens, std::span<const int64_t> labels);
  // Returns the logits for the token after `position`, given one sequence of config.context tokens.
  std::vector<float> next_logits(std::span<const int64_t> tokens, int64_t position);

 private:
  struct Norm {
    Tensor sum, y, rstd;  // sum: the stream, input of the norm
  };
  struct Layer {
    Norm attention_norm, ffn_norm;
    Tensor qkv, attention_kept, attended, gate_up, activated;
  };

  Tensor parameter(const Tensor& flat, int index) const;
  Tensor weight(int index) const { return parameter(copy_.data ? copy_ : weights_, index); }
  Tensor gradient(int index) const { return parameter(gradients_, index); }

  void allocate(int64_t batch);
  void linear(const Tensor& y, const Tensor& x, int index);
  void linear_backward(const Tensor& dy, const Tensor& x, int index, const Tensor& dx);
  void linear_backward(const Tensor& dy, const Tensor& x, int index) {
    linear_backward(dy, x, index, x);
  }
  void norm(const Norm& norm, const Tensor& stream, int index);
  void norm_backward(const Tensor& dy, const Norm& norm, int index);
  void forward_layer(size_t i, bool again);
  void forward(std::span<const int64_t> tokens);
  void head(std::span<const int64_t> labels, const Tensor& loss, bool with_gradient);
  void backward();

  const ModelConfig config_;
  const ParameterLayout layout_;
  Ops& ops_;
  Matmul& matmul_;
  const Type type_;
  const MemoryPlan memory_;
  const std::unique_ptr<Attention> attention_;
  int64_t batch_ = 0, rows_ = 0;  // sequences and tokens of the current step

  Tensor weights_, copy_, gradients_;
  // branch_: output of a half layer, which the next norm adds to the stream. In the backward pass
  // it is the gradient of attention's output. logits_: one row if the lm_head is fused with its
  // loss.
  Tensor tokens_, labels_, branch_, logits_, loss_;
  std::vector<Layer> layers_;
  Norm final_norm_;
  Tensor d_stream_, d_qkv_;
};

}  // namespace train
