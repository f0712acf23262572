// Offsets of the parameters in one flat array.
//
// Weights, gradients and the optimiser's moments are flat arrays with this layout, so that AdamW
// and the gradient norm are one call each for any number of layers. Matrices come first and norm
// vectors last, so that weight decay covers a prefix.
#pragma once

#include <string>
#include <vector>

#include "config.h"

namespace train {

struct Parameter {
  std::string name;
  int64_t rows = 1, cols = 1;  // a matrix maps cols inputs to rows outputs; a vector is 1 x cols
  int64_t offset = 0;
  double init_std = 0;  // standard deviation of the initial values; 0: all are 1
  int64_t size() const { return rows * cols; }
};

struct ParameterLayout {
  struct Layer {
    int qkv, out, gate_up, down, attention_norm, ffn_norm;  // indices into `all`
  };
  std::vector<Parameter> all;
  std::vector<Layer> layers;
  int embedding = 0, head = 0, final_norm = 0;
  int64_t decayed = 0;  // elements of the prefix with weight decay
  int64_t total = 0;    // elements of the array, padding included

  explicit ParameterLayout(const ModelConfig& config);
};

// Returns normally distributed values for matrices, and 1 for norm weights. They depend only on the
// seed.
std::vector<float> initial_weights(const ParameterLayout& layout, uint64_t seed);

}  // namespace train
