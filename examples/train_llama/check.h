// Comparisons with float64: single kernels on the model's shapes, and one whole training step.
#pragma once

#include <string>
#include <vector>

#include "model.h"

namespace train {

struct Comparison {
  std::string name;    // the library's operation, or a parameter
  std::string output;  // which of its results, by the library's names, separated by spaces
  std::string shape;
  std::string variant;                          // which layout or options of the operation, if there are several
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

// Every operation of the library on random data, at the model's shapes with `batch` sequences. An output of an
// operation that nothing here compares is a comparison that failed.
std::vector<Comparison> compare_kernels(const ModelConfig& config, int64_t batch, Ops& ops);
// One failed comparison for each output in `operations` that none of `made` covers.
std::vector<Comparison> missing_checks(std::span<const Ops::Operation> operations, const std::vector<Comparison>& made);

// Loss and every parameter's gradient of one step against the float64 model.
std::vector<Comparison> compare_step(Model& model, Ops& ops, std::span<const int64_t> tokens,
                                     std::span<const int64_t> labels, uint64_t seed);

// Prints one line each; returns whether all passed.
bool print_comparisons(const std::vector<Comparison>& comparisons);

}  // namespace train
