// Comparisons with float64: single kernels on the model's shapes, and one whole training step.
#pragma once

#include <string>
#include <vector>

#include "model.h"

namespace train {

struct Comparison {
  std::string name;    // name of the library's operation, or of a parameter
  std::string output;  // names of the operation's outputs, separated by spaces
  std::string shape;
  std::string variant;  // layout or options, if an operation is compared with several
  double error = 0;     // elementwise: largest |a - r| / max |r|; normwise: |a - r| / |r|
  double of_gate = 0;   // largest quotient of error and gate
  std::string gate;     // the gate as text
  bool passed() const { return of_gate <= 1; }  // false for NaN
};

// Gates: |a - r| <= atol * max|r| + rtol * |r| at every element, or |a - r| <= gate * |r| for whole
// arrays.
struct Gate {
  double rtol, atol;
  bool normwise = false;
};
// If row > 0, max|r| is computed separately for each row of `row` elements.
Comparison compare(std::string name, std::string output, std::string shape,
                   const std::vector<double>& got, const std::vector<double>& expected, Gate gate,
                   int64_t row = 0);
// Returns a tensor's elements as float64.
std::vector<double> fetch(Ops& ops, const Tensor& t);
// Uploads the values, rounded to the tensor's type. Returns the rounded values.
std::vector<double> fill(Ops& ops, const Tensor& t, std::vector<double> values);

// Compares the model's operations on random data, at the model's shapes with `batch` sequences.
// Each output of an operation that `ops` called needs a comparison; an output without one is a
// failed comparison.
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
