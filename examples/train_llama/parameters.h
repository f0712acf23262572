// Where each parameter lies in one flat array.
//
// Weights, gradients and the optimiser's moments are flat arrays of this layout, so that AdamW and the gradient norm
// are one call each whatever the number of layers. Matrices come first and norm vectors last: weight decay covers a
// prefix.
#pragma once

#include <string>
#include <vector>

#include "config.h"

namespace train {

struct Parameter {
  std::string name;
  int64_t rows = 1, cols = 1;  // a matrix maps cols inputs to rows outputs; a vector is 1 x cols
  int64_t offset = 0;
  double init_std = 0;  // 0: ones
  int64_t size() const { return rows * cols; }
};

struct ParameterLayout {
  struct Layer {
    int qkv, out, gate_up, down, attention_norm, ffn_norm;  // indices into all
  };
  std::vector<Parameter> all;
  std::vector<Layer> layers;
  int embedding = 0, head = 0, final_norm = 0;
  int64_t decayed = 0;  // elements of the prefix that weight decay covers
  int64_t total = 0;    // elements, padding included

  explicit ParameterLayout(const ModelConfig& config);
};

// Normal deviates for matrices, ones for norms; a function of the seed alone.
std::vector<float> initial_weights(const ParameterLayout& layout, uint64_t seed);

}  // namespace train
