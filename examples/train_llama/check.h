// Comparisons with float64: single kernels on the model's shapes, and one whole training step.
#pragma once

#include <string>
#include <vector>

#include "model.h"

namespace train {

struct Comparison {
  std::string name;    // the library's operation, or a parameter
  std::string output;  // results by the library's names, separated by spaces
  std::string shape;
  std::string variant;  // layout or options of the operation, if there are several
  double error = 0;     // elementwise: largest |a - r| / max |r|; normwise: |a - r| / |r|
  double of_gate = 0;   // largest error as a fraction of the gate
  std::string gate;     // text of the gate
  bool passed() const { return of_gate <= 1; }  // false for NaN
};

// Gates: |a - r| <= atol * max|r| + rtol * |r| at every element, or |a - r| <= gate * |r| for whole
// arrays.
struct Gate {
  double rtol, atol;
  bool normwise = false;
};
// If row > 0, max|r| is that of each row of `row` elements.
Comparison compare(std::string name, std::string output, std::string shape,
                   const std::vector<double>& got, const std::vector<double>& expected, Gate gate,
                   int64_t row = 0);
// Returns a tensor's elements as float64.
std::vector<double> fetch(Ops& ops, const Tensor& t);
// Uploads values rounded to the tensor's type; returns the rounded values.
std::vector<double> fill(Ops& ops, const Tensor& t, std::vector<double> values);

// Compares the model's operations on random data, at the model's shapes with `batch` sequences. An
// output of an operation that `ops` called fails if it has no comparison.
std::vector<Comparison> compare_kernels(const ModelConfig& config, int64_t batch, Ops& ops);
// Returns one failed comparison for each output in `operations` that `made` does not cover.
std::vector<Comparison> missing_checks(std::span<const Ops::Operation> operations,
                                       const std::vector<Comparison>& made);

// Compares the loss and every parameter's gradient of one step with the float64 model.
std::vector<Comparison> compare_step(Model& model, Ops& ops, std::span<const int64_t> tokens,
                                     std::span<const int64_t> labels, uint64_t seed);

// Prints one line per comparison; returns true if all passed.
bool print_comparisons(const std::vector<Comparison>& comparisons);

}  // namespace train
