// Comparisons with float64: single kernels on the model's shapes, and one whole training step.
#pragma once

#include <string>
#include <vector>

#include "model.h"

namespace train {

struct Comparison {
  std::string name;    // kernel or parameter
  std::string output;  // which of its results
  std::string shape;
  double error = 0;                             // elementwise: largest |a - r| / max |r|; normwise: |a - r| / |r|
  double of_gate = 0;                           // the worst error as a fraction of what is allowed there
  std::string gate;                             // what is allowed
  bool passed() const { return of_gate <= 1; }  // false for NaN
};

// Gates: |a - r| <= atol * max|r| + rtol * |r| at every element, or |a - r| <= gate * |r| for whole arrays.
struct Gate {
  double rtol, atol;
  bool normwise = false;
};
// row > 0: max|r| is that of each row of so many elements.
Comparison compare(std::string name, std::string output, std::string shape, const std::vector<double>& got,
                   const std::vector<double>& expected, Gate gate, int64_t row = 0);
// A tensor's elements as float64.
std::vector<double> fetch(Ops& ops, const Tensor& t);
// Uploads values rounded to the tensor's type and returns what it now holds.
std::vector<double> fill(Ops& ops, const Tensor& t, std::vector<double> values);

// Every kernel that the model uses, at its shapes with `batch` sequences, on random data.
std::vector<Comparison> compare_kernels(const ModelConfig& config, int64_t batch, Ops& ops);

// Loss and every parameter's gradient of one step against the float64 model.
std::vector<Comparison> compare_step(Model& model, Ops& ops, std::span<const int64_t> tokens,
                                     std::span<const int64_t> labels, uint64_t seed);

// Prints one line each; returns whether all passed.
bool print_comparisons(const std::vector<Comparison>& comparisons);

}  // namespace train
