// The whole model in float64: loss and every gradient of one batch, composed of the plain formulas of oracle.h.
#pragma once

#include "oracle.h"
#include "parameters.h"

namespace train {

struct ReferenceResult {
  double loss = 0;
  oracle::Array gradients;  // laid out as the parameters are
};

// tokens and labels: whole sequences of config.context.
ReferenceResult reference_step(const ModelConfig& config, const ParameterLayout& layout, oracle::View weights,
                               std::span<const int64_t> tokens, std::span<const int64_t> labels);

}  // namespace train
