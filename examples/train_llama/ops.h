// Everything the trainer asks of libligerdsl, in the trainer's own words. ops.cpp is the only file that includes
// ligerdsl.h.
//
// Every operation of the model that is not a matrix product is one of these calls. Tensors are on the device that the
// Ops were made for; calls are ordered on one stream. A failing call throws std::runtime_error with the library's
// message.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor.h"

namespace train {

class Ops {
 public:
  // device: "cpu" or "cuda:N". threads: CPU workers, 0 = all cores.
  Ops(const std::string& device, int threads);
  ~Ops();
  Ops(const Ops&) = delete;

  bool on_gpu() const;
  int device_index() const;
  void* stream() const;  // a CUstream, NULL on a CPU

  // Zeroed memory; lives as long as the Ops.
  Tensor allocate(Type type, std::initializer_list<int64_t> shape);
  int64_t allocated_bytes() const;
  void upload(const Tensor& to, const void* from);
  void download(void* to, const Tensor& from);  // returns when the bytes are there
  // Waits for the stream; throws if a kernel met a token or label that is out of range.
  void check();

  void embedding(const Tensor& out, const Tensor& table, const Tensor& ids);
  void embedding_backward(const Tensor& d_table, const Tensor& d_out, const Tensor& ids);

  void rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& weight, double eps);
  void rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y, const Tensor& x,
                         const Tensor& weight, const Tensor& rstd);
  // sum = x + residual, y = norm(sum); sum may be residual.
  void add_rms_norm(const Tensor& y, const Tensor& sum, const Tensor& rstd, const Tensor& x, const Tensor& residual,
                    const Tensor& weight, double eps);
  // d_x = gradient through the norm + d_sum; d_x may be d_sum.
  void add_rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y, const Tensor& d_sum,
                             const Tensor& sum, const Tensor& weight, const Tensor& rstd);

  // In place; q and k are [batch, positions, heads, head_dim]. inverse: the backward.
  void rope(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin, bool inverse);

  // x: [..., queries, keys]. In place.
  void causal_softmax(const Tensor& x, double scale);
  // d_y becomes d_x.
  void causal_softmax_backward(const Tensor& d_y, const Tensor& y, double scale);

  void swiglu(const Tensor& out, const Tensor& gate_up);
  // gate_up becomes its gradient.
  void swiglu_backward(const Tensor& gate_up, const Tensor& d_out);

  // The mean loss, one element. with_gradient: logits become their gradient in the same pass.
  void cross_entropy(const Tensor& loss, const Tensor& logits, const Tensor& labels, bool with_gradient);

  // norm and clip_factor, one element each, stay on the device.
  void global_norm(const Tensor& norm, const Tensor& clip_factor, const Tensor& gradients, double max_norm);

  struct AdamW {
    double lr, beta1, beta2, eps, weight_decay;
    int64_t step;  // from 1
  };
  // copy: bf16 copy of the parameters, or an empty tensor.
  void adamw(const Tensor& parameters, const Tensor& copy, const Tensor& gradients, const Tensor& m, const Tensor& v,
             const Tensor& clip_factor, const AdamW& settings);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What the library was built from, for results.
std::string library_build();

}  // namespace train
