// The trainer's interface to libligerdsl: only ops*.cpp include ligerdsl.h.
//
// The model consists of these calls, and of matmuls by CBLAS or cuBLAS. Tensors are on the device
// of the Ops object. All calls run in order on one stream. A failing call throws std::runtime_error
// with the library's message.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor.h"

namespace train {

// Pairs of columns of a head that rotate together.
struct RopeLayout {
  enum Kind { half, interleaved, multimodal } kind = half;
  int64_t rotated = 0;                // rotated columns per head; 0 = all
  std::array<int64_t, 3> sections{};  // multimodal: number of angles from each plane
};

class Ops {
 public:
  // device: "cpu" or "cuda:N". threads: CPU workers, 0 = all cores.
  Ops(const std::string& device, int threads);
  ~Ops();
  Ops(const Ops&) = delete;

  bool on_gpu() const;
  int device_index() const;
  void* stream() const;  // a CUstream, NULL on a CPU

  struct Operation {
    std::string name, outputs;  // outputs: names of the tensors that it writes, separated by spaces
  };
  static std::span<const Operation> operations();  // all operations of the library
  std::vector<Operation> called() const;           // called so far, with the outputs requested
  std::string latest() const;                      // name of the last operation called

  // Returns zeroed memory that lives as long as the Ops. Throws if the machine has too little.
  Tensor allocate(Type type, std::initializer_list<int64_t> shape);
  int64_t allocated_bytes() const;
  void upload(const Tensor& to, const void* from);
  void download(void* to, const Tensor& from);  // returns when the bytes are on the host
  // Waits for the stream; throws if a kernel found a token or label out of range.
  void check();

  void embedding(const Tensor& out, const Tensor& table, const Tensor& ids);
  // accumulate: adds to the f32 gradient in d_table.
  void embedding_backward(const Tensor& d_table, const Tensor& d_out, const Tensor& ids,
                          const Tensor& d_positions = {}, bool accumulate = false);

  void rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                double eps);
  void rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y,
                         const Tensor& x, const Tensor& weight, const Tensor& rstd);
  // sum = x + residual, y = norm(sum); sum may be residual.
  void add_rms_norm(const Tensor& y, const Tensor& sum, const Tensor& rstd, const Tensor& x,
                    const Tensor& residual, const Tensor& weight, double eps);
  // d_x = d_sum + the gradient of `sum` through the norm; d_x may be d_sum.
  void add_rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y,
                             const Tensor& d_sum, const Tensor& sum, const Tensor& weight,
                             const Tensor& rstd);

  // In place; q and k are [batch, positions, heads, head_dim]. inverse: rotates back, as in the
  // backward pass. If sin is empty, cos holds (cos, sin) pairs.
  void rope(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin, bool inverse,
            const RopeLayout& layout = {});

  // x: [..., queries, keys]. In place.
  void causal_softmax(const Tensor& x, double scale);
  // Overwrites d_y with d_x.
  void causal_softmax_backward(const Tensor& d_y, const Tensor& y, double scale);

  // Causal attention. q, o: [batch, tokens, heads, head_dim]. k, v: the same with kv_heads heads.
  // lse: [batch, heads, tokens].
  struct Heads {
    Tensor q, k, v;
  };
  void attention(const Tensor& o, const Tensor& lse, const Heads& in, double scale);
  void attention_backward(const Heads& d_in, const Tensor& d_o, const Tensor& o, const Tensor& lse,
                          const Heads& in, double scale);

  // Either gate and up, or gate_up, which holds both. Gradients may overwrite their inputs.
  struct Gated {
    Tensor gate, up, gate_up;
  };
  // gate_up = x weight^T; out = swiglu(gate_up).
  void gated_matmul(const Tensor& out, const Tensor& gate_up, const Tensor& x,
                    const Tensor& weight);
  void swiglu(const Tensor& out, const Gated& in);
  void swiglu_backward(const Gated& d_in, const Tensor& d_out, const Gated& in);

  // The loss is the mean over rows that are not ignored. Outputs whose tensor is empty are not
  // computed. d_logits may be logits.
  struct LossSettings {
    double smoothing = 0, lse_square_scale = 0, softcap = 0;
    int64_t ignored = -100;  // label of ignored rows
    double temperature = 0;  // 0: none
  };
  struct CrossEntropy {
    Tensor logits, labels, loss, d_logits;
    Tensor class_weight, z_loss, accuracy, predictions, lse, entropy, d_entropy;
    LossSettings settings;
  };
  void cross_entropy(const CrossEntropy& c);

  // norm and clip_factor have one element and stay on the device. nonfinite is one i32, or empty.
  // steps and skipped are one i64 each, or empty. A finite norm adds 1 to steps. Any other norm
  // adds 1 to skipped.
  void global_norm(const Tensor& norm, const Tensor& clip_factor, const Tensor& gradients,
                   double max_norm, const Tensor& nonfinite = {}, const Tensor& steps = {},
                   const Tensor& skipped = {});

  struct AdamW {
    double lr, beta1, beta2, eps, weight_decay;
    int64_t step;  // from 1
  };
  // copy: bf16 copy of the parameters, or empty. skip: one i32 on the device, or empty; a value
  // other than 0 skips the step.
  void adamw(const Tensor& parameters, const Tensor& copy, const Tensor& gradients, const Tensor& m,
             const Tensor& v, const Tensor& clip_factor, const Tensor& skip, const AdamW& settings);

  // c = alpha a b + beta c; the tensor of a transposed operand is a^T or b^T.
  struct Operand {
    Tensor tensor;
    bool transposed;
  };
  void matmul(const Tensor& c, const Operand& a, const Operand& b, float alpha = 1, float beta = 0);
  // The same for every matrix of a batch; tensors are [batch, rows, columns].
  void batched_matmul(const Tensor& c, const Operand& a, const Operand& b, float alpha = 1,
                      float beta = 0);
  struct FusedLinearCrossEntropy {
    Tensor x, weight, bias, labels, loss, d_x, d_weight, d_bias;
    Tensor class_weight, z_loss, accuracy, predictions, entropy, d_entropy, lse;
    LossSettings settings;
  };
  // Throws if the machine lacks the matmul library that the operation needs.
  void fused_linear_cross_entropy(const FusedLinearCrossEntropy& c);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns libligerdsl's build information, which the results include.
std::string library_build();

}  // namespace train
