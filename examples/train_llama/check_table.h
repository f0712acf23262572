// Shared by the files check_*.cpp: random data on the device, calls of kernels, comparisons with
// float64.
//
// Inputs are rounded to the kernel's type before the float64 result is computed, so that an error
// is the kernel's alone. For a kernel that overwrites an input, that result uses the values before
// the call.
#pragma once

#include "check.h"
#include "oracle.h"

namespace train {

class CheckTable {
 public:
  CheckTable(const ModelConfig& config, int64_t batch, Ops& ops);

  struct Data {
    Tensor tensor;
    oracle::Array values;  // contents of the tensor
  };
  struct Ids {
    Tensor tensor;
    std::vector<int64_t> values;
  };
  using Shape = std::initializer_list<int64_t>;

  Data random(Shape shape, Type type, double mean = 0, double deviation = 1);
  Data random(Shape shape) { return random(shape, type); }
  Ids random_ids(int64_t count, int64_t below);
  Tensor f32(Shape shape) { return ops.allocate(Type::f32, shape); }
  Tensor like(const Tensor& t);

  // Compares `got`, written by the latest operation, with its expected values.
  void add(const char* outputs, const Tensor& got, const oracle::Array& expected, Gate gate,
           int64_t row = 0);
  void add(const char* outputs, std::string shape, const oracle::Array& got,
           const oracle::Array& expected, Gate gate);
  void variant(std::string name) { variant_ = std::move(name); }  // for the comparisons after it
  void failed(const std::string& reason);  // records a failure of the latest operation
  std::vector<Comparison> finish();

  const ModelConfig& c;
  const int64_t batch, rows;
  Ops& ops;
  const Type type;  // dtype of activations
  Gate elementwise, twice_rounded, probability, reduction;
  const Gate f32_elementwise{1e-5, 1e-6}, f32_scalar{2e-6, 0}, bf16_elementwise{8e-3, 1e-4},
      exact{0, 0};

 private:
  std::string variant_;
  uint64_t draws_ = 0;
  std::vector<Comparison> out_;
};

void check_norms(CheckTable& table);
void check_elementwise(CheckTable& table);  // embedding, matmuls, SwiGLU
void check_attention(CheckTable& table);    // rope, softmax, attention
void check_losses(CheckTable& table);
void check_optimiser(CheckTable& table);

}  // namespace train
