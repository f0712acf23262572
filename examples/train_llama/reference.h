// The whole model in float64: computes the loss and all gradients of one batch by the formulas of
// oracle.h.
#pragma once

#include "oracle.h"
#include "parameters.h"

namespace train {

struct ReferenceResult {
  double loss = 0;
  oracle::Array gradients;  // one flat array, laid out like the parameters
};

// tokens and labels consist of whole sequences of config.context tokens.
ReferenceResult reference_step(const ModelConfig& config, const ParameterLayout& layout,
                               oracle::View weights, std::span<const int64_t> tokens,
                               std::span<const int64_t> labels);

}  // namespace train
